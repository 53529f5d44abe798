"""What crosses racks when consumers and brokers have racks.

The same for every client: a test module subclasses `RackScenarios` and names its member program. Three
brokers stand in racks a, b and c, and so do three consumers; every partition has replicas in two of the
racks. The bytes that a consumer gets from each broker are counted by its kernel.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import ClassVar

from compat_tests.group_of_members import GroupOfMembers, Settled
from compat_tests.kafka_cluster import RACKS, KafkaCluster

__all__ = ["AT_FIRST", "LATER", "PARTITIONS", "RackScenarios", "groups_in_racks", "measure", "misses"]

PARTITIONS = 12
RECORD_BYTES = 10_000
RECORDS = 40
"""Per partition and phase: all in all 5 MB, beside which requests and metadata do not count."""

AT_FIRST = [[1 + number % 3, 1 + (number + 1) % 3] for number in range(PARTITIONS)]
LATER = [[1 + (number + 1) % 3, 1 + (number + 2) % 3] for number in range(PARTITIONS)]

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


@contextmanager
def groups_in_racks(
    kafka: KafkaCluster, program: str, last_programs: Mapping[str, str]
) -> Iterator[Sequence[GroupOfMembers]]:
    """A group for each strategy, all of which read the same topic, with a member in each rack.

    `last_programs`, by strategy: what the third member runs.
    """
    with ExitStack() as stack:
        groups = [stack.enter_context(GroupOfMembers(kafka, program, {})) for _ in last_programs]
        topic = f"orders-{groups[0].id}"
        kafka.create_topic(topic, replicas=AT_FIRST)
        for group, (strategy, last_program) in zip(groups, last_programs.items(), strict=True):
            group.topics[topic] = PARTITIONS
            for rack in RACKS:
                runs = last_program if rack == RACKS[-1] else program
                group.start(rack, [strategy], rack=rack, program=runs)
        yield groups


def misses(settled: Settled, brokers: Sequence[Sequence[int]]) -> int:
    """How many partitions belong to a member in whose rack none of these brokers stands."""
    return sum(
        rack not in {RACKS[broker - 1] for broker in brokers[number]}
        for rack in settled.names
        for numbers in settled.of(rack).values()
        for number in numbers
    )


def measure(kafka: KafkaCluster, groups: Sequence[GroupOfMembers]) -> Crossing:
    """What crosses racks while the members of each group consume what is now produced."""
    rack_of_port = dict(zip(kafka.ports, RACKS, strict=True))
    # A fetch of an earlier assignment may still wait at a broker, and its answer comes once more.
    # Who has not fetched a partition yet does not know the replica in its rack. One record settles both.
    deliver(kafka, groups, 1)
    before = {group.id: received(group) for group in groups}
    deliver(kafka, groups, RECORDS)
    crossing: dict[str, float] = {}
    for group in groups:
        near = far = 0
        for member, by_port in received(group).items():
            for port, size in by_port.items():
                more = size - before[group.id][member].get(port, 0)
                if rack_of_port[int(port)] == member:
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
    (topic,) = groups[0].topics
    produce(kafka, topic, records)
    for group in groups:
        wanted = already[group.id] + PARTITIONS * records
        group.wait_for("all records to be consumed", lambda: len(group.consumed()) == wanted)  # noqa: B023


def produce(kafka: KafkaCluster, topic: str, records: int) -> None:
    from confluent_kafka import Producer

    rng = random.Random(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for partition in range(PARTITIONS):
        for _ in range(records):
            producer.produce(topic, rng.randbytes(RECORD_BYTES), partition=partition)
    left = producer.flush(30)
    if left:
        raise TimeoutError(f"{left} records could not be written")
