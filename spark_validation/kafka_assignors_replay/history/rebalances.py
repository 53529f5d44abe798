"""The history of one group as a sequence of *logical rebalances*: the facts before each, and its outcome.

* Under the cooperative protocol (KIP-429) a partition that changes owner is withheld in one generation and
  handed over in the next. These generations are one rebalance: it begins with what members had before the
  first of them, and its outcome is the last one. A hand-over is unfinished while a partition of a live member
  has no owner.
* A static member that restarts writes its generation again with another member id. That is no new decision:
  the instance keeps its partitions under the new id.
* A generation of a KIP-848 group is a rebalance of its own.
* A member's partitions are those that the last record of its group assigned. Its *claim* in the subscription
  is not used: an eager member claims nothing.

A rebalance that lacks a fact is not judged; it has the `problem`. The memory is that of a few generations.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from kafka_assignors.group import NO_GENERATION, TopicPartitions
from kafka_assignors_replay.history.records import CONSUMER_PROTOCOL_TYPE, MemberRecord

CLASSIC, CONSUMER = "classic", "consumer"
"""The `type` of a generation: the protocol of its group, classic or that of KIP-848."""

EAGER_STRATEGIES = frozenset({"range", "roundrobin", "sticky"})
"""Strategies that never run cooperatively. Any other strategy does if its members claim partitions that they
have not revoked."""

HISTORY_STARTS = "the history starts in the middle of the group's life"
RECORDS_LOST = (
    "records before it are lost: left out or undecodable, or members own partitions that no record gave them"
)
DOES_NOT_DECODE = "a member of it does not decode"
PREDECESSOR_DOES_NOT_DECODE = "a member of the generation before it does not decode"
UNFINISHED = "its cooperative hand-over has no end in the history"


def partitions_of(by_topic: TopicPartitions) -> Iterator[tuple[str, int]]:
    """The topic and number of each partition."""
    return ((topic, number) for topic, numbers in by_topic.items() for number in numbers)


class Cause(str, enum.Enum):
    """The causes of a generation."""

    CREATED = "created"
    JOIN = "join"
    DEPARTURE = "departure"  # left or removed
    STATIC_REPLACEMENT = "static-replacement"
    SUBSCRIPTION = "subscription"
    PATTERN = "pattern"
    PARTITIONS_ADDED = "partitions-added"
    TOPICS = "topics"
    ASSIGNOR = "assignor"
    LEADER = "leader"
    HAND_OVER = "hand-over"
    MIGRATION = "migration"
    UNKNOWN = "unknown"


@dataclass(slots=True)  # a frozen one takes five times as long to make
class Generation:
    """A generation of a group, or an empty one, at the record that completes it, with its place in the
    group's life as `history.generations` finds it. From then on nothing changes it.

    Groups of other protocol types than "consumer" have generations, too, but no members that decode. `reason`
    says why a member does not decode. `lost` counts the undecodable records and the missing epochs right
    before the generation, and `problem` says why members or partitions may be missing in it. `shows_loss`
    says that a record before it is missing: one of the `lost`, or one that a member's claim rests on.
    `starts_late` says that it is the first of a life whose first generations are not in the history,
    `continues` that it continues the life of the generation before under the other protocol. `facts` are
    causes that only the records of KIP-848 show, each with the topic or pattern that it concerns.
    """

    timestamp: datetime
    generation: int
    members: Mapping[str, MemberRecord]
    protocol: str = ""
    empty: bool = False
    starts_late: bool = False
    continues: bool = False
    lost: int = 0
    problem: str | None = None
    facts: tuple[tuple[Cause, str], ...] = ()
    group: str = ""
    partition: int = 0
    offset: int = 0
    incarnation: int = 0
    replacement: bool = False
    skipped: int = 0
    clock_back: bool = False
    type: str = CLASSIC
    protocol_type: str | None = None
    leader: str | None = None
    reason: str | None = None
    shows_loss: bool = False

    @property
    def is_of_consumers(self) -> bool:
        """Whether a replay needs the generation; an empty group may have no protocol type."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE or self.empty

    @property
    def decodes(self) -> bool:
        return self.reason is None

    @property
    def is_known(self) -> bool:
        """Whether all its members and their partitions are known."""
        return self.reason is None and self.problem is None

    @property
    def is_comparable(self) -> bool:
        """Whether it and what happened right before it are known, so that its members can be compared with
        those before."""
        return not (self.lost or self.starts_late) and self.is_known

    @property
    def recorded(self) -> dict[str, TopicPartitions]:
        """The recorded partitions of each member, by member id."""
        return {member.member_id: member.assigned for member in self.members.values()}

    @property
    def holds(self) -> bool:
        """Whether a member has partitions that it did not revoke before it joined."""
        return any(member.holds for member in self.members.values())

    @property
    def assigned(self) -> set[tuple[str, int]]:
        """The topic and number of every partition that a member is assigned."""
        return {each for member in self.members.values() for each in partitions_of(member.assigned)}

    @property
    def cooperative(self) -> bool:
        return self.protocol not in EAGER_STRATEGIES and self.holds


