"""Groups whose members and brokers have racks: reads within a rack, and leaders that follow moved replicas.

Every client runs the same scenarios: a test module subclasses `RackScenarios`, or `RackTradeScenarios` for
cooperative consumers, and names its member program. The three brokers are in racks a, b and c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from compat_tests.support.group_of_members import GroupOfMembers, Settled
from compat_tests.support.kafka_cluster import RACKS, KafkaCluster

PAIRS = [[1 + number % 3, 1 + (number + 1) % 3] for number in range(12)]
"""The brokers of each partition."""

EXCHANGED = [[1], [1], [2], [2], [3], [3]]
"""Each of three members owns the two partitions in its rack."""

EXCHANGING = [[2], [1, 3], [1], [2], [1], [3]]
"""Replicas with which two members can avoid two misses by exchanging partitions, and two can avoid one."""


class RackScenarios:
    program: ClassVar[str]
    other_program: ClassVar[str]
    """The program of one of the three members under `rack-aware-sticky`, which supports both protocols."""

    def test_no_partition_is_read_across_racks_where_none_must(self, kafka3: KafkaCluster) -> None:
        for strategy, last in (("sticky", self.program), ("rack-aware-sticky", self.other_program)):
            with group_in_racks(kafka3, self.program, PAIRS, strategy, last=last) as group:
                assert misses(group.settle(), PAIRS) == 0


class RackTradeScenarios:
    program: ClassVar[str]

    def test_group_avoids_a_rack_miss_only_if_that_costs_no_more_than_moves_per_miss(
        self, kafka3: KafkaCluster
    ) -> None:
        with group_in_racks(kafka3, self.program, EXCHANGED, "rack-aware-sticky:1.5") as group:
            before = group.settle()
            assert misses(before, EXCHANGED) == 0
            kafka3.reassign(group.topic("orders"), EXCHANGING)
            assert misses(before, EXCHANGING) == 3
            group.wait_for(
                "the group to follow the replicas", lambda: misses(group.settle(), EXCHANGING) == 1
            )
            assert moved(before, group.settle()) == 2


@contextmanager
def group_in_racks(
    kafka: KafkaCluster, program: str, replicas: Sequence[Sequence[int]], strategy: str, *, last: str = ""
) -> Iterator[GroupOfMembers]:
    """A group with a member in each rack, which has the rack's name; the last one has the program `last`."""
    with GroupOfMembers(kafka, program, {}) as group:
        topic = f"orders-{group.run}"
        kafka.create_topic(topic, replicas=replicas)
        group.topics[topic] = len(replicas)
        for rack in RACKS:
            group.start(
                rack, [strategy], rack=rack, program=last or program if rack == RACKS[-1] else program
            )
        yield group


def misses(settled: Settled, brokers: Sequence[Sequence[int]]) -> int:
    """The number of partitions with no replica on these brokers in their owner's rack."""
    return sum(
        rack not in {RACKS[broker - 1] for broker in brokers[number]}
        for rack in settled.names
        for numbers in settled.of(rack).values()
        for number in numbers
    )


def moved(before: Settled, after: Settled) -> int:
    """The number of partitions that changed their owner."""
    return sum(
        len(set(numbers) - set(before.of(name).get(topic, ())))
        for name in after.names
        for topic, numbers in after.of(name).items()
    )
