"""Leaders that act on weights between rebalances."""

from __future__ import annotations

from compat_tests.scenarios.acting import ActingScenarios


class TestActing(ActingScenarios):
    program = "compat_tests.kafka_python.cooperative_member"
