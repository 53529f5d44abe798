"""Groups with the strategy `rollout` and CooperativeAIOKafkaConsumers, on a real broker."""

from __future__ import annotations

from compat_tests.scenarios.rollout import RolloutScenarios


class TestRollout(RolloutScenarios):
    program = "compat_tests.aiokafka.cooperative_member"
