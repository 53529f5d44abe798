"""Our leader must withstand members that send arbitrary bytes.

The scenarios are the same for every client: a test module subclasses them and names its member program. The
hostile members use the wire protocol directly (`raw_member`), because client libraries refuse to send most of
these bytes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest

from compat_tests.hostile.raw_member import RawMember, int16, int32, string
from compat_tests.hostile.request_counter import METADATA, counted_kafka
from compat_tests.support.group_of_members import GroupOfMembers, Settled
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.wire import decode_assignment

__all__ = ["HostileClaimScenarios", "HostileScenarios", "StolenInstanceScenarios"]

LARGEST = 2**31 - 1
ADDRESS_SPACE_MB = 1500
"""A leader needs a fraction of it; allocating the 2 GB that some of these tests claim raises MemoryError."""

FEW_BYTES = 10_000
"""The limit of a metadata request. A request that names 40,000 topics is over thirty times as large."""


def subscription(
    topic: str,
    *,
    version: int = 3,
    user_data: bytes | None = None,
    owned: Mapping[str, list[int]] | None = None,
    generation: int = -1,
    more: bytes = b"",
) -> bytes:
    """A ConsumerProtocolSubscription in the format of version 3, with any version number."""
    user = int32(-1) if user_data is None else int32(len(user_data)) + user_data
    claims = b"".join(
        string(name.encode()) + int32(len(partitions)) + b"".join(map(int32, partitions))
        for name, partitions in (owned or {}).items()
    )
    head = int16(version) + int32(1) + string(topic.encode()) + user
    return head + int32(len(owned or {})) + claims + int32(generation) + int16(-1) + more


def unreadable(topic: str) -> dict[str, bytes]:
    """Undecodable metadata, by the defect: each is cut off or has a wrong length."""
    name = string(topic.encode())
    topics = int16(3) + int32(1) + name
    no_user_data = topics + int32(-1)
    return {
        "nothing": b"",
        "noise": bytes(range(256)) * 16,
        "negative-version": int16(-7) + int32(0) + int32(-1),
        "2gb-of-topics": int16(3) + int32(LARGEST) + name,
        "negative-topics": int16(3) + int32(-LARGEST) + name,
        "2gb-of-user-data": topics + int32(LARGEST) + b"short",
        "2gb-of-owned-topics": no_user_data + int32(LARGEST) + name,
        "2gb-of-partitions": no_user_data + int32(1) + name + int32(LARGEST) + int32(0),
        "long-name": int16(3) + int32(1) + int16(32767) + topic.encode(),
        "negative-name": int16(3) + int32(1) + int16(-2),
        "not-utf8": int16(3) + int32(1) + string(b"\xff\xfe\xfd") + int32(-1),
        "no-rack": no_user_data + int32(0) + int32(5) + int16(300) + b"a",
    }


class HostileClaimScenarios:
    """Bytes that every client decodes."""

    program: ClassVar[str]
    strategy: ClassVar[str] = "sticky"
    waits_for_claimants: ClassVar[bool] = False
    """Whether claimed partitions are withheld until their owner revokes them, as in cooperative groups."""

    def attacker(self, kafka: Kafka, group: GroupOfMembers, metadata: bytes, client_id: str) -> RawMember:
        return RawMember(
            kafka.bootstrap, group.id, metadata=metadata, client_id=client_id, protocol=self.strategy
        )

    @contextlib.contextmanager
    def group_under_attack(self, kafka: Kafka, *others: str) -> Iterator[tuple[GroupOfMembers, Settled]]:
        """A settled group of `leader`, which leads and has little memory, and of `others`."""
        with GroupOfMembers(kafka, self.program, {"orders": 6}) as group:
            group.start("leader", [self.strategy], address_space_mb=ADDRESS_SPACE_MB)
            settled = group.settle()
            for name in others:
                group.start(name, [self.strategy])
                settled = group.settle(after=settled)
            yield group, settled

    def test_leader_ignores_fields_of_later_versions_and_foreign_user_data(self, kafka: Kafka) -> None:
        with self.group_under_attack(kafka) as (group, before):
            topic = group.topic("orders")
            later = subscription(topic, version=32767, more=b"\x00\x01what is this")
            foreign = subscription(topic, user_data=int32(LARGEST) + b"2 GB of topics, one would think")
            with (
                self.attacker(kafka, group, later, "later") as first,
                self.attacker(kafka, group, foreign, "foreign") as second,
            ):
                settled = group.settle(after=before, elsewhere=4)
                assert settled.count("leader") == 2
                for attacker in (first, second):
                    wait_until_it_has(2, attacker)

    def test_claims_on_partitions_never_had_move_no_partition_twice_and_leave_each_with_one_owner(
        self, kafka: Kafka
    ) -> None:
        with self.group_under_attack(kafka, "b") as (group, before):
            topic = group.topic("orders")
            everything = subscription(topic, owned={topic: list(range(6))}, generation=before.generation)
            with self.attacker(kafka, group, everything, "liar") as liar:
                wait_until_it_has(2, liar)
                if not self.waits_for_claimants:
                    during = group.settle(after=before, elsewhere=2)
                    assert {name: during.count(name) for name in during.names} == {"leader": 2, "b": 2}
            assert group.settle(after=before).count("b") == 3
            assert group.owned_twice() == []

    def test_a_claim_of_a_generation_that_never_was_does_not_count_and_its_sender_is_named(
        self, kafka: Kafka
    ) -> None:
        with self.group_under_attack(kafka, "b") as (group, before):
            topic = group.topic("orders")
            claims = {topic: [*range(6), 6, LARGEST, -1]}
            from_the_future = subscription(topic, owned=claims, generation=LARGEST)
            with self.attacker(kafka, group, from_the_future, "prophet") as prophet:
                wait_until_it_has(2, prophet)
                during = group.settle(after=before, elsewhere=2)
                # The others keep their partitions: a false claim gains only its sender's fair share.
                for name in ("leader", "b"):
                    kept = during.of(name)[topic]
                    assert set(kept) < set(before.of(name)[topic])
                group.wait_for_report("leader", "logged", "member 'prophet-")


class HostileScenarios(HostileClaimScenarios):
    """For consumers that leave the bytes of members and the metadata of their topics to our leader."""

    def test_bytes_that_do_not_decode_are_answered_with_nothing_and_their_sender_is_named(
        self, kafka: Kafka
    ) -> None:
        with self.group_under_attack(kafka, "b") as (group, before), contextlib.ExitStack() as attack:
            attackers = {
                what: attack.enter_context(self.attacker(kafka, group, metadata, what))
                for what, metadata in unreadable(group.topic("orders")).items()
            }
            given = {what: partitions_of(attacker) for what, attacker in attackers.items()}
            assert set(given.values()) == {0}, given
            for what in unreadable("any"):
                logged = group.wait_for_report("leader", "logged", f"member '{what}-")
                assert "does not decode" in logged["message"]
            after = group.settle(after=before)
            assert after.assignment == before.assignment

    def test_topics_that_cannot_exist_are_left_out_and_their_subscriber_is_named(self, kafka: Kafka) -> None:
        with self.group_under_attack(kafka, "b") as (group, before):
            metadata = int16(0) + int32(2) + string(b"no such/topic") + string(b"..") + int32(0)
            with self.attacker(kafka, group, metadata, "dreamer") as dreamer:
                assert partitions_of(dreamer) == 0
                group.wait_for_report("leader", "logged", "member 'dreamer-")
                after = group.settle("leader", "b", after=before)
                assert after.assignment == before.assignment

    @pytest.mark.parametrize("count", [100_000])
    def test_very_many_topics_that_do_not_exist_cost_their_subscriber_and_no_other_member(
        self, count: int
    ) -> None:
        # The broker creates topics that clients ask for, as brokers do by default.
        with (
            counted_kafka(**{"auto.create.topics.enable": "true"}) as (kafka, counter),
            self.group_under_attack(kafka, "b") as (group, before),
        ):
            names = [f"t{number:05}".encode() for number in range(count)]
            metadata = int16(0) + int32(count) + b"".join(map(string, names)) + int32(-1)
            with self.attacker(kafka, group, metadata, "greedy") as greedy:
                assert partitions_of(greedy) == 0
                after = group.settle("leader", "b", after=before)
                assert after.assignment == before.assignment
                group.wait_for_report("leader", "logged", "ember 'greedy-")
                group.produce(5)
                group.wait_until_consumed(5)
            assert max(one.size for one in counter.requests("leader", METADATA)) < FEW_BYTES
            assert not [topic for topic in kafka.topics() if topic.encode() in set(names)]


class StolenInstanceScenarios:
    """Scenarios for clients that support static members (KIP-345)."""

    program: ClassVar[str]
    strategy: ClassVar[str] = "sticky"

    def test_a_member_with_the_instance_id_of_another_takes_its_place_and_harms_no_third_member(
        self, kafka: Kafka
    ) -> None:
        with GroupOfMembers(kafka, self.program, {"orders": 6}) as group:
            group.start("leader", [self.strategy])
            settled = group.settle()
            for name in ("victim", "b"):
                group.start(name, [self.strategy], instance_id=name)
                settled = group.settle(after=settled)
            with self._stolen("victim", group) as stolen:
                assignment = decode_assignment(stolen)
                assert assignment.partitions == {t: tuple(ps) for t, ps in settled.of("victim").items()}
                for name in ("leader", "b"):
                    last = group.members[name].reports()[-1]
                    assert (last["event"], last["generation"]) == ("assigned", settled.generation)

    @contextlib.contextmanager
    def _stolen(self, instance_id: str, group: GroupOfMembers) -> Iterator[bytes]:
        """Join with a live member's instance id until one of the two is fenced; yields the assignment.

        The thief stays in the group until the end of the context: when it leaves, the group rebalances.

        A fenced member learns of it with its next request. A client that does not send its instance id then
        gets only UNKNOWN_MEMBER_ID, joins again, and thereby takes the place back. It could do so before the
        thief has sent its SyncGroup. Therefore the victim is frozen until the thief has its assignment.
        """
        victim = group.members[instance_id]
        group.freeze(instance_id)
        with RawMember(
            group.kafka.bootstrap,
            group.id,
            metadata=subscription(group.topic("orders")),
            client_id="thief",
            protocol=self.strategy,
            instance_id=instance_id,
        ) as thief:
            stolen = thief.wait_until_assigned().assignment
            group.thaw(instance_id)
            group.wait_for(
                "one of the two to be fenced",
                lambda: thief.error or "FencedInstanceId" in str(victim.reports("failed")),
            )
            yield stolen


def wait_until_it_has(partitions: int, member: RawMember) -> None:
    """Eager groups assign at once; cooperative groups assign after the other members have revoked."""
    deadline = time.monotonic() + HANG_S
    while (found := partitions_of(member)) != partitions:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def partitions_of(member: RawMember) -> int:
    """The number of partitions in the member's last assignment; waits for the first one."""
    assignment = decode_assignment(member.wait_until_assigned().assignment)
    return sum(map(len, assignment.partitions.values()))
