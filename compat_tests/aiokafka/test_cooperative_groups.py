"""Groups of CooperativeAIOKafkaConsumers, alone and with members of other clients, on a real broker."""

from __future__ import annotations

import pytest

from compat_tests.scenarios.cooperative import CooperativeGroupScenarios
from compat_tests.scenarios.leader import ConversionScenarios
from compat_tests.scenarios.lifecycle import DeletedTopicScenarios
from compat_tests.scenarios.rollout import RolloutScenarios
from compat_tests.scenarios.transaction import TransactionScenarios
from compat_tests.scenarios.warm import WarmScenarios

PROGRAM = "compat_tests.aiokafka.cooperative_member"
STRATEGY = "cooperative-sticky"


class TestCooperativeGroups(CooperativeGroupScenarios):
    program = PROGRAM
    eager_program = "compat_tests.aiokafka.member"


@pytest.mark.exhaustive
class TestDeletedTopic(DeletedTopicScenarios):
    program = PROGRAM
    strategy = STRATEGY


@pytest.mark.exhaustive
class TestTransactions(TransactionScenarios):
    program = PROGRAM
    strategy = STRATEGY


@pytest.mark.exhaustive
class TestConversion(ConversionScenarios):
    program = PROGRAM
    strategy = STRATEGY
    guarded = "rack-aware-sticky"


@pytest.mark.exhaustive
class TestRollout(RolloutScenarios):
    program = PROGRAM


@pytest.mark.exhaustive
class TestWarm(WarmScenarios):
    program = PROGRAM
    earlier_program = "compat_tests.aiokafka.earlier_member"
