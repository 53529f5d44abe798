"""Groups of CooperativeKafkaConsumers that lose a topic, or read what transactions wrote.

What else of `lifecycle_scenarios` concerns them, `cooperative_scenarios` has too.
"""

from __future__ import annotations

from compat_tests.lifecycle_scenarios import DeletedTopicScenarios
from compat_tests.transaction_scenarios import TransactionScenarios

PROGRAM = "compat_tests.kafka_python.cooperative_member"
STRATEGY = "cooperative-sticky"


class TestDeletedTopic(DeletedTopicScenarios):
    program = PROGRAM
    strategy = STRATEGY


class TestTransactions(TransactionScenarios):
    program = PROGRAM
    strategy = STRATEGY
