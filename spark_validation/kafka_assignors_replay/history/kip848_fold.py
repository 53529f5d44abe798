"""The history of one group of KIP-848, from its many records to *generations* like those of a classic group.

The coordinator of such a group writes no generation in one record. It writes a record for each fact that
changes: a member (and its end), the group's epoch, the target assignment of a member, the epoch that the
targets are complete for, and how far each member has come. The fold maps these records to generations:

* A **generation** is a target assignment that is complete. Its number is the epoch in the record that says
  so, and its place that record's offset. Members that get nothing may have no target of their own.
* An **epoch without a target** was superseded by the next one before its target was computed. Its record
  shows that no history is lost. An epoch without any record is lost: the topic is compacted, and the members
  and targets of the same batch are lost with a compacted record.
* A **group without members** is an empty generation, and the tombstone of its epoch the end of the group.
* A **static member that restarts** takes the place of its old id under the same epoch, which is the same
  generation once more, as in a classic group.
* A group that **changes its protocol** (online migration) ends under the one with tombstones and begins under
  the other, in the same batch, with the members and the number that it had. Its life goes on.

A generation has a `problem` where members or partitions in it may be missing or out of date. After lost
records a member counts only once a later record shows that it is still in the group.

Java's broker (`GroupMetadataManager` in group-coordinator of apache/kafka 4.4.0) is the source for which
records are written when. Pure Python without Spark, one record at a time; the memory is proportional to the
group's members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta

from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupKey, ConsumerGroupRecord
from kafka_assignors_replay.history.kip848_records import (
    LEFT_TO_RETURN,
    ConsumerGroupMember,
    ConsumerGroupMemberState,
    ConsumerGroupValue,
    CurrentAssignment,
    GroupEpoch,
    PartitionMetadata,
    Partitions,
    ResolvedRegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
)
from kafka_assignors_replay.history.rebalances import Cause, Generation
from kafka_assignors_replay.history.records import MemberRecord

DEFAULT_ASSIGNOR = "server default"
"""The protocol of a generation whose members ask for no assignor: no record shows the broker's choice."""

MEMBERS_FROM_BEFORE = (
    "the history starts in the middle of the group's life, and may not have all of its members"
)
UNPROVEN = "records before it are lost, and nothing has shown since that all of its members are still there"
UNREADABLE = "a record that it rests on does not decode"
WITHOUT_METADATA = "members of it are not described by any record"
MEMBERS_WENT = "members left while their assignment was made"

NEWEST_FIRST_EPOCH = 2
"""A group's first epoch is 1 or, in later releases, 2."""

_BETWEEN_EPOCHS = frozenset(
    {ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA, ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT}
)
"""Records that never come between a member's description and the epoch that it makes."""

_TIMER_SLACK = timedelta(seconds=1)
"""How late the coordinator's timer may fire: a longer delay may be a coincidence."""


@dataclass(frozen=True, slots=True)
class _AtEpoch:
    """The group when an epoch began."""

    members: dict[str, ConsumerGroupMember]
    metadata_hash: int


@dataclass(frozen=True, slots=True)
class _Heard:
    """How far a member had come by its last record."""

    assignment: CurrentAssignment
    since: datetime


