"""One group in one pass: its records, in order, are decoded, folded into generations, replayed, checked
against the recorded assignments, and searched for causes and faults.

Both engines run `fold_groups` over sorted records, and collect its `Output`s. A group with many records may
come in *chunks*, with a state in between, and its work in several *parts* at once, since the strategies of a
replay are independent of each other.

Pure Python without Spark, one record at a time; the memory is that of a few generations of one group.
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from kafka_assignors.group import quoted
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.folds import table_rows
from kafka_assignors_replay.folds.accuracy import CHECKED_STRATEGIES, check_generation
from kafka_assignors_replay.folds.causes import CauseFinder
from kafka_assignors_replay.folds.faults import FaultFinder, FaultRules
from kafka_assignors_replay.folds.generations import CONFLICT, LifeFold, OwnershipFold, Record
from kafka_assignors_replay.folds.group_replay import GroupReplay, Replayed, ReplayState
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
from kafka_assignors_replay.folds.replay_state import StateError, read_state, write_state
from kafka_assignors_replay.folds.strategy_guard import StrategyGuard
from kafka_assignors_replay.folds.sums import GroupSums
from kafka_assignors_replay.result import OwnershipSpan, TimelineRow

MOST_TIMELINE_ROWS = 1_000
"""The most rows of a timeline: the latest rebalances of a strategy and mode."""

STATE_PLACE = -1
"""The partition and offset of a row that has the state of a group. No record has a negative offset, so a
state comes first."""

_MOST_DETAIL_BYTES = 256 << 20
"""The most JSON that is decompressed: a small text may expand to more than the memory."""

_REMEDY = "remove the checkpoint and start again"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the work on a group that is independent of the other parts. With `facts` it includes all that
    no strategy changes: the recorded assignments, the causes, the faults, and the counts of records."""

    strategies: tuple[str, ...]
    facts: bool


def parts_of(strategies: Sequence[str]) -> tuple[Part, ...]:
    """First the part with all the work, for a group that comes in one piece; then the parts into which the
    work on a giant is divided."""
    together = Part(tuple(strategies), facts=True)
    return (together, Part((), facts=True), *(Part((name,), facts=False) for name in strategies))


@dataclass
class FoldWork:
    """The work on the records, the same for all groups; it is sent to every process that folds.

    Groups are named by the bytes of their ids. `giants` has the number of chunks of each giant. `torn` groups
    have records in several partitions. `collided` are the places with different records. `tables` says
    whether the rows of the tables are wanted.
    """

    catalogue: Catalogue
    strategies: tuple[str, ...]
    modes: tuple[Mode, ...]
    pauses: PauseModel = field(default_factory=PauseModel)
    rules: FaultRules = field(default_factory=FaultRules)
    giants: Mapping[bytes | None, int] = field(default_factory=dict)
    torn: frozenset[bytes | None] = frozenset()
    collided: frozenset[tuple[int, int]] = frozenset()
    tables: bool = False
    guard: StrategyGuard = field(default_factory=StrategyGuard)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return parts_of(self.strategies)

    @cached_property
    def loaded(self) -> dict[str, Strategy]:
        """The strategies, loaded once in each process."""
        return {name: load_strategy(name) for name in (*self.strategies, *CHECKED_STRATEGIES)}

    def __getstate__(self) -> dict[str, Any]:
        # Another process loads the strategies itself, once it has the import path of this one.
        return {name: value for name, value in self.__dict__.items() if name not in ("loaded", "parts")}

    @property
    def given(self) -> tuple[object, ...]:
        """The arguments of a fold that are not part of its state."""
        return self.catalogue, self.rules


class SortedRecord(NamedTuple):
    """A record on its way to a fold, sorted by these columns up to `micros`. `file` names the file of a
    state, which is the value at `STATE_PLACE`."""

    group: bytes | None
    part: int
    partition: int
    offset: int
    key: bytes | None
    micros: int
    value: bytes | None
    file: str | None = None


def sort_records(records: Iterable[SortedRecord]) -> list[SortedRecord]:
    """Sort the records as Spark does: nulls come first."""

    def place(record: SortedRecord) -> tuple[Any, ...]:
        group, part, partition, offset, key, micros, *_ = record
        return group is not None, group or b"", part, partition, offset, key is not None, key or b"", micros

    return sorted(records, key=place)


class Output(NamedTuple):
    """The output of the work on a group, or of a part of it: the `state` at the end of a chunk, the `sums` at
    the end of the group (see `sums.GroupSums`). `detail` is for the plots of a report. `tables` has rows by
    table.
    """

    group: bytes | None
    part: int
    state: bytes | None
    sums: bytes | None
    detail: bytes | None
    tables: dict[str, list[tuple[Any, ...]]]


