"""Records folded in this process, without an engine: the generations of each group, and its sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.causes import CauseFinder
from kafka_assignors_replay.history.generations import LifeFold, Record
from kafka_assignors_replay.history.group_fold import FoldWork, SortedRow, fold_sorted
from kafka_assignors_replay.history.group_replay import GroupReplay, Replayed
from kafka_assignors_replay.history.kip848_fold import EpochFold
from kafka_assignors_replay.history.measures import Measures
from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import decode_record, group_of, is_commit, to_micros
from kafka_assignors_replay.history.sums import GroupSums
from kafka_assignors_replay.result import Mode


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
        **given,
    )


def sums_of(
    rows: Iterable[Mapping[str, Any]], catalogue: Catalogue | None = None, **given: Any
) -> dict[Any, GroupSums]:
    """The sums of rows of `schemas.RAW`, by group."""
    records = sorted_records(rows)
    work = work_on(records, catalogue or Catalogue(()), **given)
    return {sums.group: sums for sums in fold_sorted(records, work)}


History = dict[str, list[tuple[Generation, list[str]]]]
"""The generations of each group in order, with their causes."""


def history_of(rows: Iterable[Mapping[str, Any]], catalogue: Catalogue | None = None) -> History:
    """The history in rows of `schemas.RAW`, one group after the other."""
    found: History = {}
    topics = catalogue or Catalogue(())
    for _, of_group in groupby(sorted_records(rows), key=itemgetter(0)):
        life, causes = LifeFold(EpochFold(topics), False), CauseFinder(topics)
        for _, partition, offset, key, micros, value in of_group:
            event = decode_record(key, value)
            for generation in life.feed(Record(partition, offset, micros, key, value), event):
                because = causes.feed(generation) if generation.is_of_consumers else ()
                own = found.setdefault(generation.group, [])
                own.append((generation, [cause.value for cause in because]))
    return found


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
