"""The groups of a watched cluster: which are followed, the counts of each, which are forgotten.

The folds of the replay find the generations, their causes and the rebalances, one record at a time. The watch
adds a few sums.

Memory is bounded: at most `max_groups` groups are followed, and each needs the memory of a few generations. A
group that is *dead* (a tombstone ends it) is forgotten after `DEAD_KEPT_S`, an *empty* one after
`EMPTY_KEPT_S` without a record. A group with members is never forgotten.

Pure Python. One thread feeds, any number of threads take snapshots. The caller gives the time: the seconds of
a monotonic clock decide which groups are forgotten.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import index
from typing import TYPE_CHECKING, Any

from kafka_assignors.group import quoted
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry, changed_entry
from kafka_assignors_replay.history.causes import CauseFinder
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.generations import LifeFold, Record
from kafka_assignors_replay.history.group_replay import GroupReplay, Replayed
from kafka_assignors_replay.history.kip848_fold import EpochFold
from kafka_assignors_replay.history.rebalances import Cause, Generation, RebalanceFold
from kafka_assignors_replay.history.records import (
    CONSUMER_PROTOCOL_TYPE,
    DecodedRecord,
    RecordKind,
    decode_record,
    group_of,
    is_commit,
    to_micros,
)
from kafka_assignors_replay.result import Mode

if TYPE_CHECKING:
    from kafka_assignors_confluent.topic_metadata import LiveTopic

EMPTY, STABLE, HAND_OVER, DEAD, UNKNOWN = "empty", "stable", "hand-over", "dead", "unknown"
STATES = (EMPTY, STABLE, HAND_OVER, DEAD, UNKNOWN)
"""The state of a group by its records. The broker's PreparingRebalance and CompletingRebalance write none. In
a *hand-over* a partition of a live member has no owner yet (cooperative)."""

VALUE, MEMBER = "value", "member"
UNDECODABLE = (VALUE, MEMBER)
"""The part of a record that does not decode: its value, or one of its members."""

DEAD_KEPT_S = 300.0
"""How long a dead group is kept. A group that changes its protocol has a tombstone in the middle of its life,
and a scrape has to see the end of a group."""

EMPTY_KEPT_S = 86_400.0
"""How long a group without members and records is kept."""

RECENT_S = 600.0
"""The time over which the latest generations are counted."""

_MOST_RECENT = 100
_MOST_LEFT_OUT = 100_000
"""The most groups beyond the limit that are told apart, by a hash of eight bytes each."""

KINDS = tuple(kind.value for kind in RecordKind)

_MOST_ENTRIES = 8
"""The most changes of a topic that are remembered, the latest ones."""

_MOST_GONE = 1_000
"""The most deleted topics that are remembered: the latest records of a group may still name them."""

_GROUP_KEYS = frozenset({2, *ConsumerGroupRecord})
"""The versions of keys of consumer groups; other records are only counted."""


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The last generation of a group. Figures that its record lacks are None.

    `type` is `classic` or `consumer` (KIP-848), `protocol` the strategy that the members voted for.
    `imbalance` is the greatest number of partitions of a member over the mean, 1.0 at best. `timestamp_s` is
    that of the record, in seconds since 1970.
    """

    generation: int
    timestamp_s: float
    type: str
    protocol_type: str
    protocol: str
    empty: bool
    members: int | None = None
    idle_members: int | None = None
    partitions: int | None = None
    min_load: int | None = None
    max_load: int | None = None
    imbalance: float | None = None


@dataclass(slots=True)
class Counts:
    """The counts of a group.

    A *rebalance* is logical: the generations of a cooperative hand-over are one. `moved` counts partitions
    that changed owner between live members, `least_moved` the fewest that an optimally balanced assignment
    would have moved; both cover only rebalances that can be judged. `skipped` counts generations that no
    record shows, which were superseded before the leader's assignment arrived.
    """

    generations: int = 0
    rebalances: int = 0
    unjudged: int = 0
    moved: int = 0
    least_moved: int = 0
    skipped: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    undecodable: Counter[str] = field(default_factory=Counter)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Counts:
        """The counts by the names of the fields; `TypeError` for others."""
        read: dict[str, Any] = {}
        for name, value in values.items():
            is_by_name = isinstance(value, dict)
            read[name] = Counter({k: index(n) for k, n in value.items()}) if is_by_name else index(value)
        return cls(**read)

    def copy(self) -> Counts:
        return replace(self, causes=self.causes.copy(), undecodable=self.undecodable.copy())


@dataclass(slots=True)
class Step:
    """The content of a record: generations with their causes, the rebalances that it completes, and the part
    that does not decode."""

    generations: list[tuple[Generation, tuple[Cause, ...]]] = field(default_factory=list)
    rebalances: list[Replayed] = field(default_factory=list)
    undecodable: str | None = None