def fold_groups(records: Iterable[SortedRecord], work: FoldWork, chunk: int = 0) -> Iterator[Output]:
    """Fold sorted records, group by group and part by part. `chunk` is the number of this chunk of giants.

    `StateError` if a state among them cannot be read.
    """
    with work.guard.watching():
        yield from _fold_groups(records, work, chunk)


def _fold_groups(records: Iterable[SortedRecord], work: FoldWork, chunk: int) -> Iterator[Output]:
    fold: _GroupFold | None = None
    for record in records:
        if fold is None or fold.key != record[:2]:
            if fold is not None:
                yield from fold.output(chunk)
            fold = _GroupFold(work, record.group, record.part, record.file)
        if record.offset == STATE_PLACE:
            fold.restore(record.value or b"")
        else:
            yield from fold.feed(record)
    if fold is not None:
        yield from fold.output(chunk)


@dataclass(slots=True)
class _GroupState:
    """The state of a group between two chunks."""

    life: LifeFold
    causes: CauseFinder
    faults: FaultFinder
    replay: ReplayState = field(default_factory=ReplayState)
    ownership: OwnershipFold = field(default_factory=OwnershipFold)
    sums: GroupSums = field(default_factory=GroupSums)
    daily: table_rows.Daily = field(default_factory=table_rows.Daily)


_MOST_TABLE_ROWS = 2_000
"""With more rows of a group, a fold hands them over."""


