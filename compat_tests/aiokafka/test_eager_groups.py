"""Groups of stock AIOKafkaConsumers with our strategies, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

import kafka_assignors_aiokafka
from compat_tests.aiokafka.in_process import Waiting, waited_for
from compat_tests.scenarios.eager import EagerConsumerScenarios, EagerScenarios
from compat_tests.scenarios.leader import LeaderScenarios
from compat_tests.scenarios.rack import RackScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import RangeAssignor, StickyAssignor

PROGRAM = "compat_tests.aiokafka.member"


class TestEagerGroups(EagerScenarios):
    program = PROGRAM


class TestLeaders(LeaderScenarios):
    program = PROGRAM


class TestRacks(RackScenarios):
    program = PROGRAM
    other_program = "compat_tests.aiokafka.cooperative_member"


class TestEagerConsumers(EagerConsumerScenarios):
    program = PROGRAM
    plugin = kafka_assignors_aiokafka
    stock_sticky = StickyPartitionAssignor
    refusals = (KafkaError,)

    def consumer(self, group: GroupOfMembers, *assignors: Any) -> Waiting:
        settings = {
            "bootstrap_servers": group.kafka.bootstrap,
            "group_id": group.id,
            "partition_assignment_strategy": list(assignors),
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 30_000,  # Longer than a busy machine stalls.
        }
        consumer = Waiting(waited_for(lambda: AIOKafkaConsumer(*group.topics, **settings)))
        try:
            consumer.start()
        except KafkaError:
            consumer.close()
            raise
        return consumer

    @pytest.mark.parametrize("assignors", [[StickyAssignor], [RangeAssignor(), StickyAssignor]])
    def test_a_class_is_refused(self, kafka: Kafka, assignors: list[Any]) -> None:
        self.must_refuse(kafka, assignors, r"needs an instance: pass \[CooperativeStickyAssignor\(\)\]")
