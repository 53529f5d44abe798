"""A group of CooperativeKafkaConsumers whose coordinator goes away."""

from __future__ import annotations

from compat_tests.cooperative_scenarios import LostCoordinatorScenarios


class TestLostCoordinator(LostCoordinatorScenarios):
    program = "compat_tests.kafka_python.cooperative_member"