class _GroupFold:
    """Folds one part of one group: `feed` each record, then take the `output`."""

    def __init__(self, work: FoldWork, group: bytes | None, part: int, file: str | None) -> None:
        if not 0 <= part < len(work.parts):
            raise StateError(f"{file}: there is no part {part}; {_REMEDY}")
        self.key = (group, part)
        self._work = work
        self._file = file
        self._part = work.parts[part]
        self._first_mode = work.modes[0].value
        self._waiting: Record | None = None  # more copies of it may come
        self._members = MemberDecoder()
        self._timeline: dict[tuple[str, str], deque[tuple[Any, ...]]] = {}
        self._tables: dict[str, list[tuple[Any, ...]]] = {}
        self._table_rows = 0
        life = LifeFold(EpochFold(work.catalogue), group in work.torn)
        self._start(_GroupState(life, CauseFinder(work.catalogue), FaultFinder(work.rules)))

    def _start(self, state: _GroupState) -> None:
        self._state = state
        work, part = self._work, self._part
        strategies = {name: work.loaded[name] for name in part.strategies}
        self._replay = GroupReplay(
            work.catalogue,
            strategies,
            work.modes,
            work.pauses,
            work.guard,
            recorded=part.facts,
            state=state.replay,
        )

    def restore(self, text: bytes) -> None:
        """Continue from a state that the same version of this package wrote."""
        try:
            self._start(read_state(_GroupState, bytes(text), self._work.given))
        except StateError as error:
            group = quoted((self.key[0] or b"").decode(errors="replace"))
            of = f"{self._file}: the state of group {group} does not read"
            raise StateError(f"{of}: {error}; {_REMEDY}") from None

    def feed(self, record: SortedRecord) -> Iterator[Output]:
        """Fold a record; yields rows of tables when there are many."""
        _, _, partition, offset, key, micros, value, *_ = record
        waiting = self._waiting
        if waiting is not None:
            if waiting[:2] == (partition, offset) and waiting.key == key:
                self._waiting = waiting._replace(copies=waiting.copies + 1)
                return
            self._fold(waiting)
        self._waiting = Record(partition, offset, micros, key, value)
        if self._table_rows > _MOST_TABLE_ROWS:
            yield Output(*self.key, None, None, None, self._take_tables())

    def output(self, chunk: int) -> Iterator[Output]:
        """The state if more chunks follow, else the sums."""
        self._fold_waiting()
        sums = self._state.sums
        if self._work.giants.get(self.key[0], 1) > chunk + 1:
            state = write_state(self._state, self._work.given)
            yield Output(*self.key, state, None, self._detail(()), self._take_tables())
            return
        for row in self._replay.finish():
            self._add_row(row)
        spans: Sequence[OwnershipSpan] = ()
        if self._part.facts:
            for fault in self._state.faults.finish():
                self._add_fault(fault)
            spans = self._state.ownership.finish()
        sums.culprits = dict(sums.worst())
        for name, rows in self._state.daily.tables(sums.group).items():
            self._table(name, rows)
        yield Output(*self.key, None, write_state(sums), self._detail(spans), self._take_tables())

    def _fold_waiting(self) -> None:
        if self._waiting is not None:
            self._fold(self._waiting)
            self._waiting = None

    def _fold(self, record: Record) -> None:
        event = decode_record(record.key, record.value, self._members)
        if (record.partition, record.offset) in self._work.collided:
            record = record._replace(value=None)
            event = replace(
                decode_record(record.key, None),
                kind=RecordKind.UNDECODABLE,
                reason=CONFLICT,
            )
        if event.group is not None:
            self._state.sums.group = event.group
        if self._part.facts:
            self._state.sums.add_record(record, event)
            if self._work.tables:
                self._table("current", table_rows.current(record, event, self._work.catalogue))
        if event.group is None:
            return
        for generation in self._state.life.feed(record, event):
            if self._part.facts:
                self._add_facts(generation)
            if generation.is_of_consumers:
                for row in self._replay.feed(generation):
                    self._add_row(row)

    def _add_facts(self, generation: Generation) -> None:
        work, state = self._work, self._state
        state.sums.facts.add(generation)
        if work.tables:
            for name, rows in table_rows.of_generation(generation).items():
                self._table(name, rows)
        if not generation.is_of_consumers:
            return
        causes = state.causes.feed(generation)
        state.sums.add_causes(causes)
        state.ownership.feed(generation)
        for fault in state.faults.feed(generation):
            self._add_fault(fault)
        if work.tables:
            self._table("causes", [table_rows.causes(generation, causes)])
            state.daily.add_causes(generation.timestamp, causes)
        # The broker's assignors of these names follow rules of their own, and the repetition of a generation
        # by a restarted static member is no leader's work.
        led = generation.type == CLASSIC and not (generation.empty or generation.replacement)
        if led and generation.protocol in CHECKED_STRATEGIES:
            strategy = work.loaded[generation.protocol]
            checked = check_generation(generation, strategy, work.catalogue)
            state.sums.add_checked(checked)
            if work.tables:
                self._table("checked", [table_rows.values(checked)])

    def _add_fault(self, fault: Any) -> None:
        self._state.sums.add_fault(fault)
        if self._work.tables:
            self._table("faults", [table_rows.values(fault)])

    def _add_row(self, row: Replayed) -> None:
        self._state.sums.add_row(row, self._first_mode)
        if self._work.tables:
            self._table("replayed", [table_rows.replayed(row)])
            self._state.daily.add_row(row)
        if row.measures is not None:
            series = row.mode, row.strategy
            if series not in self._timeline:
                self._timeline[series] = deque(maxlen=MOST_TIMELINE_ROWS)
            self._timeline[series].append(
                (row.offset, to_micros(row.timestamp), row.generation, row.members, *values_of(row.measures))
            )

    def _table(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        before = self._tables.setdefault(name, [])
        self._table_rows -= len(before)
        before.extend(rows)
        self._table_rows += len(before)

    def _take_tables(self) -> dict[str, list[tuple[Any, ...]]]:
        taken, self._tables, self._table_rows = self._tables, {}, 0
        return {name: rows for name, rows in taken.items() if rows}

    def _detail(self, spans: Sequence[OwnershipSpan]) -> bytes:
        timeline = [[*series, list(rows)] for series, rows in self._timeline.items()]
        self._timeline = {}
        owned = [
            (span.topic, span.partition, span.member, to_micros(span.begin), to_micros(span.end))
            for span in spans
        ]
        return zlib.compress(json.dumps([timeline, owned], separators=(",", ":")).encode(), 1)


# The details of a group, for the plots of a report


@dataclass(frozen=True, slots=True)
class Detail:
    """The latest rows of each series, by mode and strategy, and the spans of ownership."""

    timeline: dict[tuple[str, str], list[TimelineRow]]
    ownership: tuple[OwnershipSpan, ...]


def read_detail(group: str, texts: Iterable[bytes], most: int) -> Detail:
    """The details of a group from its parts and chunks, in order; at most `most` rows of each series.

    `StateError` if a text cannot be read.
    """
    try:
        return _read_detail(group, texts, most)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, zlib.error) as error:
        raise StateError(f"the details of group {quoted(group)} do not read: {error}; {_REMEDY}") from None


def _read_detail(group: str, texts: Iterable[bytes], most: int) -> Detail:
    rows: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    spans: list[OwnershipSpan] = []
    for text in texts:
        timeline, owned = json.loads(zlib.decompressobj().decompress(text, _MOST_DETAIL_BYTES))
        for mode, strategy, values in timeline:
            rows.setdefault((mode, strategy), []).extend(values)
        for topic, partition, member, begin, end in owned:
            spans.append(OwnershipSpan(group, topic, partition, member, from_micros(begin), from_micros(end)))

    def row(mode: str, strategy: str, values: Sequence[Any]) -> TimelineRow:
        _, micros, generation, members, *measures = values
        place = (group, strategy, Mode(mode), from_micros(micros), generation, members)
        return TimelineRow(*place, Measures(*measures))

    return Detail(
        {
            (mode, strategy): [
                row(mode, strategy, each) for each in sorted(values, key=lambda each: each[0])[-most:]
            ]
            for (mode, strategy), values in sorted(rows.items())
        },
        tuple(spans),
    )
