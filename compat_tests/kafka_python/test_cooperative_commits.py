"""Commits of CooperativeKafkaConsumers that cannot be sent, or are too many at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kafka import OffsetAndMetadata, TopicPartition

from compat_tests.kafka_python.in_process import Listener, consuming
from compat_tests.scenarios.in_process import polling_until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_kafka_python.cooperative import transactions
from kafka_assignors_kafka_python.cooperative.transactions import TooManyCommitsError

PROGRAM = "compat_tests.kafka_python.cooperative_member"
MOST_OPEN = 50
"""The limit of open commits in these tests, instead of 5,000."""


def at(offset: Any, metadata: Any = "") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata, -1)


def partitions_of(group: GroupOfMembers) -> list[TopicPartition]:
    return [TopicPartition(name, number) for name, count in group.topics.items() for number in range(count)]


def test_a_revocation_goes_on_after_its_commit_failed_for_an_offset_that_cannot_be_sent(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 1, "payments": 1}) as group:
        with consuming(group, listener, enable_auto_commit=True) as consumer:
            polling_until(lambda: len(consumer.assignment()) == 2, consumer)
            going, staying = sorted(partitions_of(group))
            member_id = consumer.group_metadata().member_id
            consumer.pause(going)
            consumer.seek(going, 1 << 63)
            consumer.subscribe([staying.topic], listener=listener)
            polling_until(lambda: listener.told("revoked"), consumer)
            assert listener.told("revoked") == [{going}]
            polling_until(lambda: consumer.assignment() == {staying}, consumer)
            consumer.commit({staying: at(4)})
        (record,) = [one for one in caplog.records if "could not be committed" in one.message]
        assert record.levelname == "ERROR"
        assert record.exc_info is not None
        assert repr(group.id) in record.message
        assert repr(member_id) in record.message


def ask_for_commits(consumer: CooperativeKafkaConsumer, tp: TopicPartition, count: int) -> list[Any]:
    return [consumer.commit_async({tp: at(offset)}, lambda *outcome: None) for offset in range(count)]


def test_more_commits_than_may_be_open_are_refused_until_some_have_ended(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "MOST_OPEN", MOST_OPEN)
    answered: list[object] = []
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group,
        consuming(group, request_timeout_ms=200_000) as consumer,
    ):
        polling_until(lambda: consumer.assignment(), consumer)
        (tp,) = partitions_of(group)
        may_go_on = threading.Event()
        consumer._coordinator._manager.call_soon(may_go_on.wait)  # The I/O thread takes no commits meanwhile.
        futures = ask_for_commits(consumer, tp, MOST_OPEN)
        refused = consumer.commit_async({tp: at(7)}, lambda offsets, outcome: answered.append(outcome))
        assert isinstance(refused.exception, TooManyCommitsError)
        assert refused.retriable()
        may_go_on.set()
        polling_until(lambda: all(future.is_done for future in futures), consumer)
        assert all(future.succeeded() for future in futures)
        assert answered == [refused.exception]
        assert consumer.committed(tp) == MOST_OPEN - 1
        consumer.commit_async({tp: at(8)})
        polling_until(lambda: consumer.committed(tp) == 8, consumer)