@dataclass(slots=True)
class WatchedGroup:
    """Follows one group: `fold` each of its records in order, and `count` the steps."""

    name: str
    life: LifeFold
    causes: CauseFinder
    rebalances: RebalanceFold
    replay: GroupReplay
    counts: Counts
    last: GroupFigures | None = None
    state: str = UNKNOWN

    @classmethod
    def of(cls, name: str, catalogue: Catalogue, counts: Counts) -> WatchedGroup:
        """A group with these `counts` and no record yet."""
        rebalances = RebalanceFold()
        replay = GroupReplay(catalogue, {}, (Mode.ONE_STEP,), rebalances=rebalances)
        life = LifeFold(EpochFold(catalogue), torn=False)
        return cls(name, life, CauseFinder(catalogue), rebalances, replay, counts)

    def fold(self, record: Record, event: DecodedRecord) -> Step:
        """Fold a record. It takes up to a second for thousands of members."""
        step = Step()
        if event.kind is RecordKind.UNDECODABLE:
            step.undecodable = VALUE
        elif event.reason is not None:
            step.undecodable = MEMBER
        for generation in self.life.feed(record, event):
            causes: tuple[Cause, ...] = ()
            if generation.is_of_consumers:
                causes = self.causes.feed(generation)
                step.rebalances += self.replay.feed(generation)
            step.generations.append((generation, causes))
        return step

    def show(self, step: Step) -> None:
        """Keep the figures of the last generation, and the state of the group after it."""
        if step.generations:
            self.last = _figures(step.generations[-1][0])
        if self.life.last is not None and self.life.last[1] is None:
            self.state = DEAD
        elif self.last is None:
            self.state = UNKNOWN
        elif self.rebalances.open is not None:
            self.state = HAND_OVER
        else:
            self.state = EMPTY if self.last.empty else STABLE

    def count(self, step: Step) -> None:
        counts = self.counts
        for generation, causes in step.generations:
            counts.generations += 1
            counts.skipped += generation.skipped
            counts.causes.update(cause.value for cause in causes)
        for row in step.rebalances:
            counts.rebalances += 1
            if row.measures is None:
                counts.unjudged += 1
            else:
                counts.moved += row.measures.moved
                counts.least_moved += row.measures.least_moved
        if step.undecodable is not None:
            counts.undecodable[step.undecodable] += 1


def _figures(generation: Generation) -> GroupFigures:
    said = GroupFigures(
        generation=generation.generation,
        timestamp_s=to_micros(generation.timestamp) / 1e6,
        type=generation.type,
        protocol_type=generation.protocol_type or "",
        protocol=generation.protocol,
        empty=generation.empty,
    )
    if generation.empty:
        loads = []
    elif generation.protocol_type == CONSUMER_PROTOCOL_TYPE and generation.decodes:
        loads = [sum(map(len, member.assigned.values())) for member in generation.members.values()]
    else:
        return said  # members are not known
    total = sum(loads)
    return replace(
        said,
        members=len(loads),
        idle_members=loads.count(0),
        partitions=total,
        min_load=min(loads, default=None),
        max_load=max(loads, default=None),
        imbalance=max(loads) * len(loads) / total if total else None,
    )


@dataclass(frozen=True, slots=True)
class FleetLimits:
    """The limits of the followed groups: `matching` selects names, `max_groups` bounds their number."""

    max_groups: int = 1_000
    matching: Callable[[str], bool] = lambda name: True


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group at one moment. `recent` counts its generations of the last `RECENT_S`."""

    group: str
    state: str
    last: GroupFigures | None
    counts: Counts
    recent: int


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """The watched groups at one moment, by name, the number of records by kind, without those of groups that
    are left out, and the number of groups beyond `max_groups`."""

    groups: Sequence[GroupSnapshot]
    records: Mapping[str, int]
    beyond_limit: int


@dataclass(slots=True)
class _Presence:
    """The times of a group's last record, and of its latest generations."""

    heard_s: float
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_RECENT))
    told: bool = False  # whether the user was told that a record does not decode


