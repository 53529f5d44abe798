"""Groups with the strategy `rollout` and CooperativeAIOKafkaConsumers, on a real broker."""

from __future__ import annotations

import pytest

from compat_tests.scenarios.rollout import RolloutScenarios

pytestmark = pytest.mark.exhaustive


class TestRollout(RolloutScenarios):
    program = "compat_tests.aiokafka.cooperative_member"
