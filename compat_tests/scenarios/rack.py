"""Bytes that cross racks when consumers and brokers have racks.

Every client runs the same scenarios: a test module subclasses `RackScenarios`, or `RackTradeScenarios` for
cooperative consumers, and names its member program. The three brokers are in racks a, b and c. A consumer's
rack is the first letter of its name. The kernel counts the bytes that a consumer receives from each broker.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from compat_tests.support.group_of_members import GroupOfMembers, Settled
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import RACKS, KafkaCluster

__all__ = [
    "AT_FIRST",
    "LATER",
    "PARTITIONS",
    "RackScenarios",
    "RackTradeScenarios",
    "at_rest",
    "groups_in_racks",
    "measure",
    "misses",
    "moved",
]

PARTITIONS = 12
RECORD_BYTES = 10_000
RECORDS = 40
"""Records per partition and phase: 5 MB in total, so that requests and metadata are negligible."""

AT_FIRST = [[1 + number % 3, 1 + (number + 1) % 3] for number in range(PARTITIONS)]
LATER = [[1 + (number + 1) % 3, 1 + (number + 2) % 3] for number in range(PARTITIONS)]

EXCHANGED = [[1], [1], [2], [2], [3], [3]]
"""Each of three members owns the two partitions in its rack."""

EXCHANGING = [[2], [1, 3], [1], [2], [1], [3]]
"""Replicas with which two members can avoid two misses by exchanging partitions, and two can avoid one."""

QUIET_S = 6.0
"""The time without a rebalance after which a group counts as quiet: three times its leader's metadata age."""

Crossing = Mapping[str, float]
"""The share of the received bytes that came from brokers in other racks, by group."""


class RackScenarios:
    program: ClassVar[str]
    other_program: ClassVar[str]
    """The program of one of the three members, under a strategy that supports both protocols."""

    reads_followers: ClassVar[bool]
    """Whether the client fetches from a replica in its rack (KIP-392), or from the leader of a partition."""

    def test_bytes_cross_racks_where_they_must_and_nowhere_else(self, kafka3: KafkaCluster) -> None:
        programs = {"sticky": self.program, "rack-aware-sticky": self.other_program}
        with groups_in_racks(kafka3, self.program, programs) as groups:
            settled = {group.id: group.settle() for group in groups}
            crossing = measure(kafka3, groups)
            for group in groups:
                assert misses(settled[group.id], AT_FIRST) == 0
                assert abs(crossing[group.id] - self.must_cross(group, settled[group.id], AT_FIRST)) < 0.03

    def must_cross(self, group: GroupOfMembers, settled: Settled, replicas: Sequence[Sequence[int]]) -> float:
        """The share of the partitions that their consumer cannot read within its rack."""
        if self.reads_followers:
            return misses(settled, replicas) / PARTITIONS
        (topic,) = group.topics
        leaders = group.kafka.leaders(topic)
        return misses(settled, [[leader] for leader in leaders]) / PARTITIONS


class RackTradeScenarios:
    program: ClassVar[str]

    def test_group_avoids_a_rack_miss_only_if_that_costs_no_more_than_moves_per_miss(
        self, kafka3: KafkaCluster
    ) -> None:
        strategies = {f"rack-aware-sticky:{worth}": self.program for worth in (1.5, 3)}
        with groups_in_racks(kafka3, self.program, strategies, replicas=EXCHANGED) as groups:
            before = [group.settle() for group in groups]
            assert [misses(settled, EXCHANGED) for settled in before] == [0, 0]
            kafka3.reassign(groups[0].topic("orders"), EXCHANGING)
            assert [misses(settled, EXCHANGING) for settled in before] == [3, 3]
            for group, left in zip(groups, (1, 0), strict=True):
                group.wait_for(
                    "the group to follow the replicas",
                    lambda: misses(group.settle(), EXCHANGING) == left,  # noqa: B023
                )
            after = at_rest(groups)
            assert [misses(settled, EXCHANGING) for settled in after] == [1, 0]
            assert [moved(*pair) for pair in zip(before, after, strict=True)] == [2, 4]


