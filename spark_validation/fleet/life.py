"""The life of one group: the members that join and leave, and the records that its coordinator writes.

A leader with the group's strategy computes the assignments; the codecs of the wire format write the bytes.
Under the cooperative protocol a partition that changes its owner takes two generations, and members claim the
partitions that they hold; eager members have revoked them.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from compat_tests.support.group_records import encode_group_metadata, encode_key
from kafka_assignors.group import NO_GENERATION, Group, Member, Topic, TopicPartitions
from kafka_assignors.leader import lead
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy
from kafka_assignors.wire import ConsumerAssignment, Names, encode_assignment, encode_member
from kafka_assignors_replay.history.consumer_offsets import GroupMember, GroupMetadata, GroupMetadataKey
from spark_validation.fleet.happenings import Happening, What, happenings
from spark_validation.fleet.profile import RACKS, Client, FleetOptions, GroupProfile, topics_of

__all__ = ["Record", "life"]

_LOST_GENERATIONS = 3
"""The number of missing generations of a group whose history starts late."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the group, `at_ms` after the beginning of the history. A null value is a tombstone."""

    at_ms: int
    key: bytes
    value: bytes | None


@dataclass(slots=True)
class _Live:
    """A current member of the group."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    rack: str | None
    topics: frozenset[str]
    owned: TopicPartitions = field(default_factory=dict)
    generation: int = NO_GENERATION


def life(options: FleetOptions, profile: GroupProfile) -> Iterator[Record]:
    """The records of one group in order, with different milliseconds."""
    yield from _Life(options, profile).records()


class _Life:
    def __init__(self, options: FleetOptions, profile: GroupProfile) -> None:
        self._options, self._profile = options, profile
        self._rng: random.Random = options.random("life", profile.index)
        self._strategy: Strategy = load_strategy(profile.strategy)
        cooperative = RebalanceProtocol.COOPERATIVE in self._strategy.protocols
        self._protocol = RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER
        self._key = encode_key(GroupMetadataKey(profile.group))
        self._topics = topics_of(options, sorted({*profile.topics, *profile.later_topics}))
        self._seen: dict[str, Topic] = {}
        self._now_ms = self._rng.randrange(1, max(2, options.duration_ms // 100))
        self._members: list[_Live] = []
        self._leader: _Live | None = None
        self._generation = 0
        self._made = 0
        self._started = 0
        self._joined: list[bytes] = []
        self._subscription = self._names(profile.topics)

    def _names(self, numbers: tuple[int, ...]) -> frozenset[str]:
        return frozenset(plan.topic.name for plan in topics_of(self._options, numbers))

    def records(self) -> Iterator[Record]:
        skipped = _LOST_GENERATIONS if self._profile.starts_late else 0
        for record in self._all_records():
            if skipped:
                skipped -= 1
            else:
                yield record

    def _all_records(self) -> Iterator[Record]:
        self._refresh()
        yield from self._start(self._profile.members)
        for happening in happenings(self._options, self._profile):
            if self._made >= self._profile.generations:
                return
            self._now_ms = max(self._now_ms + 1, happening.at_ms)
            yield from self._befall(happening)

    def _start(self, members: int) -> Iterator[Record]:
        """The first member joins alone; the others join up to three at a time."""
        self._join()
        yield from self._rebalance()
        while len(self._members) < members:
            for _ in range(min(self._rng.choice((1, 2, 3)), members - len(self._members))):
                self._join()
            yield from self._rebalance()

    def _befall(self, happening: Happening) -> Iterator[Record]:
        what, number = happening.what, happening.number
        if not self._members and what not in (What.JOIN, What.SCALE):
            return
        if what is What.JOIN:
            self._join()
        elif what is What.LEAVE:
            self._leave(number)
        elif what is What.SCALE:
            if number == len(self._members):
                return
            while len(self._members) > number:
                self._leave(self._rng.randrange(1 << 30))
            while len(self._members) < number:
                self._join()
        elif what is What.REFRESH:
            before = dict(self._seen)
            self._refresh()
            if self._seen == before:
                return
        elif what is What.END:
            self._members.clear()
            yield from self._rebalance()
            self._now_ms += self._rng.randrange(60_000, 600_000)
            yield Record(self._now_ms, self._key, None)
            self._generation = 0
            self._refresh()
            self._now_ms += self._rng.randrange(1_000, 60_000)
            yield from self._start(self._profile.members)
            return
        else:
            yield from self._restart(number, resubscribes=what is What.RESUBSCRIBE)
            return
        yield from self._rebalance()

    def _restart(self, number: int, *, resubscribes: bool) -> Iterator[Record]:
        if resubscribes:
            self._subscription = self._names(self._profile.later_topics)
        old = self._members[number % len(self._members)]
        if old.instance_id is not None and old.topics == self._subscription:
            # The coordinator gives the partitions of the instance to a new member id, in the same generation.
            old.member_id = self._member_id(old.instance_id)
            yield self._record()
            # The new process does not know the generation when it joins next.
            old.generation = NO_GENERATION
            return
        self._members.remove(old)
        # Often the member is back before the others have rejoined: then no member notices its absence.
        if self._rng.random() < 0.7:
            yield from self._rebalance()
        self._join(old.instance_id)
        yield from self._rebalance()

    # Members

    def _join(self, instance_id: str | None = None) -> None:
        client: Client = self._rng.choice(self._profile.clients)
        self._started += 1
        client_id = client.client_id.format(group=self._profile.group, number=self._started)
        if self._profile.static and instance_id is None:
            taken = {member.instance_id for member in self._members}
            instance_id = next(
                name
                for place in range(len(self._members) + 1)
                if (name := f"{self._profile.group}-{place}") not in taken
            )
        rack = self._rng.choice(RACKS) if self._profile.racks and client.racks else None
        host = f"/10.{self._rng.randrange(256)}.{self._rng.randrange(256)}.{self._rng.randrange(1, 255)}"
        member_id = self._member_id(instance_id or client_id)
        self._members.append(_Live(member_id, client_id, host, instance_id, rack, self._subscription))

    def _member_id(self, prefix: str) -> str:
        """A member id in the broker's format."""
        return f"{prefix}-{uuid.UUID(int=self._rng.getrandbits(128), version=4)}"

    def _leave(self, number: int) -> None:
        del self._members[-1 if number == -1 else number % len(self._members)]

    def _refresh(self) -> None:
        """Update the leader's metadata to the current time."""
        self._seen = {plan.topic.name: plan.at(self._now_ms) for plan in self._topics}

    # Generations

    def _rebalance(self) -> Iterator[Record]:
        """The generations that follow a change of the group, until no partition is withheld."""
        while True:
            self._now_ms += self._rng.randrange(20, 400)
            # If another join overtakes a join, its generation takes a number and is never recorded.
            self._generation += 1 if self._rng.random() < 0.97 else self._rng.randrange(2, 5)
            self._made += 1
            withheld = self._assign()
            yield self._record()
            if not withheld:
                return

    def _assign(self) -> bool:
        if not self._members:
            self._leader = None
            return False
        if self._leader not in self._members:
            self._leader = self._rng.choice(self._members)
        cooperative = self._protocol is RebalanceProtocol.COOPERATIVE
        members = []
        for member in self._members:
            # A member revokes partitions of topics that it no longer subscribes to before it joins.
            member.owned = {topic: own for topic, own in member.owned.items() if topic in member.topics}
            members.append(
                Member(
                    id=member.member_id,
                    topics=member.topics,
                    instance_id=member.instance_id,
                    rack=member.rack,
                    owned={} if member.generation == NO_GENERATION else member.owned,
                    generation=member.generation,
                    revoked=not cooperative and bool(member.owned) and member.generation != NO_GENERATION,
                )
            )
        group = Group.of(self._seen.values(), members, self._generation)
        led = lead(self._strategy, group, self._protocol)
        self._joined = [
            encode_member(
                self._strategy,
                MemberContext(each.topics, each.owned, each.generation, each.instance_id, each.rack),
                held=cooperative,
            )
            for each in members
        ]
        for member in self._members:
            member.owned = led.assignment.members[member.member_id]
            member.generation = self._generation
        return bool(led.withheld)

    def _record(self) -> Record:
        names = Names()
        leader = self._leader
        value = GroupMetadata(
            version=self._profile.value_version,
            protocol_type="consumer",
            generation=self._generation,
            protocol=self._strategy.name if leader is not None else None,
            leader=leader.member_id if leader is not None else None,
            state_timestamp_ms=self._now_ms,
            members=tuple(
                GroupMember(
                    member_id=member.member_id,
                    client_id=member.client_id,
                    client_host=member.host,
                    session_timeout_ms=45_000,
                    subscription=subscription,
                    assignment=encode_assignment(ConsumerAssignment(1, member.owned), names=names),
                    rebalance_timeout_ms=300_000,
                    instance_id=member.instance_id,
                )
                for member, subscription in zip(self._members, self._joined, strict=True)
            )
            if leader is not None
            else (),
        )
        return Record(self._now_ms, self._key, encode_group_metadata(value))
