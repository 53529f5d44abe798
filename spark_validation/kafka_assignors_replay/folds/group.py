"""One group in one pass: its records, in order, are decoded, folded into generations, replayed, checked
against the recorded assignments, and searched for causes and faults.

Both engines bring the records of a group together, sort them, run `fold_groups` over them, and collect its
`Output`s. Pure Python without Spark, one record at a time; the memory is that of a few generations of one
group.
"""

from __future__ import annotations

import pickle
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.folds import table_rows
from kafka_assignors_replay.folds.accuracy import CHECKED_STRATEGIES, check_generation
from kafka_assignors_replay.folds.causes import CauseFinder
from kafka_assignors_replay.folds.faults import Fault, FaultFinder, FaultRules
from kafka_assignors_replay.folds.generations import CONFLICT, LifeFold, OwnershipFold, Record
from kafka_assignors_replay.folds.group_replay import GroupReplay, Replayed
from kafka_assignors_replay.folds.kip848 import EpochFold
from kafka_assignors_replay.folds.measures import Measures, Mode, values_of
from kafka_assignors_replay.folds.pause_model import PauseModel
from kafka_assignors_replay.folds.rebalances import CLASSIC, Generation
from kafka_assignors_replay.folds.records import (
    MemberDecoder,
    RecordKind,
    decode_record,
    from_micros,
    to_micros,
)
from kafka_assignors_replay.folds.strategy_guard import StrategyGuard
from kafka_assignors_replay.folds.sums import GroupSums
from kafka_assignors_replay.result import OwnershipSpan, TimelineRow

MOST_TIMELINE_ROWS = 1_000
"""The most rows of a timeline: the latest rebalances of a strategy and mode."""

_MOST_TABLE_ROWS = 2_000
"""With more rows of a group, a fold hands them over."""


@dataclass
class FoldWork:
    """The work on the records, the same for all groups; it is sent to every process that folds.

    Groups are named by the bytes of their ids. `torn` groups have records in several partitions. `collided`
    are the places with different records. `tables` says whether the rows of the tables are wanted.
    """

    catalogue: Catalogue
    strategies: tuple[str, ...]
    modes: tuple[Mode, ...]
    pauses: PauseModel = field(default_factory=PauseModel)
    rules: FaultRules = field(default_factory=FaultRules)
    torn: frozenset[bytes | None] = frozenset()
    collided: frozenset[tuple[int, int]] = frozenset()
    tables: bool = False
    guard: StrategyGuard = field(default_factory=StrategyGuard)

    @cached_property
    def loaded(self) -> dict[str, Strategy]:
        """The strategies, loaded once in each process."""
        return {name: load_strategy(name) for name in (*self.strategies, *CHECKED_STRATEGIES)}

    def __getstate__(self) -> dict[str, Any]:
        # Another process loads the strategies itself, once it has the import path of this one.
        return {name: value for name, value in self.__dict__.items() if name != "loaded"}


class SortedRecord(NamedTuple):
    """A record on its way to a fold, sorted by these columns up to `micros`; nulls come first."""

    group: bytes | None
    partition: int
    offset: int
    key: bytes | None
    micros: int
    value: bytes | None


SORTED_BY = SortedRecord._fields[:-1]


def sort_records(records: Iterable[SortedRecord]) -> list[SortedRecord]:
    """Sort the records as the engines do."""

    def place(record: SortedRecord) -> tuple[Any, ...]:
        group, partition, offset, key, micros, _ = record
        return group is not None, group or b"", partition, offset, key is not None, key or b"", micros

    return sorted(records, key=place)


class Output(NamedTuple):
    """What the work on a group gives: at its end `sums`, and `detail` for the plots of a report, which
    `read_detail` reads; before it, and then too, rows by table."""

    sums: GroupSums | None
    detail: bytes
    tables: dict[str, list[tuple[Any, ...]]]


def fold_groups(records: Iterable[SortedRecord], work: FoldWork) -> Iterator[Output]:
    """Fold sorted records, group by group."""
    with work.guard.watching():
        for group, of_group in groupby(records, itemgetter(0)):
            fold = _GroupFold(work, group)
            for _, copies in groupby(of_group, itemgetter(1, 2, 3)):
                (_, partition, offset, key, micros, value), *more = copies
                fold.feed(Record(partition, offset, micros, key, value, 1 + len(more)))
                if fold.table_rows > _MOST_TABLE_ROWS:
                    yield Output(None, b"", fold.take_tables())
            yield fold.finish()


