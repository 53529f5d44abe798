"""The history of one group of KIP-848, from its many records to *generations* like those of a classic group.

The coordinator of such a group writes a record for each fact that changes. The fold maps them to generations:

* A **generation** is a target assignment that is complete. Its number is the epoch in the record that says
  so, and its place that record's offset. Members that get nothing may have no target of their own.
* An **epoch without a target** was superseded by the next one before its target was computed. Its record
  shows that no history is lost. An epoch without any record is lost: the topic is compacted, and the members
  and targets of the same batch are lost with a compacted record. After that a member counts only once a later
  record shows that it is still in the group.
* A **group without members** is an empty generation, and the tombstone of its epoch the end of the group.
* A **static member that restarts** takes the place of its old id under the same epoch, which is the same
  generation once more, as in a classic group.
* A group that **changes its protocol** (online migration) ends under the one with tombstones and begins under
  the other, in the same batch, with the members and the number that it had. Its life goes on.

Java's broker (`GroupMetadataManager` in group-coordinator of apache/kafka 4.4.0) is the source for which
records are written when. The memory is proportional to the group's members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from datetime import datetime, timedelta
from typing import NamedTuple

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


class _AtEpoch(NamedTuple):
    """The group when an epoch began."""

    members: dict[str, ConsumerGroupMember]
    metadata_hash: int


class EpochFold:
    """Folds the records of one group in the order of their offsets: `feed` for KIP-848, `classic` for classic
    ones."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._names: dict[str, str] = {}  # by topic id, from the group's own list of topics
        self._partitions: dict[str, int] = {}  # by topic, from there, too
        self._classic: tuple[int, bool] | None = None  # the last classic generation; whether it had members
        self._ended = False  # the record before was the tombstone of the classic group
        self._closed: int | None = None  # the epoch of the group whose tombstone came last, if it had members
        self._forget()

    def _forget(self) -> None:
        """Start with an unknown group."""
        self._epoch: int | None = None
        self._members: dict[str, ConsumerGroupMember] = {}
        self._targets: dict[str, Partitions] = {}
        self._current: dict[str, tuple[CurrentAssignment, datetime]] = {}
        self._patterns: dict[str, tuple[str, ...]] = {}
        self._at: dict[int, _AtEpoch] = {}  # epochs without a target yet
        self._last: int | None = None  # the last generation given, its members, topics and hash
        self._last_ids: Set[str] = frozenset()
        self._last_topics: Set[str] = frozenset()
        self._hash = 0
        self._continues = self._starts_late = self._late = False
        self._lost = 0
        self._unproven: set[str] = set()
        self._unreadable: set[ConsumerGroupKey] = set()
        self._described: set[str] = set()  # members right before the epoch that comes next
        self._gone: dict[str, ConsumerGroupMember] = {}  # removed since the last epoch
        self._facts: dict[tuple[Cause, str], None] = {}

    # Records of the classic protocol

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

    # Records of KIP-848

    def unreadable(self, key: ConsumerGroupKey) -> None:
        """Note a record whose value does not decode: the subject of its key is unknown until its next
        record."""
        self._unreadable.add(key)

    def feed(
        self, timestamp: datetime, key: ConsumerGroupKey, value: ConsumerGroupValue | None
    ) -> Iterator[Generation | None]:
        """The generations that a record completes, without their place in the group's life, and None for the
        end of the group; `value` is None for a tombstone."""
        self._unreadable.discard(key)
        name = key.member_id or ""
        if value is not None and key.member_id is not None:
            self._unproven.discard(name)
        if key.type in _BETWEEN_EPOCHS:
            self._described.clear()
        match value:
            case GroupEpoch():
                yield from self._begin_epoch(timestamp, value)
            case TargetAssignmentEpoch():
                yield from self._complete(timestamp, value.epoch)
            case PartitionMetadata():
                for topic in value.topics:
                    self._names[topic.topic_id] = topic.topic
                    if topic.partitions > self._partitions.get(topic.topic, topic.partitions):
                        self._facts[Cause.PARTITIONS_ADDED, topic.topic] = None
                    self._partitions[topic.topic] = topic.partitions
            case ResolvedRegularExpression():
                pattern = key.regular_expression or ""
                if set(self._patterns.get(pattern, ())) != set(value.topics):
                    self._facts[Cause.PATTERN, pattern] = None
                self._patterns[pattern] = value.topics
            case ConsumerGroupMember():
                self._members[name] = value
                self._described.add(name)
            case TargetAssignment():
                self._targets[name] = value.partitions
            case CurrentAssignment():
                self._current[name] = value, timestamp
                yield from self._replace(timestamp, name)
            case None:
                yield from self._tombstone(timestamp, key)

    def _tombstone(self, timestamp: datetime, key: ConsumerGroupKey) -> Iterator[None]:
        name = key.member_id or ""
        match key.type:
            case ConsumerGroupRecord.REGULAR_EXPRESSION:
                self._patterns.pop(key.regular_expression or "", None)
            case ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER:
                self._targets.pop(name, None)
            case ConsumerGroupRecord.MEMBER_METADATA:
                self._leave(name, timestamp)
            # Without an epoch the group never was a KIP-848 group, or has ended before.
            case ConsumerGroupRecord.METADATA if self._epoch is not None:
                # The removal of members has an epoch of its own; without one it is a change of protocol.
                has_members = self._epoch in self._at or (self._last == self._epoch and bool(self._last_ids))
                closed = self._epoch if has_members else None
                self._forget()
                self._closed = closed
                yield None

    def _begin_epoch(self, timestamp: datetime, value: GroupEpoch) -> Iterator[Generation]:
        epoch = value.epoch
        if self._epoch is None:
            self._start(epoch)
        elif epoch < self._epoch:
            # Another group of the same name; the end of its predecessor is not recorded.
            members = {name: member for name, member in self._members.items() if name in self._described}
            self._forget()
            self._members = members
            self._starts_late = self._late = epoch > NEWEST_FIRST_EPOCH
        elif epoch > self._epoch + 1:
            self._lost += epoch - self._epoch - 1
            self._unproven.update(self._members.keys() - self._described)
        instances = {member.instance_id for member in self._members.values()}
        for name, member in self._gone.items():
            current = self._current.pop(name, None)
            was_away = current is not None and current[0].epoch == LEFT_TO_RETURN
            if was_away and member.instance_id not in instances:
                self._facts[Cause.EXPIRY, name] = None
        self._gone.clear()
        self._described.clear()
        self._epoch = epoch
        if self._members:
            self._at[epoch] = _AtEpoch(dict(self._members), value.metadata_hash)
        elif epoch != self._last:
            yield self._give(timestamp, epoch, {}, metadata_hash=value.metadata_hash, empty=True)

    def _start(self, epoch: int) -> None:
        """Start a life of the group with its first epoch, or with the first recorded one."""
        self._continues = self._ended and self._classic == (epoch, True)
        self._starts_late = self._late = not self._continues and epoch > NEWEST_FIRST_EPOCH
        if self._continues:
            self._facts[Cause.MIGRATION, "classic to consumer"] = None
        self._classic, self._ended, self._closed = None, False, None

    def _leave(self, name: str, timestamp: datetime) -> None:
        member = self._members.pop(name, None)
        self._targets.pop(name, None)
        self._unproven.discard(name)
        if member is None:
            return
        self._gone[name] = member
        current, since = self._current.get(name, (None, timestamp))
        if current is not None and current.state is ConsumerGroupMemberState.UNREVOKED_PARTITIONS:
            late = timestamp - since - timedelta(milliseconds=member.rebalance_timeout_ms)
            if member.rebalance_timeout_ms > 0 and timedelta(0) <= late <= _TIMER_SLACK:
                self._facts[Cause.POLL_INTERVAL, name] = None

    def _replace(self, timestamp: datetime, new_id: str) -> Iterator[Generation]:
        """Yield the generation again with the last record by which a static member replaces its old id."""
        member = self._members.get(new_id)
        if member is None or member.instance_id is None:
            return
        old_ids = [old_id for old_id, gone in self._gone.items() if gone.instance_id == member.instance_id]
        if not old_ids:
            return
        old_id = old_ids[-1]
        for at in self._at.values():
            if at.members.pop(old_id, None) is not None:
                at.members[new_id] = member
        del self._gone[old_id]
        self._current.pop(old_id, None)
        if self._last is not None and old_id in self._last_ids:
            ids = self._last_ids - {old_id} | {new_id}
            members = {name: self._members[name] for name in ids if name in self._members}
            yield self._give(timestamp, self._last, members)

    def _complete(self, timestamp: datetime, epoch: int) -> Iterator[Generation]:
        if self._epoch is None:
            # Compaction has removed the epoch's own record, which a later one superseded.
            self._start(epoch)
            self._starts_late = self._late = True
            self._epoch = epoch
        if epoch == self._last or (not self._members and epoch == self._epoch):
            return
        at, members, problem = self._at.get(epoch), self._members, None
        if epoch != self._epoch:
            if at is None:
                problem = MEMBERS_FROM_BEFORE
            else:
                members = {name: member for name, member in at.members.items() if name in self._members}
                problem = MEMBERS_WENT if len(members) < len(at.members) else None
        yield self._give(timestamp, epoch, members, problem, at and at.metadata_hash)

    def _give(
        self,
        timestamp: datetime,
        epoch: int,
        members: Mapping[str, ConsumerGroupMember],
        problem: str | None = None,
        metadata_hash: int | None = None,
        *,
        empty: bool = False,
    ) -> Generation:
        """The generation of these members; None for the hash of the one before."""
        unknown: set[str] = set()
        given: dict[str, MemberRecord] = {}
        for name, member in sorted(members.items()):
            pattern = member.regular_expression or None
            given[name] = MemberRecord(
                member_id=name,
                instance_id=member.instance_id,
                rack=member.rack or None,
                client_id=member.client_id,
                client_host=member.client_host,
                topics=tuple(sorted({*member.topics, *self._patterns.get(pattern or "", ())})),
                assigned=self._by_name(self._targets.get(name, {}), unknown),
                pattern=pattern,
            )
        topics = {topic for member in given.values() for topic in member.topics}
        if metadata_hash is None:
            metadata_hash = self._hash
        if topics == self._last_topics and metadata_hash != self._hash and metadata_hash and self._hash:
            self._facts[Cause.TOPICS, ""] = None
        if not empty:
            problem = problem or self._problem(timestamp, topics, given, unknown)
        generation = Generation(
            timestamp,
            epoch,
            given,
            _preferred_assignor(members) if members else "",
            empty,
            self._starts_late,
            self._continues,
            self._lost,
            problem,
            tuple(self._facts),
        )
        self._at = {number: at for number, at in self._at.items() if number > epoch}
        self._last, self._last_ids, self._last_topics, self._hash = epoch, given.keys(), topics, metadata_hash
        self._continues, self._starts_late, self._lost = False, False, 0
        self._facts = {}
        return generation

    def _problem(
        self, timestamp: datetime, topics: Set[str], given: Mapping[str, MemberRecord], unknown: set[str]
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
        for topic in topics if self._late else ():
            known = self._catalogue.at(topic, timestamp)
            numbers = [number for member in given.values() for number in member.assigned.get(topic, ())]
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


def _preferred_assignor(members: Mapping[str, ConsumerGroupMember]) -> str:
    """The server assignor that most members ask for, or all of them joined by "or" in a tie."""
    votes = Counter(member.assignor for member in members.values() if member.assignor is not None)
    most = max(votes.values(), default=0)
    return " or ".join(sorted(name for name in votes if votes[name] == most)) or DEFAULT_ASSIGNOR
