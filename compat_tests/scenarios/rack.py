"""What crosses racks when consumers and brokers have racks.

The same for every client: a test module subclasses `RackScenarios`, or `RackTradeScenarios` for cooperative
consumers, and names its member program. Three brokers stand in racks a, b and c, and so do consumers, whose
names begin with their racks. The bytes that a consumer gets from each broker are counted by its kernel.
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
"""Per partition and phase: all in all 5 MB, beside which requests and metadata do not count."""

AT_FIRST = [[1 + number % 3, 1 + (number + 1) % 3] for number in range(PARTITIONS)]
LATER = [[1 + (number + 1) % 3, 1 + (number + 2) % 3] for number in range(PARTITIONS)]

EXCHANGED = [[1], [1], [2], [2], [3], [3]]
"""Each of three members has two of them in its rack."""

EXCHANGING = [[2], [1, 3], [1], [2], [1], [3]]
"""Now two members can exchange partitions for two misses, and two can for one."""

QUIET_S = 6.0
"""So long after its last rebalance a group rests: three times what its leader's metadata may be old."""

Crossing = Mapping[str, float]
"""By group: the share of the bytes that members were sent by brokers in other racks."""


class RackScenarios:
    program: ClassVar[str]
    other_program: ClassVar[str]
    """What one of the three members runs under a strategy that allows members of both protocols."""

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

            # One of them follows, as often as it takes: its leader may have assigned while replicas moved.
            staying, following = groups
            (topic,) = following.topics
            kafka3.reassign(topic, LATER)
            following.wait_for(
                "the group to follow the replicas", lambda: misses(following.settle(), LATER) == 0
            )
            after = following.settle()
            crossing = measure(kafka3, [following])
            assert abs(crossing[following.id] - self.must_cross(following, after, LATER)) < 0.03
            assert staying.settle().generation == settled[staying.id].generation

    def must_cross(self, group: GroupOfMembers, settled: Settled, replicas: Sequence[Sequence[int]]) -> float:
        """The share of the partitions whose consumer cannot read them in its own rack."""
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
    """A group for each strategy, all of which read the same topic, with a member in each rack.

    `last_programs`, by strategy: what the last member runs. `replicas`: of each partition, its brokers.
    `members`: their names, if there are to be more of them. `options`: of every member's specification.
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
    """The rack of the member of this name."""
    return name[0]


def at_rest(groups: Sequence[GroupOfMembers]) -> list[Settled]:
    """The generations that the groups have after all of them have been quiet for a while."""
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
    """How many partitions belong to a member in whose rack none of these brokers stands."""
    return sum(
        rack_of(name) not in {RACKS[broker - 1] for broker in brokers[number]}
        for name in settled.names
        for numbers in settled.of(name).values()
        for number in numbers
    )


def moved(before: Settled, after: Settled) -> int:
    """How many partitions another member has."""
    return sum(
        len(set(numbers) - set(before.of(name).get(topic, ())))
        for name in after.names
        for topic, numbers in after.of(name).items()
    )


def measure(kafka: KafkaCluster, groups: Sequence[GroupOfMembers], records: int = RECORDS) -> Crossing:
    """What crosses racks while the members of each group consume `records` more of each partition."""
    rack_of_port = dict(zip(kafka.ports, RACKS, strict=True))
    # A fetch of an earlier assignment may still wait at a broker, and its answer comes once more.
    # Who has not fetched a partition yet does not know the replica in its rack. One record settles both.
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
    """The bytes that each member has received so far from each port."""
    now = str(time.monotonic())
    for member in group.members:
        group.tell(member, count=now)
    return {member: group.wait_for_report(member, "received", now)["by_port"] for member in group.members}


def deliver(kafka: KafkaCluster, groups: Sequence[GroupOfMembers], records: int) -> None:
    """Write so many records to each partition, and wait until every group has consumed them."""
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