@dataclass(slots=True, kw_only=True)
class Rebalance(Generation):
    """One logical rebalance: its last generation, and the state before it.

    `generations` counts its recorded generations. `prior` has each member's partitions before it, by member
    id, as of `prior_generation`. `problem` is the reason why it cannot be judged, or None.
    """

    generations: int
    prior: Mapping[str, TopicPartitions]
    prior_generation: int


_FIELDS = attrgetter(*(each.name for each in fields(Generation)))
"""The values of all fields of a generation."""


class Replacement(NamedTuple):
    """Static members came back under new ids: new id by old id, which is the same for those that stayed."""

    new_ids: Mapping[str, str]


class _Held(NamedTuple):
    """The owners after a record, and their generation; or the `problem` that keeps them unknown."""

    members: Mapping[str, TopicPartitions]
    generation: int = NO_GENERATION
    problem: str | None = None


_NO_OWNERS = _Held({})


@dataclass(slots=True)
class _Open:
    """A rebalance that has not ended, and the owners `before` it.

    A hand-over may go on for any number of generations, so only the `last` of them is kept, or what replaced
    it. `decodes` says whether all of them decode, and `lost` whether records in it are missing.
    """

    before: _Held
    last: Generation
    generations: int = 0
    decodes: bool = True
    lost: bool = False


@dataclass(slots=True)
class RebalanceFold:
    """Folds the records of one group, in order, into rebalances: `feed` each record, then `finish`.

    `held` are the owners after the last record, `open` is the rebalance that has not ended.
    """

    incarnation: int | None = None
    last: Generation | None = None
    held: _Held = _NO_OWNERS
    open: _Open | None = None

    def feed(self, record: Generation) -> Iterator[Rebalance | Replacement]:
        """The rebalances and replacements that this record completes."""
        if record.incarnation != self.incarnation:
            yield from self.finish()
            self.incarnation, self.last = record.incarnation, None
            self.held = _Held({}, problem=HISTORY_STARTS) if record.starts_late else _NO_OWNERS

        held, self.held = self.held, _held_after(record)
        if record.empty:
            yield from self.finish()
        elif record.replacement and self.last is not None and not self.last.empty:
            if self.open is not None:
                self.open.last = record
            yield Replacement(_new_ids(self.last, record))
        else:
            done = self.open = self.open or _Open(held, record)
            done.last = record
            done.generations += 1
            done.decodes = done.decodes and record.decodes
            done.lost = done.lost or record.shows_loss
            if not _hand_over_unfinished(record, held):
                yield self._close(done, None)
        self.last = record

    def finish(self) -> Iterator[Rebalance]:
        """The hand-over that no record ends, if there is one."""
        if self.open is not None:
            yield self._close(self.open, UNFINISHED)

    def _close(self, done: _Open, problem: str | None) -> Rebalance:
        last, before = done.last, done.before
        self.open = None
        rebalance = Rebalance(
            *_FIELDS(last),
            generations=done.generations,
            prior=before.members,
            prior_generation=before.generation,
        )
        if not (done.decodes and last.decodes):
            rebalance.problem = DOES_NOT_DECODE
        else:
            rebalance.problem = last.problem or before.problem or (RECORDS_LOST if done.lost else problem)
        return rebalance


def _held_after(record: Generation) -> _Held:
    problem = None if record.decodes else PREDECESSOR_DOES_NOT_DECODE
    if record.problem:
        problem = f"what members had before it is not known: {record.problem}"
    return _Held(record.recorded, record.generation, problem)


def _new_ids(before: Generation, after: Generation) -> dict[str, str]:
    ids = {member.instance_id: member.member_id for member in after.members.values() if member.instance_id}
    return {
        member.member_id: ids[member.instance_id]
        for member in before.members.values()
        if member.instance_id in ids
    }


def _hand_over_unfinished(record: Generation, held: _Held) -> bool:
    """Whether a partition that a live member had before this generation has no owner in it."""
    members = record.members.values()
    if not record.cooperative:
        return False
    subscribed = {topic for member in members for topic in member.topics}
    given = record.assigned
    return any(
        topic in subscribed and (topic, partition) not in given
        for member in members
        for topic, partition in partitions_of(
            held.members.get(member.member_id, {}) if held.problem is None else member.owned
        )
    )
