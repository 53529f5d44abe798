"""One group in one pass: its records, in order, are decoded, folded into generations, replayed, checked
against the recorded assignments, and searched for causes and culprits.

Both engines run `fold_sorted` over sorted records, and collect the sums of each group. Pure Python without
Spark, one record at a time; the memory is that of a few generations of one group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter

from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.accuracy import CHECKED_STRATEGIES, check_generation
from kafka_assignors_replay.history.causes import CauseFinder
from kafka_assignors_replay.history.culprits import CulpritFinder
from kafka_assignors_replay.history.generations import CONFLICT, LifeFold, Record
from kafka_assignors_replay.history.group_replay import GroupReplay
from kafka_assignors_replay.history.kip848_fold import EpochFold
from kafka_assignors_replay.history.measures import Mode
from kafka_assignors_replay.history.pause_model import PauseModel
from kafka_assignors_replay.history.rebalances import CLASSIC, Generation
from kafka_assignors_replay.history.records import MemberDecoder, RecordKind, decode_record
from kafka_assignors_replay.history.strategy_guard import StrategyGuard
from kafka_assignors_replay.history.sums import GroupSums

SortedRow = tuple[bytes | None, int, int, bytes | None, int, bytes | None]
"""The group's id, partition, offset, key, time in microseconds, and value of a record: `schemas.SORTED`."""


@dataclass
class FoldWork:
    """The work on the records, the same for all groups; it is sent to every process that folds.

    Groups are named by the bytes of their ids. `torn` groups have records in several partitions. `collided`
    are the places with different records. With `lossy`, damaged files of the history were left out.
    """

    catalogue: Catalogue
    strategies: tuple[str, ...]
    modes: tuple[Mode, ...]
    pauses: PauseModel = field(default_factory=PauseModel)
    torn: frozenset[bytes | None] = frozenset()
    collided: frozenset[tuple[int, int]] = frozenset()
    lossy: bool = False
    guard: StrategyGuard = field(default_factory=StrategyGuard)

    @cached_property
    def loaded(self) -> dict[str, Strategy]:
        """The strategies, loaded once in each process; here after the work was sent, if at all."""
        return {name: load_strategy(name) for name in (*self.strategies, *CHECKED_STRATEGIES)}


def fold_sorted(rows: Iterable[SortedRow], work: FoldWork) -> Iterator[GroupSums]:
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
        self._work = work
        self._members = MemberDecoder()
        self._life = LifeFold(EpochFold(work.catalogue), group in work.torn, work.lossy)
        self._causes, self._culprits = CauseFinder(work.catalogue), CulpritFinder()
        strategies = {name: work.loaded[name] for name in work.strategies}
        self._replay = GroupReplay(work.catalogue, strategies, work.modes, work.pauses, work.guard)
        self._sums = GroupSums()
        self._first_mode = work.modes[0].value

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
                    self._sums.add_row(row, self._first_mode)

    def finish(self) -> GroupSums:
        for row in self._replay.finish():
            self._sums.add_row(row, self._first_mode)
        self._sums.culprits = self._culprits.finish()
        return self._sums

    def _add_facts(self, generation: Generation) -> None:
        """All that no strategy changes."""
        work, sums = self._work, self._sums
        sums.facts.add(generation)
        if not generation.is_of_consumers:
            return
        sums.causes.update(self._causes.feed(generation))
        self._culprits.feed(generation)
        # The broker's assignors of these names follow rules of their own, and the repetition of a generation
        # by a restarted static member is no leader's work.
        led = generation.type == CLASSIC and not (generation.empty or generation.replacement)
        if led and generation.protocol in CHECKED_STRATEGIES:
            sums.add_checked(*check_generation(generation, work.loaded[generation.protocol], work.catalogue))