class Fleet:
    """Follows the `groups`, by the bytes of their ids: `feed` the records of each partition in order.

    The counts of a group begin at its earlier `counts`, if it has any. Until `forget_earlier`, groups with
    earlier counts come before others.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        limits: FleetLimits,
        on_note: Callable[[str], None] = lambda text: None,
        counts: Mapping[bytes, Counts] | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.records: Counter[str] = Counter()
        self._limits = limits
        self._note = on_note
        self._lock = threading.Lock()
        self.groups: dict[bytes, WatchedGroup] = {}
        self._earlier = {key: each for key, each in (counts or {}).items() if self._matches(key)}
        self._presence: dict[bytes, _Presence] = {}
        self._beyond: set[int] = set()

    def topics(self) -> set[str]:
        """The topics of the members of each group, in its last generation."""
        lasts = [group.rebalances.last for group in self.groups.values()]
        members = [member for last in lasts if last is not None for member in last.members.values()]
        return set().union(*((*member.topics, *member.assigned) for member in members))

    def feed(self, record: Record, now_s: float, *, history: bool = False) -> Step | None:
        """Fold one record; its step for a followed group, None for any other. One of the `history` does not
        count."""
        if is_commit(record.key):
            self.records[RecordKind.OFFSET_COMMIT.value] += 1
            return None
        key = None
        if record.key is not None and int.from_bytes(record.key[:2], "big") in _GROUP_KEYS:
            key = group_of(record.key)
        if key is not None and key not in self.groups and not self._admits(key, record.value is not None):
            return None
        event = decode_record(record.key, record.value)
        self.records[event.kind.value] += 1
        if key is None or event.group is None:
            return None
        group = self.groups.get(key)
        if group is None:
            if record.value is None:
                return None  # a tombstone of a group that is not followed
            group = WatchedGroup.of(event.group, self.catalogue, self._earlier.pop(key, Counts()))
        try:
            step = group.fold(record, event)
        except Exception as error:
            with self._lock:
                self.groups.pop(key, None)
                self._presence.pop(key, None)
            self._warn(record, event, f"{error!r}; the watch starts over with the group's next record")
            return None
        self._take(key, group, step, now_s, counts=not history)
        if step.undecodable and not self._presence[key].told:
            self._presence[key].told = True
            self._warn(record, event, f"{event.reason}; later ones of this group are only counted")
        return step

    def _warn(self, record: Record, event: DecodedRecord, problem: str) -> None:
        where = f"partition {record.partition}, offset {record.offset}"
        self._note(f"warning: group {quoted(event.group or '')}: {where}: {problem}")

    def evict(self, now_s: float) -> None:
        """Forget the groups that were dead or empty for long enough."""
        gone: list[bytes] = []
        for key, group in self.groups.items():
            silent_s = now_s - self._presence[key].heard_s
            is_empty = group.last is None or group.last.empty
            if silent_s > (DEAD_KEPT_S if group.state == DEAD else EMPTY_KEPT_S if is_empty else math.inf):
                gone.append(key)
        with self._lock:
            for key in gone:
                del self.groups[key], self._presence[key]

    def snapshot(self, now_s: float) -> FleetSnapshot:
        with self._lock:
            groups = [
                GroupSnapshot(
                    group.name,
                    group.state,
                    group.last,
                    group.counts.copy(),
                    sum(now_s - each <= RECENT_S for each in self._presence[key].recent),
                )
                for key, group in self.groups.items()
            ]
            beyond = len(self._beyond)
        return FleetSnapshot(sorted(groups, key=lambda each: each.group), self.records.copy(), beyond)

    def forget_earlier(self) -> None:
        """Forget the earlier counts of groups without a record: brokers have deleted them."""
        self._earlier.clear()

    def _matches(self, key: bytes) -> bool:
        return self._limits.matching(key.decode(errors="replace"))

    def _admits(self, key: bytes, has_value: bool) -> bool:
        """Whether a new group may be followed."""
        if not self._matches(key):
            return False
        place = hash(key)
        kept = 0 if key in self._earlier else len(self._earlier)
        if len(self.groups) + kept < self._limits.max_groups or not has_value:
            self._beyond.discard(place)
            return True
        if len(self._beyond) < _MOST_LEFT_OUT:
            self._beyond.add(place)
        return False

    def _take(self, key: bytes, group: WatchedGroup, step: Step, now_s: float, *, counts: bool) -> None:
        with self._lock:
            self.groups[key] = group
            presence = self._presence.setdefault(key, _Presence(now_s))
            presence.heard_s = now_s
            group.show(step)
            if counts:
                group.count(step)
                presence.recent.extend(now_s for _ in step.generations)


class WatchedTopics:
    """Keeps the `catalogue` that all folds share, from one look at the brokers to the next."""

    def __init__(self) -> None:
        self.catalogue = Catalogue(())
        self._entries: dict[str, deque[CatalogueEntry]] = {}
        self._gone: dict[str, None] = {}

    def note(self, found: Iterable[LiveTopic], now: datetime) -> None:
        """Remember the topics that changed since the last look."""
        changed, seen = False, set()
        for live in found:
            name = live.topic.name
            seen.add(name)
            entries = self._entries.setdefault(name, deque(maxlen=_MOST_ENTRIES))
            known = entries[-1] if entries else None
            if entry := changed_entry(known, live.topic, now, racks_known=live.complete):
                entries.append(entry)
                changed = True
        self._gone = {name: None for name in (*self._gone, *self._entries) if name not in seen}
        for name in [*self._gone][:-_MOST_GONE]:
            del self._gone[name], self._entries[name]
        if changed:
            self.catalogue.set_entries(entry for history in self._entries.values() for entry in history)
