"""One group in one pass: its records, in order, are decoded, folded into generations, replayed, checked
against the recorded assignments, and searched for causes and faults.

Both engines run `fold_sorted` over sorted records, and collect its `Output`s. Pure Python without Spark, one
record at a time; the memory is that of a few generations of one group.
"""

from __future__ import annotations

import itertools
import pickle
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.accuracy import CHECKED_STRATEGIES, check_generation
from kafka_assignors_replay.history.causes import CauseFinder
from kafka_assignors_replay.history.faults import FaultFinder
from kafka_assignors_replay.history.generations import CONFLICT, LifeFold, OwnershipFold, Record
from kafka_assignors_replay.history.group_replay import GroupReplay, Replayed
from kafka_assignors_replay.history.kip848_fold import EpochFold
from kafka_assignors_replay.history.measures import Mode
from kafka_assignors_replay.history.pause_model import PauseModel
from kafka_assignors_replay.history.rebalances import CLASSIC, Generation
from kafka_assignors_replay.history.records import MemberDecoder, RecordKind, decode_record
from kafka_assignors_replay.history.strategy_guard import StrategyGuard
from kafka_assignors_replay.history.sums import GroupSums
from kafka_assignors_replay.result import OwnershipSpan, TimelineRow

MOST_TIMELINE_ROWS = 1_000
"""The most rows of a timeline: the latest rebalances of a strategy and mode."""

SortedRow = tuple[bytes | None, int, int, bytes | None, int, bytes | None]
"""The group's id, partition, offset, key, time in microseconds, and value of a record: `schemas.SORTED`."""


@dataclass
class FoldWork:
    """The work on the records, the same for all groups; it is sent to every process that folds.

    Groups are named by the bytes of their ids. `torn` groups have records in several partitions. `collided`
    are the places with different records.
    """

    catalogue: Catalogue
    strategies: tuple[str, ...]
    modes: tuple[Mode, ...]
    pauses: PauseModel = field(default_factory=PauseModel)
    torn: frozenset[bytes | None] = frozenset()
    collided: frozenset[tuple[int, int]] = frozenset()
    guard: StrategyGuard = field(default_factory=StrategyGuard)

    @cached_property
    def loaded(self) -> dict[str, Strategy]:
        """The strategies, loaded once in each process."""
        return {name: load_strategy(name) for name in (*self.strategies, *CHECKED_STRATEGIES)}

    def __getstate__(self) -> dict[str, Any]:
        # Another process loads the strategies itself, once it has the import path of this one.
        return {name: value for name, value in self.__dict__.items() if name != "loaded"}


class Detail(NamedTuple):
    """What the plots of a report draw: the latest rows of each mode and strategy, and the owners."""

    timeline: dict[tuple[str, str], list[TimelineRow]]
    ownership: list[OwnershipSpan]


class Output(NamedTuple):
    """The sums of a group, and its `detail`, which is packed, because a report draws only a few groups."""

    group: bytes | None
    sums: GroupSums
    detail: bytes


def fold_sorted(rows: Iterable[SortedRow], work: FoldWork) -> Iterator[Output]:
    """Fold records group by group: those of a group come one after the other, by partition and offset."""
    with work.guard.watching():
        for group, of_group in itertools.groupby(rows, key=itemgetter(0)):
            fold = _GroupFold(work, group)
            for _, copies in itertools.groupby(of_group, key=itemgetter(1, 2, 3)):
                fold.feed(_record(copies))
            yield fold.finish()


def _record(copies: Iterator[SortedRow]) -> Record:
    _, partition, offset, key, micros, value = next(copies)
    return Record(partition, offset, micros, key, value, 1 + sum(1 for _ in copies))


class _GroupFold:
    """Folds one group: `feed` each record, then `finish`."""

    def __init__(self, work: FoldWork, group: bytes | None) -> None:
        self._work, self._group = work, group
        self._members = MemberDecoder()
        self._life = LifeFold(EpochFold(work.catalogue), group in work.torn)
        self._causes, self._faults = CauseFinder(work.catalogue), FaultFinder()
        self._ownership = OwnershipFold()
        strategies = {name: work.loaded[name] for name in work.strategies}
        self._replay = GroupReplay(work.catalogue, strategies, work.modes, work.pauses, work.guard)
        self._sums = GroupSums()
        self._timeline: dict[tuple[str, str], deque[TimelineRow]] = {}

    def feed(self, record: Record) -> None:
        work, event = self._work, decode_record(record.key, record.value, self._members)
        if (record.partition, record.offset) in work.collided:
            event = replace(decode_record(record.key, None), kind=RecordKind.UNDECODABLE, reason=CONFLICT)
        self._sums.add_record(record, event)
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
            self._sums.add_fault(fault)
        sums = self._sums
        sums.culprits = dict(sums.worst())
        detail = {series: list(rows) for series, rows in self._timeline.items()}, self._ownership.finish()
        packed = zlib.compress(pickle.dumps(detail, pickle.HIGHEST_PROTOCOL), 1)
        return Output(self._group, sums, packed)

    def _add_facts(self, generation: Generation) -> None:
        """All that no strategy changes."""
        work, sums = self._work, self._sums
        sums.facts.add(generation)
        if not generation.is_of_consumers:
            return
        sums.churn.update(self._causes.feed(generation))
        self._ownership.feed(generation)
        for fault in self._faults.feed(generation):
            sums.add_fault(fault)
        # The broker's assignors of these names follow rules of their own, and the repetition of a generation
        # by a restarted static member is no leader's work.
        led = generation.type == CLASSIC and not (generation.empty or generation.replacement)
        if led and generation.protocol in CHECKED_STRATEGIES:
            sums.add_checked(*check_generation(generation, work.loaded[generation.protocol], work.catalogue))

    def _add_row(self, row: Replayed) -> None:
        self._sums.add_row(row, self._work.modes[0].value)
        if row.measures is not None:
            series = row.mode, row.strategy
            if series not in self._timeline:
                self._timeline[series] = deque(maxlen=MOST_TIMELINE_ROWS)
            place = row.group, row.strategy, Mode(row.mode), row.timestamp, row.generation, row.members
            self._timeline[series].append(TimelineRow(*place, row.measures))


def read_detail(packed: bytes, most: int = MOST_TIMELINE_ROWS) -> Detail:
    """The detail that this process, or one of its workers, has packed; at most `most` rows of each series."""
    timeline, ownership = pickle.loads(zlib.decompress(packed))
    return Detail({series: rows[-most:] for series, rows in sorted(timeline.items())}, ownership)