@dataclass(slots=True)
class EpochFold:
    """Folds the records of one group in the order of their offsets: `feed` for KIP-848, `classic` for classic
    ones. The fields, without the catalogue, are its whole state."""

    _catalogue: Catalogue
    _names: dict[str, str] = field(default_factory=dict)  # by topic id, from the group's own list of topics
    _partitions: dict[str, int] = field(default_factory=dict)  # by topic, from there, too
    _classic: tuple[int, bool] | None = None  # the last classic generation, and whether it had members
    _ended: bool = False  # the record before was the tombstone of the classic group
    _closed: int | None = None  # the epoch of the group whose tombstone came last, if it had members
    _epoch: int | None = None
    _members: dict[str, ConsumerGroupMember] = field(default_factory=dict)
    _targets: dict[str, Partitions] = field(default_factory=dict)
    _current: dict[str, _Heard] = field(default_factory=dict)
    _patterns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _at: dict[int, _AtEpoch] = field(default_factory=dict)  # epochs without a target yet
    _last: int | None = None  # the last generation given
    _last_ids: frozenset[str] = frozenset()
    _last_topics: frozenset[str] = frozenset()
    _last_hash: int = 0  # of the generation given last
    _hash_given: int = 0  # of the generation to give
    _continues: bool = False
    _starts_late: bool = False
    _late: bool = False
    _lost: int = 0
    _unproven: set[str] = field(default_factory=set)
    _unreadable: set[ConsumerGroupKey] = field(default_factory=set)
    _described: set[str] = field(default_factory=set)  # members right before the epoch that comes next
    _gone: dict[str, ConsumerGroupMember] = field(default_factory=dict)  # removed since the last epoch
    _returned: dict[str, str] = field(default_factory=dict)  # the new id of a static member, and its old one
    _facts: list[tuple[Cause, str]] = field(default_factory=list)

    def _forget(self) -> None:
        """Start with an unknown group."""
        fresh = EpochFold(self._catalogue)
        for each in _OF_GROUP:
            setattr(self, each, getattr(fresh, each))

    # Records of the classic protocol.

    def classic(self, generation: int, has_members: bool) -> bool:
        """Note a classic generation of the group. True if it continues the life of a KIP-848 group."""
        continues = self._closed is not None and self._closed == generation and has_members
        if self._epoch is not None or self._members:
            self._forget()
        self._closed, self._ended = None, False
        self._classic = (generation, has_members)
        return continues

    def classic_tombstone(self) -> None:
        """Note the end of the group under the classic protocol."""
        self._ended = self._classic is not None

    def unreadable(self, key: ConsumerGroupKey) -> None:
        """Note a record whose value does not decode: the subject of its key is unknown until its next
        record."""
        self._unreadable.add(key)

    # Records of KIP-848.

    def feed(
        self, timestamp: datetime, key: ConsumerGroupKey, value: ConsumerGroupValue | None
    ) -> Iterator[Generation | None]:
        """The generations that a record completes, without their place in the group's life, and None for the
        end of the group; `value` is None for a tombstone."""
        self._unreadable.discard(key)
        member_id = key.member_id
        if member_id is not None and value is not None:
            self._unproven.discard(member_id)
        if key.type in _BETWEEN_EPOCHS:
            self._described.clear()
        if key.type is ConsumerGroupRecord.METADATA:
            if value is None:
                yield from self._end()
            elif isinstance(value, GroupEpoch):
                yield from self._begin_epoch(timestamp, value)
        elif isinstance(value, TargetAssignmentEpoch):
            yield from self._complete(timestamp, value.epoch)
        elif isinstance(value, PartitionMetadata):
            self._list_topics(value)
        elif key.type is ConsumerGroupRecord.REGULAR_EXPRESSION:
            self._resolve(key.regular_expression or "", value)
        elif member_id is None:
            pass  # the tombstone of a record type that later brokers do not write
        elif isinstance(value, ConsumerGroupMember):
            self._join(member_id, value)
        elif isinstance(value, TargetAssignment):
            self._targets[member_id] = value.partitions
        elif isinstance(value, CurrentAssignment):
            self._current[member_id] = _Heard(value, timestamp)
            yield from self._replace(timestamp, member_id)
        elif key.type is ConsumerGroupRecord.MEMBER_METADATA:
            self._leave(member_id, timestamp)
        elif key.type is ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER:
            self._targets.pop(member_id, None)

    def _begin_epoch(self, timestamp: datetime, value: GroupEpoch) -> Iterator[Generation | None]:
        if self._epoch is None:
            self._start(value.epoch)
        elif value.epoch < self._epoch:
            self._start_over(value.epoch)
        elif value.epoch > self._epoch + 1:
            self._lost += value.epoch - self._epoch - 1
            self._unproven.update(self._members.keys() - self._described)
        instances = {member.instance_id for member in self._members.values()}
        for member_id, member in self._gone.items():
            heard = self._current.pop(member_id, None)
            was_away = heard is not None and heard.assignment.epoch == LEFT_TO_RETURN
            if was_away and member.instance_id not in instances:
                self._facts.append((Cause.EXPIRY, member_id))
        self._gone.clear()
        self._returned.clear()
        self._described.clear()
        self._epoch = value.epoch
        if self._members:
            self._at[value.epoch] = _AtEpoch(dict(self._members), value.metadata_hash)
        elif value.epoch != self._last:
            self._hash_given = value.metadata_hash
            yield self._give(timestamp, value.epoch, {}, empty=True)

    def _start(self, epoch: int) -> None:
        """Start a life of the group with its first epoch, or with the first recorded one."""
        self._continues = self._ended and self._classic == (epoch, True)
        self._starts_late = self._late = not self._continues and epoch > NEWEST_FIRST_EPOCH
        if self._continues:
            self._facts.append((Cause.MIGRATION, "classic to consumer"))
        self._classic, self._ended, self._closed = None, False, None

    def _start_over(self, epoch: int) -> None:
        """A smaller epoch starts another group of the same name; the end of its predecessor is not
        recorded."""
        members = {name: member for name, member in self._members.items() if name in self._described}
        self._forget()
        self._members = members
        self._starts_late = self._late = epoch > NEWEST_FIRST_EPOCH

    def _end(self) -> Iterator[Generation | None]:
        if self._epoch is None:
            return  # the group never was a KIP-848 group, or has ended before
        # The removal of members has an epoch of its own; without one it is a change of protocol.
        with_members = self._epoch in self._at or (self._last == self._epoch and bool(self._last_ids))
        closed = self._epoch if with_members else None
        self._forget()
        self._closed = closed
        yield None

    def _list_topics(self, value: PartitionMetadata) -> None:
        for topic in value.topics:
            self._names[topic.topic_id] = topic.topic
            if topic.partitions > self._partitions.get(topic.topic, topic.partitions):
                self._facts.append((Cause.PARTITIONS_ADDED, topic.topic))
            self._partitions[topic.topic] = topic.partitions

    def _resolve(self, pattern: str, value: ConsumerGroupValue | None) -> None:
        if not isinstance(value, ResolvedRegularExpression):
            self._patterns.pop(pattern, None)
            return
        if set(self._patterns.get(pattern, ())) != set(value.topics):
            self._facts.append((Cause.PATTERN, pattern))
        self._patterns[pattern] = value.topics

    # Members.

    def _join(self, member_id: str, member: ConsumerGroupMember) -> None:
        if member_id not in self._members and member.instance_id is not None:
            for old_id, gone in self._gone.items():
                if gone.instance_id == member.instance_id:
                    self._returned[member_id] = old_id
        self._members[member_id] = member
        self._described.add(member_id)

    def _leave(self, member_id: str, timestamp: datetime) -> None:
        member = self._members.pop(member_id, None)
        self._targets.pop(member_id, None)
        self._unproven.discard(member_id)
        if member is None:
            return
        self._gone[member_id] = member
        current = self._current.get(member_id)
        if current is None or current.assignment.state is not ConsumerGroupMemberState.UNREVOKED_PARTITIONS:
            return
        late = timestamp - current.since - timedelta(milliseconds=member.rebalance_timeout_ms)
        if member.rebalance_timeout_ms > 0 and timedelta(0) <= late <= _TIMER_SLACK:
            self._facts.append((Cause.POLL_INTERVAL, member_id))

    def _replace(self, timestamp: datetime, new_id: str) -> Iterator[Generation | None]:
        """Yield the generation again with the last record by which a static member replaces its old id."""
        old_id = self._returned.pop(new_id, None)
        if old_id is None:
            return
        member = self._members[new_id]
        for at in self._at.values():
            if old_id in at.members:
                del at.members[old_id]
                at.members[new_id] = member
        self._gone.pop(old_id, None)
        self._current.pop(old_id, None)
        if self._last is None or old_id not in self._last_ids:
            return
        ids = self._last_ids - {old_id} | {new_id}
        members = {name: self._members[name] for name in ids if name in self._members}
        yield self._give(timestamp, self._last, members)

    # Generations.

    def _complete(self, timestamp: datetime, epoch: int) -> Iterator[Generation | None]:
        if self._epoch is None:
            # Compaction has removed the epoch's own record, which a later one superseded.
            self._start(epoch)
            self._starts_late = self._late = True
            self._epoch = epoch
        if epoch == self._last or (not self._members and epoch == self._epoch):
            return
        at = self._at.get(epoch)
        members, problem = self._members, None
        if epoch != self._epoch:
            if at is None:
                problem = MEMBERS_FROM_BEFORE
            else:
                members = {name: member for name, member in at.members.items() if name in self._members}
                problem = MEMBERS_WENT if len(members) < len(at.members) else None
        if at is not None:
            self._hash_given = at.metadata_hash
        yield self._give(timestamp, epoch, members, problem)

    def _give(
        self,
        timestamp: datetime,
        epoch: int,
        members: Mapping[str, ConsumerGroupMember],
        problem: str | None = None,
        *,
        empty: bool = False,
    ) -> Generation:
        topics = {
            name: frozenset(member.topics).union(self._patterns.get(member.regular_expression or "", ()))
            for name, member in members.items()
        }
        unknown: set[str] = set()
        given = {name: self._by_name(self._targets.get(name, {}), unknown) for name in members}
        subscribed = frozenset[str]().union(*topics.values())
        if not empty:
            problem = problem or self._problem(timestamp, subscribed, given, unknown)
        hashes = {self._hash_given, self._last_hash}
        if subscribed == self._last_topics and len(hashes) == 2 and 0 not in hashes:
            self._facts.append((Cause.TOPICS, ""))
        generation = Generation(
            timestamp,
            epoch,
            {
                name: MemberRecord(
                    member_id=name,
                    instance_id=member.instance_id,
                    rack=member.rack or None,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    topics=tuple(sorted(topics[name])),
                    assigned=given[name],
                    pattern=member.regular_expression or None,
                    assignor=member.assignor,
                )
                for name, member in sorted(members.items())
            },
            _preferred_assignor(members) if members else "",
            empty,
            self._starts_late,
            self._continues,
            self._lost,
            problem,
            tuple(sorted(unknown)),
            tuple(dict.fromkeys(self._facts)),
        )
        self._at = {number: at for number, at in self._at.items() if number > epoch}
        self._last, self._last_ids, self._last_topics = epoch, frozenset(members), subscribed
        self._last_hash = self._hash_given
        self._continues, self._starts_late, self._lost = False, False, 0
        self._facts.clear()
        return generation

    def _problem(
        self,
        timestamp: datetime,
        subscribed: frozenset[str],
        given: Mapping[str, Partitions],
        unknown: set[str],
    ) -> str | None:
        """Why the generation may be incomplete; None if it is complete."""
        if self._unreadable:
            return UNREADABLE
        if unknown:
            return f"the catalogue does not tell which topic has the id {min(unknown)}"
        if (self._targets.keys() | self._current.keys()) - self._members.keys() - self._gone.keys():
            return WITHOUT_METADATA
        if self._unproven.intersection(given):
            return UNPROVEN
        # Where every partition of every topic has an owner, no member with partitions is missing.
        for topic in subscribed if self._late else ():
            known = self._catalogue.at(topic, timestamp)
            numbers = [number for shares in given.values() for number in shares.get(topic, ())]
            if known is None or sorted(numbers) != list(range(known.partitions)):
                return MEMBERS_FROM_BEFORE
        self._late = False
        return None

    def _by_name(self, partitions: Partitions, unknown: set[str]) -> Partitions:
        """Partitions by topic name; ids without a name of their own are added to `unknown`."""
        by_name: dict[str, tuple[int, ...]] = {}
        for topic_id, numbers in partitions.items():
            name = self._catalogue.name_of(topic_id) or self._names.get(topic_id)
            # Two ids have one name if a topic was deleted and created again.
            if name is None or name in by_name:
                unknown.add(topic_id)
            else:
                by_name[name] = numbers
        return by_name


_OF_GROUP = tuple(
    each.name
    for each in fields(EpochFold)
    if each.name not in ("_catalogue", "_names", "_partitions", "_classic", "_ended", "_closed")
)
"""The fields that describe the group since it began."""


def _preferred_assignor(members: Mapping[str, ConsumerGroupMember]) -> str:
    """The server assignor that most members ask for, or all of them joined by "or" in a tie."""
    votes = Counter(member.assignor for member in members.values() if member.assignor is not None)
    most = max(votes.values(), default=0)
    return " or ".join(sorted(name for name in votes if votes[name] == most)) or DEFAULT_ASSIGNOR