@contextmanager
def groups_in_racks(
    kafka: KafkaCluster,
    program: str,
    last_programs: Mapping[str, str],
    *,
    replicas: Sequence[Sequence[int]] = AT_FIRST,
    members: Sequence[str] = RACKS,
    **options: Any,
) -> Iterator[Sequence[GroupOfMembers]]:
    """A group for each strategy; all groups read the same topic and have a member in each rack.

    `last_programs`: the program of the last member, by strategy. `replicas`: the brokers of each partition.
    `members`: the names of the members. `options`: further fields of every member's specification.
    """
    with ExitStack() as stack:
        groups = [stack.enter_context(GroupOfMembers(kafka, program, {})) for _ in last_programs]
        topic = f"orders-{groups[0].id}"
        kafka.create_topic(topic, replicas=replicas)
        for group, (strategy, last_program) in zip(groups, last_programs.items(), strict=True):
            group.topics[topic] = len(replicas)
            for name in members:
                runs = last_program if name == members[-1] else program
                group.start(name, [strategy], rack=rack_of(name), program=runs, **options)
        yield groups


def rack_of(name: str) -> str:
    """The rack of the member with this name."""
    return name[0]


def at_rest(groups: Sequence[GroupOfMembers]) -> list[Settled]:
    """Wait until no group has rebalanced for QUIET_S; returns their generations."""
    deadline = time.monotonic() + HANG_S
    settled, since = [group.settle() for group in groups], time.monotonic()
    while time.monotonic() < since + QUIET_S:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no group rests for {QUIET_S:g} s within {HANG_S:g} s")
        time.sleep(0.2)
        now = [group.settle() for group in groups]
        if [one.generation for one in now] != [one.generation for one in settled]:
            settled, since = now, time.monotonic()
    return settled


def misses(settled: Settled, brokers: Sequence[Sequence[int]]) -> int:
    """The number of partitions with no replica on these brokers in their owner's rack."""
    return sum(
        rack_of(name) not in {RACKS[broker - 1] for broker in brokers[number]}
        for name in settled.names
        for numbers in settled.of(name).values()
        for number in numbers
    )


def moved(before: Settled, after: Settled) -> int:
    """The number of partitions that changed their owner."""
    return sum(
        len(set(numbers) - set(before.of(name).get(topic, ())))
        for name in after.names
        for topic, numbers in after.of(name).items()
    )


def measure(kafka: KafkaCluster, groups: Sequence[GroupOfMembers], records: int = RECORDS) -> Crossing:
    """The share of bytes that cross racks while every group consumes `records` more of each partition."""
    rack_of_port = dict(zip(kafka.ports, RACKS, strict=True))
    # One record completes pending fetches of an earlier assignment. It also tells members that have not
    # fetched a partition yet which replica is in their rack.
    deliver(kafka, groups, 1)
    before = {group.id: received(group) for group in groups}
    deliver(kafka, groups, records)
    crossing: dict[str, float] = {}
    for group in groups:
        near = far = 0
        for member, by_port in received(group).items():
            for port, size in by_port.items():
                more = size - before[group.id][member].get(port, 0)
                if rack_of_port[int(port)] == rack_of(member):
                    near += more
                else:
                    far += more
        crossing[group.id] = far / (near + far)
    return crossing


def received(group: GroupOfMembers) -> Mapping[str, Mapping[str, int]]:
    """The bytes that each member has received so far, by port."""
    now = str(time.monotonic())
    for member in group.members:
        group.tell(member, count=now)
    return {member: group.wait_for_report(member, "received", now)["by_port"] for member in group.members}


def deliver(kafka: KafkaCluster, groups: Sequence[GroupOfMembers], records: int) -> None:
    """Write this many records to each partition, and wait until every group has consumed them."""
    already = {group.id: len(group.consumed()) for group in groups}
    ((topic, partitions),) = groups[0].topics.items()
    produce(kafka, topic, partitions, records)
    for group in groups:
        wanted = already[group.id] + partitions * records
        group.wait_for("all records to be consumed", lambda: len(group.consumed()) == wanted)  # noqa: B023


def produce(kafka: KafkaCluster, topic: str, partitions: int, records: int) -> None:
    from confluent_kafka import Producer

    rng = random.Random(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for partition in range(partitions):
        for _ in range(records):
            producer.produce(topic, rng.randbytes(RECORD_BYTES), partition=partition)
    left = producer.flush(HANG_S)
    if left:
        raise TimeoutError(f"{left} records could not be written")
