"""What an archive holds beside its records, whose records they are, and how a run opens it.

An archive is of one topic of one cluster. Its manifest names both; it is written once, and every later run is
compared with it.

The ledger has a small file after every batch: up to where the archive goes, and what became of all that was
read. It decides what is in the archive. A batch whose entry is written is there; files of a batch without an
entry are of a run that was killed, and that batch is still to come. Entries are numbered and never changed;
the latest counts, and a few before it are kept.

The catalogue has every topic of the cluster, and what it was before it changed: rows of `schemas.TOPICS`, in
a file for each look at the cluster that found something new. The state of a topic before its first entry is
not known, so its first row has no `from` and holds for all times before the next. A deleted topic keeps its
rows.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_assignors_confluent import Connection, NotAuthorizedError
from kafka_assignors_spark.archive import ArchiveError, ArchiveOptions
from kafka_assignors_spark.catalogue import CatalogueEntry
from kafka_assignors_spark.jobs.directory import STAGING, Directory
from kafka_assignors_spark.jobs.session import collect_with_micros
from kafka_assignors_spark.live_cluster import LiveTopic, TopicIdentity, identify_topic, source_errors
from kafka_assignors_spark.result import MANIFEST
from kafka_assignors_spark.schemas import TOPICS
from kafka_assignors_spark.source.messages import MessageCounts, RangeReport
from kafka_assignors_spark.source.planning import LastRead, Planner, SourceOptions

FORMAT = 1


def agree(folder: Directory, found: TopicIdentity) -> None:
    """Require an archive of this topic; an empty folder becomes one.

    `ArchiveError` if what is there is an archive of something else, or no archive.
    """
    if folder.exists(MANIFEST):
        require_same(folder.path, _read_manifest(folder), found)
        return
    if foreign := [name for name in folder.names("") if name != "_archive"]:
        raise ArchiveError(
            f"{folder.path}: {', '.join(foreign[:3])} is there already, and no {MANIFEST}: this is not an "
            "archive; give a folder of its own"
        )
    folder.write(MANIFEST, json.dumps({"format": FORMAT, **asdict(found)}, indent=1) + "\n")


def _read_manifest(folder: Directory) -> TopicIdentity:
    where = folder.at(MANIFEST)
    try:
        read: dict[str, Any] = json.loads(folder.read(MANIFEST))
        number = read["format"]
        if number != FORMAT:
            raise ArchiveError(f"{where}: format {number!r}, and this version knows {FORMAT}")
        return TopicIdentity(**{field.name: read[field.name] for field in fields(TopicIdentity)})
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveError(f"{where}: not the manifest of an archive: {error!r}") from None


def require_same(where: str, archived: TopicIdentity, found: TopicIdentity) -> None:
    """`ArchiveError` if `found` is not what the archive at `where` is of."""
    if archived.cluster_id != found.cluster_id:
        raise ArchiveError(
            f"{where} is the archive of cluster {archived.cluster_id}, and this is cluster "
            f"{found.cluster_id}: give each cluster a folder of its own"
        )
    if archived.topic != found.topic:
        raise ArchiveError(
            f"{where} is the archive of topic {archived.topic}, not of {found.topic}: "
            "give each a folder of its own"
        )
    if archived.topic_id != found.topic_id:
        raise ArchiveError(
            f"topic {found.topic} was created anew since {where} was begun (its id was {archived.topic_id}, "
            f"and is {found.topic_id}): offsets start over, so begin another archive; this one stays readable"
        )
    if archived.partitions != found.partitions:
        raise ArchiveError(
            f"topic {found.topic} has {found.partitions} partitions, and had {archived.partitions} when "
            f"{where} was begun: groups live in other partitions now, so begin another archive; this one "
            "stays readable"
        )


def require_whole(where: str, topic: str, archived: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """`ArchiveError` if the log of a partition ends before the offset up to which it is archived.

    `archived` and `ends` are next offsets by partition; `archived` is from before `ends` were asked for. New
    records take the offsets of those that are gone, so to wait until the log is long enough would skip them.
    """
    for partition, end in sorted(ends.items()):
        if end < archived[partition]:
            raise ArchiveError(
                f"{topic}[{partition}]: the log ends at offset {end}, and {where} has it up to "
                f"{archived[partition]}: the log was truncated (an unclean leader election, or a broker that "
                "lost its disk), and other records get these offsets now; begin another archive; this one "
                "stays readable"
            )


SAFE_LAG_MS = 24 * 3_600_000
"""With less than a day, an archiver that stops in the evening has lost history by the morning."""

_SUGGESTED_LAG_MS = 7 * 24 * 3_600_000


def identify(options: ArchiveOptions) -> TopicIdentity:
    """The cluster and the topic; `SourceError` if the cluster does not tell, or there is no such topic."""
    with source_errors():
        return identify_topic(_connection(options), options.topic)


def _connection(options: ArchiveOptions) -> Connection:
    return Connection(options.bootstrap_servers, options.client_config, options.timeout_seconds)


def compaction_warnings(options: ArchiveOptions) -> list[str]:
    """What to change so that records stay until they are archived; nothing if they do.

    `SourceError` if the cluster does not answer.
    """
    from confluent_kafka.admin import ConfigResource, ResourceType  # pyright: ignore[reportPrivateImportUsage]

    topic, resource = options.topic, ConfigResource(ResourceType.TOPIC, options.topic)
    with source_errors():
        connection = _connection(options)
        request = connection.admin.describe_configs([resource], request_timeout=connection.timeout_s)
        right = f"DescribeConfigs on Topic {topic!r}"
        try:
            told = connection.result("its settings are not shown", request[resource], right)
        except NotAuthorizedError as error:
            return [f"it is not known for how long {topic} keeps its records: {error}"]
    policy = str(told["cleanup.policy"].value)
    lag_ms, retention_ms = (int(told[name].value) for name in ("min.compaction.lag.ms", "retention.ms"))
    warnings = []
    if "compact" in policy and lag_ms < SAFE_LAG_MS:
        warnings.append(
            f"min.compaction.lag.ms of {topic} is {lag_ms}: what the log cleaner takes while no archiver "
            "runs is lost; to keep every record for a week: kafka-configs.sh --bootstrap-server "
            f"{options.bootstrap_servers} --alter --entity-type topics --entity-name {topic} --add-config "
            f"min.compaction.lag.ms={_SUGGESTED_LAG_MS}"
        )
    if "delete" in policy and 0 <= retention_ms < SAFE_LAG_MS:
        warnings.append(
            f"cleanup.policy of {topic} is {policy} and retention.ms {retention_ms}: what is deleted while "
            "no archiver runs is lost"
        )
    return warnings


RAW_FOLDER = "raw"
COMMITTED_FOLDER = "committed"
_LEDGER = "_archive/ledger"
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
    counts: MessageCounts = field(default_factory=MessageCounts)
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
            counts=sum((report.counts for report in reports), self.counts),
            last_timestamp_ms=max(stamps, default=None),
            last_read=last_read,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LedgerEntry:
        """The inverse; `ValueError`, `TypeError` or `KeyError` if this is no entry."""
        read: dict[str, Any] = json.loads(text)
        counts = MessageCounts.from_json(read.pop("counts"))
        next_ = {int(partition): offset for partition, offset in read.pop("next").items()}
        last_read = {
            int(partition): LastRead(*map(int, each)) for partition, each in read.pop("last_read").items()
        }
        return cls(next=next_, last_read=last_read, counts=counts, **read)


class Ledger:
    """The entries of an archive, the latest at hand. One thread appends, others may read."""

    def __init__(self, folder: Directory) -> None:
        self._folder = folder
        self.latest: LedgerEntry | None = None
        names = [name for name in folder.names(_LEDGER) if name.endswith(".json")]
        if names:
            where = f"{_LEDGER}/{names[-1]}"
            try:
                self.latest = LedgerEntry.from_json(folder.read(where))
            except (ValueError, TypeError, KeyError) as error:
                raise ArchiveError(f"{folder.at(where)}: not an entry of the ledger: {error!r}") from None

    def append(self, entry: LedgerEntry) -> None:
        self._folder.write(f"{_LEDGER}/{entry.batches:010d}.json", entry.to_json() + "\n")
        self.latest = entry
        for name in self._folder.names(_LEDGER)[:-_KEPT]:
            self._folder.delete(f"{_LEDGER}/{name}")


TOPICS_FOLDER = "topics"


class CatalogueLog:
    """The catalogue of an archive, which is read once and then only grows."""

    def __init__(self, spark: SparkSession, folder: Directory) -> None:
        self._spark, self._folder = spark, folder
        self._files = [name for name in folder.names(TOPICS_FOLDER) if name.endswith(".parquet")]
        self._known: dict[str, CatalogueEntry] = {}
        if self._files:
            rows = spark.read.schema(from_arrow_schema(TOPICS)).parquet(folder.at(TOPICS_FOLDER))
            read = map(CatalogueEntry.from_row, collect_with_micros(rows))
            for entry in sorted(read, key=lambda entry: (entry.since is not None, entry.since)):
                self._known[entry.topic.name] = entry

    def note(self, found: Iterable[LiveTopic], now: datetime) -> int:
        """Remember what has changed since the last look; how many topics that were."""
        changes = (live.changed(self._known.get(live.topic.name), now) for live in found)
        if new := [entry for entry in changes if entry is not None]:
            self._write(new)
            self._known.update((entry.topic.name, entry) for entry in new)
        return len(new)

    def _write(self, entries: Iterable[CatalogueEntry]) -> None:
        number = int(self._files[-1].partition(".")[0]) + 1 if self._files else 0
        rows = self._spark.createDataFrame([entry.row() for entry in entries], from_arrow_schema(TOPICS))
        name = f"{number:010d}"
        self._folder.write_parquet(rows.coalesce(1), TOPICS_FOLDER, name)
        self._files.append(f"{name}.parquet")


CHECKPOINT = "_archive/checkpoint"
_LOCK = "_archive/lock"


@dataclass(frozen=True, slots=True)
class Archive:
    """The parts of an archive, which is of the topic that `manifest` names."""

    spark: SparkSession
    folder: Directory
    ledger: Ledger
    manifest: TopicIdentity
    catalogue: CatalogueLog

    @property
    def entry(self) -> LedgerEntry:
        assert self.ledger.latest is not None  # `open` sees to it
        return self.ledger.latest

    @classmethod
    @contextlib.contextmanager
    def open(cls, spark: SparkSession, options: ArchiveOptions, found: TopicIdentity) -> Iterator[Archive]:
        """Open the archive at the path of the options, for this process alone until the block ends.

        Raises `ArchiveError` if the archive is of another topic, damaged, or open in another process.
        """
        folder = Directory(spark, options.path)
        agree(folder, found)
        with folder.lock(_LOCK) as locked:
            if not locked:
                raise ArchiveError(
                    f"{folder.path}: another archiver writes to this archive: stop it first, or give this "
                    "one a folder of its own"
                )
            yield cls._opened(folder, spark, options, found)

    @classmethod
    def _opened(
        cls, folder: Directory, spark: SparkSession, options: ArchiveOptions, found: TopicIdentity
    ) -> Archive:
        folder.delete(STAGING)
        ledger = Ledger(folder)
        has_checkpoint = bool(folder.names(CHECKPOINT))
        if ledger.latest is None:
            if has_checkpoint or folder.names(RAW_FOLDER) or folder.names(COMMITTED_FOLDER):
                raise ArchiveError(
                    f"{folder.path}: _archive/ledger is gone, so the archived offsets are not known; "
                    "restore it, or begin another archive"
                )
            offsets = Planner(SourceOptions.parse(source_options(options))).offsets()
            ledger.append(
                LedgerEntry(0, {partition: earliest for partition, (earliest, _) in offsets.items()})
            )
        assert ledger.latest is not None
        if not has_checkpoint:
            remove_files_of(folder, ledger.latest.batches)
        return cls(spark, folder, ledger, found, CatalogueLog(spark, folder))


def source_options(options: ArchiveOptions) -> dict[str, str]:
    """The options of the source that name the cluster and the topic."""
    return {
        **{f"kafka.{name}": value for name, value in options.client_config.items()},
        "bootstrap.servers": options.bootstrap_servers,
        "topic": options.topic,
        "timeoutSeconds": str(options.timeout_seconds),
    }


def remove_files_of(folder: Directory, number: int) -> None:
    """Remove the files that a killed run left of a batch that no run writes again under the same names."""
    for kind in (RAW_FOLDER, COMMITTED_FOLDER):
        for date in folder.names(kind):
            for name in folder.names(f"{kind}/{date}"):
                if name.startswith(f"{number:010d}-"):
                    folder.delete(f"{kind}/{date}/{name}")
