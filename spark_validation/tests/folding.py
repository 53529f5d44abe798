"""Records folded in this process, without an engine: the rows of all tables, and the sums of each group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.group_fold import FoldWork, Output, SortedRow, fold_sorted
from kafka_assignors_replay.history.group_replay import GroupReplay, Replayed
from kafka_assignors_replay.history.measures import Measures
from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import group_of, is_commit, to_micros
from kafka_assignors_replay.history.sums import GroupSums
from kafka_assignors_replay.result import Mode
from kafka_assignors_replay.schemas import TABLES


@dataclass
class Folded:
    """The result of a fold."""

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in TABLES})
    sums: dict[str | None, GroupSums] = field(default_factory=dict)
    all_sums: list[GroupSums] = field(default_factory=list)  # includes records without a group name

    def rows(self, table: str, **wanted: object) -> list[dict[str, Any]]:
        """The rows with these values, ordered by offset."""
        found = [
            row for row in self.tables[table] if all(row[name] == value for name, value in wanted.items())
        ]
        return sorted(found, key=lambda row: (row["group"], row.get("partition", 0), row["offset"]))


def sorted_records(rows: Iterable[Mapping[str, Any]]) -> list[SortedRow]:
    """The rows of `schemas.RAW` as an engine sorts them, without offset commits."""

    def place(row: SortedRow) -> tuple[Any, ...]:
        group, partition, offset, key, micros, _ = row
        return group is not None, group or b"", partition, offset, key is not None, key or b"", micros

    records = (
        (
            *(group_of(row["key"]), row["partition"], row["offset"], row["key"]),
            *(to_micros(row["timestamp"]), row["value"]),
        )
        for row in rows
        if not is_commit(row["key"])
    )
    return sorted(records, key=place)


def work_on(records: Iterable[SortedRow], catalogue: Catalogue, **given: Any) -> FoldWork:
    """The work of a replay on all of these records."""
    partitions: dict[bytes | None, set[int]] = {}
    contents: dict[tuple[int, int], set[object]] = {}
    for group, partition, offset, key, micros, value in records:
        partitions.setdefault(group, set()).add(partition)
        contents.setdefault((partition, offset), set()).add((micros, key, value))
    return FoldWork(
        catalogue,
        given.pop("strategies", ("range",)),
        given.pop("modes", tuple(Mode)),
        torn=frozenset(group for group, several in partitions.items() if group and len(several) > 1),
        collided=frozenset(place for place, several in contents.items() if len(several) > 1),
        tables=True,
        **given,
    )


def collect(outputs: Iterable[Output]) -> Folded:
    """The sums and tables of the outputs."""
    found = Folded()
    for output in outputs:
        for name, rows in output.tables.items():
            for row in rows:
                values = dict(zip(TABLES[name].names, row, strict=True))
                for column in ("owned", "assigned", "pending_revocation"):
                    if isinstance(values.get(column), list):
                        values[column] = dict(values[column])
                found.tables[name].append(values)
        if output.sums is not None:
            found.sums[output.sums.group] = output.sums
            found.all_sums.append(output.sums)
    return found


def fold(rows: Iterable[Mapping[str, Any]], catalogue: Catalogue | None = None, **given: Any) -> Folded:
    """Fold rows of `schemas.RAW`."""
    records = sorted_records(rows)
    return collect(fold_sorted(records, work_on(records, catalogue or Catalogue(()), **given)))


def raw_rows(path: Path | str) -> Iterator[dict[str, Any]]:
    """The records of a history directory."""
    folder = Path(path)
    place = folder / "raw" if (folder / "raw").exists() else folder / "raw.parquet"
    yield from pq.read_table(place, partitioning=None).to_pylist()


def measured(row: Replayed) -> Measures:
    """The measures of a row that has no problem."""
    assert row.measures is not None, row.problem
    return row.measures


def replay_group(
    records: Iterable[Generation],
    catalogue: Catalogue,
    strategies: Mapping[str, Strategy],
    modes: Iterable[Mode] = tuple(Mode),
    **given: Any,
) -> Iterator[Replayed]:
    """Replay one group from its ordered records."""
    group = GroupReplay(catalogue, strategies, modes, **given)
    for record in records:
        yield from group.feed(record)
    yield from group.finish()
