# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Correct uses of the library, for the type checkers. Nothing here runs.

mypy and pyright read this file as part of the linters, and fail when a type of the public API changes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import kafka_assignors_aiokafka
import kafka_assignors_kafka_python
from kafka_assignors import Assignment, Group, Member, Topic
from kafka_assignors.claims import Claims
from kafka_assignors.leader import LeaderResult, check_assignment, lead
from kafka_assignors.strategies import (
    MemberContext,
    RackAwareSticky,
    RebalanceProtocol,
    Sticky,
    Strategy,
    load_strategy,
    strategy_names,
)
from kafka_assignors_strategies import Priority, Rollout, Standby, Weighted, for_aiokafka, for_kafka_python

if sys.version_info >= (3, 11):
    from typing import assert_type
else:
    from typing_extensions import assert_type


# ---- strategies of the user


@dataclass(frozen=True, slots=True)
class AllToOne(Strategy):
    """A strategy may be a frozen dataclass, ..."""

    everything: bool = True
    name: str = "all-to-one"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def assign(self, group: Group) -> Assignment:
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
        return Assignment(shares)


class WithMemberData(Strategy):
    """... any class with a name, here with its own member data ..."""

    name = "with-member-data"

    def member_data(self, member: MemberContext) -> bytes:
        assert_type(member.topics, frozenset[str])
        assert_type(member.owned, Mapping[str, Sequence[int]])
        assert_type(member.generation, int)
        assert_type(member.instance_id, str | None)
        assert_type(member.rack, str | None)
        return b""

    def assign(self, group: Group) -> Assignment:
        assert_type(group.claims, Claims)
        return Assignment({member_id: {} for member_id in group.members})


class Derived(Sticky):
    """... or a subclass of one of our strategies."""


strategies: list[Strategy] = [AllToOne(), WithMemberData(), Derived()]
strategies += [Standby(standby=True), Priority([["alerts"], [("views", [0, 1])]]), RackAwareSticky(1.5)]
strategies += [Rollout("2", 0.1)]


# ---- by name

assert_type(load_strategy("sticky"), Strategy)
assert_type(strategy_names(), list[str])


# ---- the values

topic = Topic("orders", 2, (frozenset({"a"}), frozenset({"a", "b"})))
assert_type(topic.replica_racks, tuple[frozenset[str], ...] | None)

member = Member("m1", frozenset({"orders"}), "pod-0", "a", owned={"orders": range(2)}, generation=7)
assert_type(member.data, bytes)
assert_type(member.topics, frozenset[str])
assert_type(member.revoked, bool)

names = ["orders", "payments"]
for topics in (names, set(names), tuple(names), {"orders": 2}.keys()):
    Member("m1", topics)

group = Group.of([topic], [member], 8)
assert_type(group, Group)
assert_type(group.topics, Mapping[str, Topic])
assert_type(group.members, Mapping[str, Member])
assert_type(group.generation, int | None)


# ---- a strategy at work

led = lead(AllToOne(), group, RebalanceProtocol.EAGER)
assert_type(led, LeaderResult)
assert_type(led.assignment, Assignment)
assert_type(led.assignment.members, Mapping[str, Mapping[str, Sequence[int]]])
assert_type(led.assignment.load("m1"), int)
check_assignment(group, led.assignment)


# ---- in the clients

OfAiokafka = kafka_assignors_aiokafka.StrategyAssignor
OfKafkaPython = kafka_assignors_kafka_python.StrategyAssignor
assert_type(kafka_assignors_aiokafka.assignor(AllToOne(), rack="a", instance_id=None), OfAiokafka)
assert_type(
    kafka_assignors_kafka_python.assignor(WithMemberData(), rack=None, instance_id="a"), OfKafkaPython
)
of_aiokafka: list[OfAiokafka] = [
    kafka_assignors_aiokafka.StickyAssignor(rack="a", instance_id="pod-0"),
    kafka_assignors_aiokafka.CooperativeStickyAssignor(),
    kafka_assignors_aiokafka.assignor(Weighted(), weights=lambda topics: {"orders": [1, None]}),
    kafka_assignors_aiokafka.assignor(Weighted(), weights=for_aiokafka.LagWeights("g", base=10)),
    kafka_assignors_aiokafka.assignor(Weighted(), weights=for_aiokafka.RateWeights("g", half_life_s=60)),
]
of_kafka_python: list[OfKafkaPython] = [
    kafka_assignors_kafka_python.StickyAssignor(rack="a", instance_id="pod-0"),
    kafka_assignors_kafka_python.CooperativeStickyAssignor(),
    kafka_assignors_kafka_python.assignor(Weighted(), weights=for_kafka_python.WeightsFile("w.json")),
    kafka_assignors_kafka_python.assignor(Weighted(), weights=for_kafka_python.RateWeights("g", base=0)),
]
for each in of_aiokafka + [kafka_assignors_aiokafka.assignor(one) for one in strategies]:
    assert_type(each.name, str)


# ---- cooperative consumers


class Reasons(kafka_assignors_aiokafka.RebalanceObserver):
    def rebalance_begun(self, *, reason: str, **_: object) -> None:
        print(reason)

    def assigned(self, *, partitions: frozenset[tuple[str, int]], seconds: float | None, **_: object) -> None:
        print(len(partitions), seconds)


async def consume_with_aiokafka(settings: kafka_assignors_aiokafka.ConsumerSettings) -> None:
    consumer = kafka_assignors_aiokafka.CooperativeAIOKafkaConsumer(
        "orders",
        "payments",
        group_id="g",
        bootstrap_servers=["one:9092", "two:9092"],
        partition_assignment_strategy=of_aiokafka,
        client_rack="eu-1a",
        auto_offset_reset="earliest",
        rebalance_timeout_ms=60_000,
        value_deserializer=bytes.decode,
        sasl_plain_password=None,
        observer=Reasons(),
    )
    kafka_assignors_aiokafka.CooperativeAIOKafkaConsumer(group_id="g", **settings)
    for records in (await consumer.getmany(timeout_ms=100)).values():
        for record in records:
            offset: int = record.offset
            topic_of_record: str = record.topic
            print(offset, topic_of_record, record.value)
    print((await consumer.getone()).offset)
    consumer.enforce_rebalance()


def consume_with_kafka_python(settings: kafka_assignors_kafka_python.ConsumerSettings) -> None:
    consumer = kafka_assignors_kafka_python.CooperativeKafkaConsumer(
        "orders",
        "payments",
        group_id="g",
        bootstrap_servers="one:9092",
        partition_assignment_strategy=of_kafka_python,
        client_rack="eu-1a",
        auto_offset_reset="earliest",
        consumer_timeout_ms=float("inf"),
        bootstrap_timeout_ms=1_000,
        value_deserializer=bytes.decode,
        api_version=(3, 9),
        observer=Reasons(),
    )
    kafka_assignors_kafka_python.CooperativeKafkaConsumer(group_id="g", **settings)
    consumer.subscribe(["orders"], listener=None)
    for records in consumer.poll(timeout_ms=100).values():
        for record in records:
            offset: int = record.offset
            print(offset, record.value)
    consumer.enforce_rebalance()
