"""Groups of stock AIOKafkaConsumers that change, and that read transactions."""

from __future__ import annotations

from compat_tests.scenarios.lifecycle import LifecycleScenarios, LostWithTopicScenarios
from compat_tests.scenarios.transaction import TransactionScenarios

PROGRAM = "compat_tests.aiokafka.member"


class TestLifecycle(LifecycleScenarios):
    program = PROGRAM
    auto_commit_outlives_topics = False


class TestLostWithTopic(LostWithTopicScenarios):
    program = PROGRAM


class TestTransactions(TransactionScenarios):
    program = PROGRAM
