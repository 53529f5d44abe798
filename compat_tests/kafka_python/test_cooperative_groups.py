"""Groups of CooperativeKafkaConsumers, alone and with members of other clients, on real brokers."""

from __future__ import annotations

from compat_tests.scenarios.cooperative import CooperativeGroupScenarios, LostCoordinatorScenarios
from compat_tests.scenarios.leader import ConversionScenarios
from compat_tests.scenarios.lifecycle import DeletedTopicScenarios
from compat_tests.scenarios.rack import RackTradeScenarios
from compat_tests.scenarios.rollout import RolloutScenarios
from compat_tests.scenarios.transaction import TransactionScenarios
from compat_tests.scenarios.warm import WarmScenarios

PROGRAM = "compat_tests.kafka_python.cooperative_member"
STRATEGY = "cooperative-sticky"


class TestCooperativeGroups(CooperativeGroupScenarios):
    program = PROGRAM
    eager_program = "compat_tests.kafka_python.member"


class TestDeletedTopic(DeletedTopicScenarios):
    program = PROGRAM
    strategy = STRATEGY


class TestTransactions(TransactionScenarios):
    program = PROGRAM
    strategy = STRATEGY


class TestConversion(ConversionScenarios):
    program = PROGRAM
    strategy = STRATEGY
    guarded = "rack-aware-sticky"


class TestRollout(RolloutScenarios):
    program = PROGRAM


class TestLostCoordinator(LostCoordinatorScenarios):
    program = PROGRAM


class TestRackTrade(RackTradeScenarios):
    program = PROGRAM


class TestWarm(WarmScenarios):
    program = PROGRAM
    earlier_program = "compat_tests.kafka_python.earlier_member"
