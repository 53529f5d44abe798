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
from datetime import datetime

from kafka_assignors_replay.catalogue import Catalogue, forget_unused
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupKey, ConsumerGroupRecord
from kafka_assignors_replay.history.kip848_records import (
    ConsumerGroupMember,
    ConsumerGroupValue,
    CurrentAssignment,
    GroupEpoch,
    PartitionMetadata,
    Partitions,
    ResolvedRegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
)
from kafka_assignors_replay.history.rebalances import CLASSIC, CONSUMER, Cause, Generation
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


class EpochFold:
    """Folds the records of one group in the order of their offsets: `feed` for KIP-848, `classic` for classic
    ones."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._names: dict[str, str] = {}  # by topic id, from the group's own list of topics
        self._partitions: dict[str, int] = {}  # by topic, from there, too
        self._classic: int | None = None  # the last generation, if it is a classic one with members
        self._ended: tuple[str, int] | None = None  # the protocol and number that it ended with, with members
        self._forget()

    def _forget(self) -> None:
        """Start with an unknown group."""
        self._epoch: int | None = None
        self._members: dict[str, ConsumerGroupMember] = {}
        self._targets: dict[str, Partitions] = {}
        self._patterns: dict[str, tuple[str, ...]] = {}
        self._at: dict[int, dict[str, ConsumerGroupMember]] = {}  # when an epoch without a target yet began
        self._hashes: dict[int, int] = {}  # over the topics of these epochs
        self._last: int | None = None  # the last generation given, its members and hash
        self._given: Mapping[str, MemberRecord] = {}
        self._hash = 0
        self._continues = self._late = False
        self._lost = 0
        self._named: set[str] = set()  # members that a record is about, and perhaps none describes
        self._unproven: set[str] = set()
        self._unreadable: set[ConsumerGroupKey] = set()
        self._described: set[str] = set()  # members right before the epoch that comes next
        self._gone: dict[str | None, str] = {}  # static members removed since the last epoch, by instance id
        self._facts: dict[tuple[Cause, str], None] = {}

    # Records of the classic protocol

    def classic(self, generation: int, has_members: bool) -> bool:
        """Note a classic generation of the group. True if it continues the life of a KIP-848 group."""
        continues = has_members and self._ended == (CONSUMER, generation)
        self._forget()
        self._classic, self._ended = generation if has_members else None, None
        return continues

    def classic_tombstone(self) -> None:
        """Note the end of the group under the classic protocol."""
        if self._classic is not None:
            self._ended = CLASSIC, self._classic

    # Records of KIP-848

    def unreadable(self, key: ConsumerGroupKey) -> None:
        """Note a record whose value does not decode: what its key names is unknown until its next record."""
        self._unreadable.add(key)

    def feed(
        self, timestamp: datetime, key: ConsumerGroupKey, value: ConsumerGroupValue | None
    ) -> Iterator[Generation | None]:
        """The generations that a record completes, without their place in the group's life, and None for the
        end of the group; `value` is None for a tombstone."""
        self._unreadable.discard(key)
        name, pattern = key.member_id or "", key.regular_expression or ""
        if value is not None and key.member_id is not None:
            self._named.add(name)
            self._unproven.discard(name)
        if isinstance(value, TargetAssignmentEpoch | CurrentAssignment):
            self._described.clear()  # neither comes between a description and the epoch that it makes
        match value:
            case GroupEpoch():
                yield from self._begin_epoch(timestamp, value)
            case TargetAssignmentEpoch():
                yield from self._complete(timestamp, value.assignment_epoch)
            case PartitionMetadata():
                for topic_id, topic, partitions in value.topics:
                    self._names[topic_id] = topic
                    if partitions > self._partitions.get(topic, partitions):
                        self._facts[Cause.PARTITIONS_ADDED, topic] = None
                    self._partitions[topic] = partitions
                forget_unused(self._names, (topic_id for topic_id, _, _ in value.topics))
                forget_unused(self._partitions, (topic for _, topic, _ in value.topics))
            case ResolvedRegularExpression():
                if set(self._patterns.get(pattern, ())) != set(value.topics):
                    self._facts[Cause.PATTERN, pattern] = None
                self._patterns[pattern] = value.topics
            case ConsumerGroupMember():
                self._members[name] = value
                self._described.add(name)
            case TargetAssignment():
                self._targets[name] = value.topic_partitions
            case CurrentAssignment():
                yield from self._replace(timestamp, name)
            case None if key.type is ConsumerGroupRecord.REGULAR_EXPRESSION:
                self._patterns.pop(pattern, None)
            case None if key.type is ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER:
                self._targets.pop(name, None)
            case None if key.type is ConsumerGroupRecord.MEMBER_METADATA:
                member = self._members.pop(name, None)
                self._named.discard(name)
                if member is not None and member.instance_id is not None:
                    self._gone.setdefault(member.instance_id, name)
            # Without an epoch the group never was a KIP-848 group, or has ended before.
            case None if key.type is ConsumerGroupRecord.METADATA and self._epoch is not None:
                # The removal of members has an epoch of its own; without one it is a change of protocol.
                has_members = self._epoch in self._at or (self._last == self._epoch and self._given)
                self._ended = (CONSUMER, self._epoch) if has_members else None
                self._forget()
                yield None

    def _begin_epoch(self, timestamp: datetime, value: GroupEpoch) -> Iterator[Generation]:
        epoch = value.epoch
        if self._epoch is not None and epoch < self._epoch:
            # Another group of the same name; the end of its predecessor is not recorded.
            members = {name: member for name, member in self._members.items() if name in self._described}
            self._forget()
            self._members = members
        if self._epoch is None:
            self._start(epoch)
        elif epoch > self._epoch + 1:
            self._lost += epoch - self._epoch - 1
            self._unproven = self._members.keys() - self._described
        self._epoch = epoch
        self._hashes[epoch] = value.metadata_hash
        self._gone.clear()
        self._described.clear()
        if self._members:
            self._at[epoch] = dict(self._members)
        elif epoch != self._last:
            yield self._give(timestamp, epoch, {})

    def _start(self, epoch: int) -> None:
        """Start a life of the group with its first epoch, or with the first recorded one."""
        self._continues = self._ended == (CLASSIC, epoch)
        self._late = not self._continues and epoch > NEWEST_FIRST_EPOCH
        self._epoch = epoch
        self._classic = self._ended = None

    def _replace(self, timestamp: datetime, new_id: str) -> Iterator[Generation]:
        """Yield the generation again with the last record by which a static member replaces its old id."""
        member = self._members.get(new_id)
        if member is None or member.instance_id not in self._gone:
            return
        old_id = self._gone.pop(member.instance_id)
        for at in self._at.values():
            if at.pop(old_id, None) is not None:
                at[new_id] = member
        if self._last is not None and old_id in self._given:
            ids = self._given.keys() - {old_id} | {new_id}
            members = {name: self._members[name] for name in ids if name in self._members}
            yield self._give(timestamp, self._last, members)

    def _complete(self, timestamp: datetime, epoch: int) -> Iterator[Generation]:
        if self._epoch is None:
            # Compaction has removed the epoch's own record, which a later one superseded.
            self._start(epoch)
            self._late = True
        if epoch == self._last or (not self._members and epoch == self._epoch):
            return
        members, problem = self._members, None
        if epoch != self._epoch:
            at = self._at.get(epoch)
            if at is None:
                problem = MEMBERS_FROM_BEFORE
            else:
                members = {name: member for name, member in at.items() if name in self._members}
                problem = MEMBERS_WENT if len(members) < len(at) else None
        yield self._give(timestamp, epoch, members, problem)

    def _give(
        self,
        timestamp: datetime,
        epoch: int,
        members: Mapping[str, ConsumerGroupMember],
        problem: str | None = None,
    ) -> Generation:
        """The generation of these members."""
        unknown: set[str] = set()
        given: dict[str, MemberRecord] = {}
        for name, member in sorted(members.items()):
            pattern = member.subscribed_topic_regex or None
            topics = {*member.subscribed_topic_names, *self._patterns.get(pattern or "", ())}
            given[name] = MemberRecord(
                member_id=name,
                instance_id=member.instance_id,
                rack=member.rack_id or None,
                client_id=member.client_id,
                client_host=member.client_host,
                topics=tuple(sorted(topics)),
                assigned=self._by_name(self._targets.get(name, {}), unknown),
                pattern=pattern,
            )
        before, self._hash = self._hash, self._hashes.get(epoch, self._hash)
        if before and self._hash not in (0, before) and _topics_of(given) == _topics_of(self._given):
            self._facts[Cause.TOPICS, ""] = None
        generation = Generation(
            timestamp,
            epoch,
            given,
            _preferred_assignor(members) if members else "",
            empty=not (members or problem),
            starts_late=self._late and self._last is None,
            continues=self._continues and self._last is None,
            lost=self._lost,
            problem=problem,
            facts=tuple(self._facts),
        )
        if not (generation.empty or problem):
            generation.problem = self._problem(generation, unknown)
        self._at = {number: at for number, at in self._at.items() if number > epoch}
        self._hashes = {number: each for number, each in self._hashes.items() if number > epoch}
        self._last, self._given, self._lost, self._facts = epoch, given, 0, {}
        return generation

    def _problem(self, generation: Generation, unknown: set[str]) -> str | None:
        """Why the generation may be incomplete; None if it is complete."""
        if self._unreadable:
            return UNREADABLE
        if unknown:
            return f"the catalogue does not tell which topic has the id {min(unknown)}"
        if self._named - self._members.keys():
            return WITHOUT_METADATA
        if self._unproven.intersection(generation.members):
            return UNPROVEN
        # Where every partition of every topic has an owner, no member with partitions is missing.
        members = generation.members
        for topic in _topics_of(members) if self._late else ():
            known = self._catalogue.at(topic, generation.timestamp)
            numbers = [number for member in members.values() for number in member.assigned.get(topic, ())]
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


def _topics_of(members: Mapping[str, MemberRecord]) -> Set[str]:
    return {topic for member in members.values() for topic in member.topics}


def _preferred_assignor(members: Mapping[str, ConsumerGroupMember]) -> str:
    """The server assignor that most members ask for, or all of them joined by "or" in a tie."""
    asked = (member.server_assignor for member in members.values())
    votes = Counter(name for name in asked if name is not None)
    most = max(votes.values(), default=0)
    return " or ".join(sorted(name for name in votes if votes[name] == most)) or DEFAULT_ASSIGNOR
