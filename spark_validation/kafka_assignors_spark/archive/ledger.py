"""Up to where an archive goes, and what became of all that was read: a small file after every batch.

The ledger decides what is in the archive. A batch whose entry is written is there; files of a batch without
an entry are of a run that was killed, and that batch is still to come. Entries are numbered and never
changed; the latest counts, and a few before it are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kafka_assignors_spark.archive.directory import Directory
from kafka_assignors_spark.archive.result import ArchiveError, Counts
from kafka_assignors_spark.source import LastRead, RangeReport

__all__ = ["Ledger", "LedgerEntry"]

_FOLDER = "_archive/ledger"
_KEPT = 5


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The state of an archive after so many batches.

    Attributes:
        batches: written since the archive was begun; the number of the next one.
        next: the next offset to read, of each partition.
        counts: of all that was read.
        last_timestamp_ms: the latest of all records that were read.
        last_read: the last record that was read of each partition, which shows later whether the log was
            truncated.
    """

    batches: int
    next: Mapping[int, int]
    counts: Counts = field(default_factory=Counts)
    last_timestamp_ms: int | None = None
    last_read: Mapping[int, LastRead] = field(default_factory=dict)

    def after(self, reports: Iterable[RangeReport]) -> LedgerEntry:
        """The state when the batch of these reports is written, too."""
        reports = list(reports)
        next_, last_read = dict(self.next), dict(self.last_read)
        for report in sorted(reports, key=lambda report: report.start):
            if report.last_read is not None:
                last_read[report.partition] = report.last_read
            next_[report.partition] = max(next_[report.partition], report.end)
        stamps = [report.last_timestamp_ms for report in reports if report.last_timestamp_ms is not None]
        if self.last_timestamp_ms is not None:
            stamps.append(self.last_timestamp_ms)
        return replace(
            self,
            batches=self.batches + 1,
            next=next_,
            counts=sum(map(_counts, reports), self.counts),
            last_timestamp_ms=max(stamps, default=None),
            last_read=last_read,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LedgerEntry:
        """The inverse; `ValueError`, `TypeError` or `KeyError` if this is no entry."""
        read: dict[str, Any] = json.loads(text)
        counts = read.pop("counts")
        kinds = {int(version): count for version, count in counts.pop("group_records").items()}
        next_ = {int(partition): offset for partition, offset in read.pop("next").items()}
        last_read = {
            int(partition): LastRead(*map(int, each)) for partition, each in read.pop("last_read").items()
        }
        return cls(next=next_, last_read=last_read, counts=Counts(group_records=kinds, **counts), **read)


def _counts(report: RangeReport) -> Counts:
    return Counts(
        offsets=report.end - report.start,
        group_records=report.group_records,
        offset_commits=report.offset_commits,
        without_key=report.without_key,
        missing=report.missing,
        longest_gap=report.longest_gap,
    )


class Ledger:
    """The entries of an archive, the latest at hand. One thread appends, others may read."""

    def __init__(self, folder: Directory) -> None:
        self._folder = folder
        self.latest: LedgerEntry | None = None
        names = [name for name in folder.names(_FOLDER) if name.endswith(".json")]
        if names:
            where = f"{_FOLDER}/{names[-1]}"
            try:
                self.latest = LedgerEntry.from_json(folder.read(where))
            except (ValueError, TypeError, KeyError) as error:
                raise ArchiveError(f"{folder.at(where)}: not an entry of the ledger: {error!r}") from None

    def append(self, entry: LedgerEntry) -> None:
        self._folder.write(f"{_FOLDER}/{entry.batches:010d}.json", entry.to_json() + "\n")
        self.latest = entry
        for name in self._folder.names(_FOLDER)[:-_KEPT]:
            self._folder.delete(f"{_FOLDER}/{name}")