class _GroupFold:
    """Folds one group: `feed` each record, then `finish`."""

    def __init__(self, work: FoldWork, group: bytes | None) -> None:
        self._work = work
        self._first_mode = work.modes[0].value
        self._members = MemberDecoder()
        self._life = LifeFold(EpochFold(work.catalogue), group in work.torn)
        self._causes, self._faults = CauseFinder(work.catalogue), FaultFinder(work.rules)
        strategies = {name: work.loaded[name] for name in work.strategies}
        self._replay = GroupReplay(work.catalogue, strategies, work.modes, work.pauses, work.guard)
        self._ownership, self._sums, self._daily = OwnershipFold(), GroupSums(), table_rows.Daily()
        self._timeline: dict[tuple[str, str], deque[tuple[Any, ...]]] = {}
        self._tables: dict[str, list[tuple[Any, ...]]] = {}
        self.table_rows = 0

    def feed(self, record: Record) -> None:
        event = decode_record(record.key, record.value, self._members)
        if (record.partition, record.offset) in self._work.collided:
            record = record._replace(value=None)
            event = replace(
                decode_record(record.key, None),
                kind=RecordKind.UNDECODABLE,
                reason=CONFLICT,
            )
        self._sums.add_record(record, event)
        if self._work.tables:
            self._table("current", table_rows.current(record, event, self._work.catalogue))
        if event.group is None:
            return
        for generation in self._life.feed(record, event):
            self._add_facts(generation)
            if generation.is_of_consumers:
                for row in self._replay.feed(generation):
                    self._add_row(row)

    def finish(self) -> Output:
        for row in self._replay.finish():
            self._add_row(row)
        for fault in self._faults.finish():
            self._add_fault(fault)
        sums = self._sums
        sums.culprits = dict(sums.worst())
        for name, rows in self._daily.tables(sums.group).items():
            self._table(name, rows)
        # A fleet has gigabytes of details, which compress to a tenth.
        detail = pickle.dumps((self._timeline, self._ownership.finish()), pickle.HIGHEST_PROTOCOL)
        return Output(sums, zlib.compress(detail, 1), self.take_tables())

    def take_tables(self) -> dict[str, list[tuple[Any, ...]]]:
        taken, self._tables, self.table_rows = self._tables, {}, 0
        return {name: rows for name, rows in taken.items() if rows}

    def _add_facts(self, generation: Generation) -> None:
        work, sums = self._work, self._sums
        sums.facts.add(generation)
        if work.tables:
            for name, rows in table_rows.of_generation(generation).items():
                self._table(name, rows)
        if not generation.is_of_consumers:
            return
        causes = self._causes.feed(generation)
        sums.add_causes(causes)
        self._ownership.feed(generation)
        for fault in self._faults.feed(generation):
            self._add_fault(fault)
        if work.tables:
            self._table("causes", [table_rows.causes(generation, causes)])
            self._daily.add_causes(generation.timestamp, causes)
        # The broker's assignors of these names follow rules of their own, and the repetition of a generation
        # by a restarted static member is no leader's work.
        led = generation.type == CLASSIC and not (generation.empty or generation.replacement)
        if led and generation.protocol in CHECKED_STRATEGIES:
            strategy = work.loaded[generation.protocol]
            checked = check_generation(generation, strategy, work.catalogue)
            sums.add_checked(checked)
            if work.tables:
                self._table("checked", [table_rows.values(checked)])

    def _add_fault(self, fault: Fault) -> None:
        self._sums.add_fault(fault)
        if self._work.tables:
            self._table("faults", [table_rows.values(fault)])

    def _add_row(self, row: Replayed) -> None:
        self._sums.add_row(row, self._first_mode)
        if self._work.tables:
            self._table("replayed", [table_rows.replayed(row)])
            self._daily.add_row(row)
        if row.measures is not None:
            series = row.mode, row.strategy
            if series not in self._timeline:
                self._timeline[series] = deque(maxlen=MOST_TIMELINE_ROWS)
            self._timeline[series].append(
                (to_micros(row.timestamp), row.generation, row.members, *values_of(row.measures))
            )

    def _table(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        before = self._tables.setdefault(name, [])
        self.table_rows -= len(before)
        before.extend(rows)
        self.table_rows += len(before)


class Detail(NamedTuple):
    """What a report draws of a group: the latest rows of each series, by mode and strategy, and the spans of
    ownership."""

    timeline: dict[tuple[str, str], list[TimelineRow]]
    ownership: tuple[OwnershipSpan, ...]


def read_detail(group: str, detail: bytes, most: int) -> Detail:
    """The details of a group from an `Output` of a process of ours; at most `most` rows of each series."""
    timeline, owned = pickle.loads(zlib.decompress(detail))

    def row(mode: str, strategy: str, micros: int, generation: int, members: int, *of: Any) -> TimelineRow:
        place = (group, strategy, Mode(mode), from_micros(micros), generation, members)
        return TimelineRow(*place, Measures(*of))

    return Detail(
        {
            series: [row(*series, *each) for each in list(rows)[-most:]]
            for series, rows in sorted(timeline.items())
        },
        tuple(owned),
    )
