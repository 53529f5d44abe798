"""Groups of CooperativeAIOKafkaConsumers that change, migrate, or read transactions."""

from __future__ import annotations

import pytest

from compat_tests.scenarios.leader import ConversionScenarios
from compat_tests.scenarios.lifecycle import LifecycleScenarios
from compat_tests.scenarios.transaction import TransactionScenarios

pytestmark = pytest.mark.exhaustive

PROGRAM = "compat_tests.aiokafka.cooperative_member"
STRATEGY = "cooperative-sticky"


class TestLifecycle(LifecycleScenarios):
    program = PROGRAM
    strategy = STRATEGY


class TestTransactions(TransactionScenarios):
    program = PROGRAM
    strategy = STRATEGY


class TestConversion(ConversionScenarios):
    program = PROGRAM
    strategy = STRATEGY
    guarded = "rack-aware-sticky"
