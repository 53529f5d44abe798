"""Groups of stock KafkaConsumers that change, and that read transactions."""

from __future__ import annotations

import kafka

from compat_tests.kafka_python.member import KNOWS_TRANSACTIONS
from compat_tests.scenarios.lifecycle import LifecycleScenarios, LostWithTopicScenarios
from compat_tests.scenarios.transaction import TransactionScenarios

PROGRAM = "compat_tests.kafka_python.member"

COMMITS_WITHOUT_END = kafka.__version__.startswith("2.0.")


class TestLifecycle(LifecycleScenarios):
    program = PROGRAM
    auto_commit_outlives_topics = not COMMITS_WITHOUT_END


if COMMITS_WITHOUT_END:

    class TestLostWithTopic(LostWithTopicScenarios):
        program = PROGRAM


if KNOWS_TRANSACTIONS:  # 2.2 and later

    class TestTransactions(TransactionScenarios):
        program = PROGRAM
