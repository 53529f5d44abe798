"""Groups of CooperativeAIOKafkaConsumers, alone and with members of other clients, on a real broker."""

from __future__ import annotations

import pytest

from compat_tests.scenarios.cooperative import CooperativeGroupScenarios
from compat_tests.scenarios.leader import ConversionScenarios
from compat_tests.scenarios.rack import RackTradeScenarios
from compat_tests.scenarios.warm import WarmScenarios

PROGRAM = "compat_tests.aiokafka.cooperative_member"


class TestCooperativeGroups(CooperativeGroupScenarios):
    program = PROGRAM
    eager_program = "compat_tests.aiokafka.member"


@pytest.mark.exhaustive
class TestConversion(ConversionScenarios):
    program = PROGRAM


@pytest.mark.exhaustive
class TestRackTrade(RackTradeScenarios):
    program = PROGRAM


@pytest.mark.exhaustive
class TestWarm(WarmScenarios):
    program = PROGRAM
