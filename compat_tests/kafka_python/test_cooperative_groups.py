"""Groups of CooperativeKafkaConsumers, alone and with members of other clients, on real brokers."""

from __future__ import annotations

from compat_tests.scenarios.cooperative import CooperativeGroupScenarios
from compat_tests.scenarios.leader import ConversionScenarios
from compat_tests.scenarios.rack import RackTradeScenarios
from compat_tests.scenarios.warm import WarmScenarios

PROGRAM = "compat_tests.kafka_python.cooperative_member"


class TestCooperativeGroups(CooperativeGroupScenarios):
    program = PROGRAM
    eager_program = "compat_tests.kafka_python.member"


class TestConversion(ConversionScenarios):
    program = PROGRAM


class TestRackTrade(RackTradeScenarios):
    program = PROGRAM


class TestWarm(WarmScenarios):
    program = PROGRAM
