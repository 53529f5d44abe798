"""Groups of stock KafkaConsumers of kafka-python with our strategies, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

import kafka_assignors_kafka_python
from compat_tests.kafka_python.member import KNOWS_RACKS
from compat_tests.kafka_python.test_assignor import hide_what_members_hold
from compat_tests.scenarios.eager import EagerConsumerScenarios, EagerScenarios, settled_in_process
from compat_tests.scenarios.leader import LeaderScenarios
from compat_tests.scenarios.rack import RackScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_kafka_python import StickyAssignor

PROGRAM = "compat_tests.kafka_python.member"
COOPERATIVE = "compat_tests.kafka_python.cooperative_member"

MAKES_INSTANCES = hasattr(AbstractPartitionAssignor, "supported_protocols")
"""kafka-python 3 makes an instance of an assignor class; 2.x uses the class itself."""


class TestEagerGroups(EagerScenarios):
    program = PROGRAM


class TestLeaders(LeaderScenarios):
    program = PROGRAM
    asks_for_topics = False


class TestRacks(RackScenarios):
    program = PROGRAM
    other_program = COOPERATIVE if KNOWS_RACKS else PROGRAM


def test_a_consumer_that_polls_in_steps_shorter_than_a_join_does_not_stand_still(kafka: Kafka) -> None:
    # With kafka-python's own assignors it hangs. The leader learns of "payments" only after it has assigned,
    # and joins again. The poll that sends the JoinGroup request ends before the response arrives.
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4, "payments": 2}) as group:
        group.start("leader", ["sticky"], topics=["orders"], poll_ms=10)
        group.wait_for("the leader", lambda: group.members["leader"].reports("assigned"))
        group.start("b", ["sticky"], topics=["payments"], poll_ms=10)
        settled = group.settle()
        assert (settled.count("leader"), settled.count("b")) == (4, 2)


class TestEagerConsumers(EagerConsumerScenarios):
    program = PROGRAM
    plugin = kafka_assignors_kafka_python
    stock_sticky = StickyPartitionAssignor
    refusals = (ValueError, TypeError)

    def consumer(self, group: GroupOfMembers, *assignors: Any) -> KafkaConsumer:
        return KafkaConsumer(
            *group.topics,
            bootstrap_servers=group.kafka.bootstrap,
            group_id=group.id,
            partition_assignment_strategy=list(assignors),
            heartbeat_interval_ms=200,
            session_timeout_ms=30_000,  # Longer than a busy machine stalls.
        )

    if MAKES_INSTANCES:

        def test_a_class_is_taken_as_well_as_an_instance(self, kafka: Kafka) -> None:
            with (
                GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group,
                self.polling(group, StickyAssignor) as consumer,
            ):
                settled_in_process(group, [consumer])

    else:

        def test_a_class_is_refused(self, kafka: Kafka) -> None:
            self.must_refuse(
                kafka, [StickyAssignor], r"needs an instance: pass \[CooperativeStickyAssignor\(\)\]"
            )

        def test_where_the_bytes_of_members_cannot_be_read_an_eager_strategy_stays_sticky(
            self, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
        ) -> None:
            hide_what_members_hold(monkeypatch, "members")
            self.must_keep_their_own(kafka, StickyAssignor)
