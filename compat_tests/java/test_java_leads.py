"""A group of Java consumers on real brokers gets our strategy's assignment of the same group."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from compat_tests.java.member import JavaMember
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies import Strategy
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors_cli.group_form import assignment_to_json

REPLICAS = {
    "orders": [[2], [1], [3], [2], [1], [3], [3]],
    "payments": [[2, 3], [1, 3], [3, 1], [1, 3], [1, 2], [2, 1], [3, 2]],
    "clicks": [[3], [3], [1], [2]],
}
"""The brokers of each partition, which are in racks a, b, c. `orders` and `payments` are co-partitioned."""


TOPICS = [
    Topic(
        name, len(replicas), tuple(frozenset("abc"[broker - 1] for broker in brokers) for brokers in replicas)
    )
    for name, replicas in REPLICAS.items()
]


@pytest.fixture(scope="module", autouse=True)
def topics_on_the_brokers(kafka3: KafkaCluster) -> None:
    for name, replicas in REPLICAS.items():
        kafka3.create_topic(name, replicas=replicas)


@pytest.mark.parametrize("strategy", [Range(), RoundRobin()], ids=["range", "roundrobin"])
def test_members_in_racks_get_what_our_strategy_says(kafka3: KafkaCluster, strategy: Strategy) -> None:
    joining = [
        Member("", frozenset({"orders", "payments"}), instance_id="3", rack="a"),
        Member("", frozenset({"orders", "payments", "clicks"}), instance_id="1", rack="c"),
        Member("", frozenset({"orders", "payments"}), rack="b"),
    ]
    with ExitStack() as running:
        started = []
        for member in joining:
            options = {"assignors": strategy.name, "rack": member.rack}
            if member.instance_id is not None:
                options["instance"] = member.instance_id
            process = JavaMember(
                kafka3.bootstrap,
                f"java-leads-{strategy.name}",
                sorted(member.topics),
                config={"heartbeat.interval.ms": 300},
                **options,
            )
            started.append(running.enter_context(process))

        started[0].wait_until(lambda: all(map(told, started)))
        ids: list[str] = [told(process)[-1]["member"] for process in started]
        group = Group.of(
            TOPICS,
            [
                Member(member_id, member.topics, instance_id=member.instance_id, rack=member.rack)
                for member_id, member in zip(ids, joining, strict=True)
            ],
        )
        expected = assignment_to_json(strategy.assign(group))
        # Before all members have joined, and their leader knows all topics, there are other assignments.
        started[0].wait_until(
            lambda: [process.owned for process in started] == [expected[member_id] for member_id in ids]
        )
        without_racks = Group.of(
            [Topic(topic.name, topic.partitions) for topic in TOPICS], group.members.values()
        )
        # Without this check, the racks of brokers and members could be lost without notice.
        assert (strategy.name == "range") == (strategy.assign(without_racks) != strategy.assign(group))


def told(process: JavaMember) -> list[dict[str, Any]]:
    return [event for event in process.events if event["event"] == "assigned"]
