"""Groups with the strategy `rollout` and CooperativeKafkaConsumers, on a real broker."""

from __future__ import annotations

from compat_tests.scenarios.rollout import RolloutScenarios


class TestRollout(RolloutScenarios):
    program = "compat_tests.kafka_python.cooperative_member"
