"""Groups of CooperativeKafkaConsumers whose brokers fail, or gain and lose replicas."""

from __future__ import annotations

from compat_tests.scenarios.cooperative import LostCoordinatorScenarios
from compat_tests.scenarios.rack import RackTradeScenarios


class TestLostCoordinator(LostCoordinatorScenarios):
    program = "compat_tests.kafka_python.cooperative_member"


class TestRackTrade(RackTradeScenarios):
    program = "compat_tests.kafka_python.cooperative_member"
