"""Groups of CooperativeKafkaConsumers that lose a topic, meet KIP-848, or read transactions.

The other lifecycle scenarios that apply to them are in `scenarios.cooperative`.
"""

from __future__ import annotations

from compat_tests.scenarios.leader import ConversionScenarios
from compat_tests.scenarios.lifecycle import DeletedTopicScenarios
from compat_tests.scenarios.transaction import TransactionScenarios

PROGRAM = "compat_tests.kafka_python.cooperative_member"
STRATEGY = "cooperative-sticky"


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
