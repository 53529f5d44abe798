"""Commits of CooperativeKafkaConsumers: partial responses, bad arguments, thousands at once."""

from __future__ import annotations

import random
import struct
import threading
from typing import Any

import kafka.net.manager
import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import UnknownTopicOrPartitionError

from compat_tests.interop.recorded_group import RecordedGroup
from compat_tests.kafka_python.in_process import Listener, consuming
from compat_tests.scenarios.in_process import polling_until
from compat_tests.support.fault_proxy import Effect, Fault, FaultProxy
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_kafka_python.cooperative import transactions
from kafka_assignors_kafka_python.cooperative.transactions import TooManyCommitsError

PROGRAM = "compat_tests.kafka_python.cooperative_member"
UNKNOWN_TOPIC, NOT_COORDINATOR = 3, 16
MOST_OPEN = 50
"""The limit of open commits in these tests, instead of 5,000."""


def at(offset: Any, metadata: Any = "") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata, -1)


def partitions_of(group: GroupOfMembers) -> list[TopicPartition]:
    return [TopicPartition(name, number) for name, count in group.topics.items() for number in range(count)]


@pytest.mark.parametrize("passing", [14, 15, NOT_COORDINATOR, 7])
def test_beside_a_partition_that_failed_for_good_the_others_are_tried_again(
    kafka: Kafka, passing: int
) -> None:
    requested: list[set[int]] = []
    with GroupOfMembers(kafka, PROGRAM, {"orders": 3}) as group, consuming(group) as consumer:
        polling_until(lambda: len(consumer.assignment()) == 3, consumer)
        gone, busy, fine = partitions_of(group)
        answers = {0: UNKNOWN_TOPIC, 1: passing}
        coordinator = consumer._coordinator
        commit = coordinator.offset_commit

        async def answer(sent: Any) -> Any:
            codes = await sent
            requested.append({number for _, number in codes})
            return {tp: answers.pop(tp[1], code) for tp, code in codes.items()}

        coordinator.offset_commit = lambda *request: answer(commit(*request))
        with pytest.raises(UnknownTopicOrPartitionError, match=f"{gone.topic}-0"):
            consumer.commit({gone: at(1), busy: at(2), fine: at(3)}, timeout_ms=60_000)
        assert requested == [{0, 1, 2}, {1}]
        assert consumer.committed(busy) == 2
        consumer.commit({gone: at(4)})


BAD_OFFSETS = [
    at(1, "x" * 5_000),
    at(None),
    at("7"),
    at(2**70),
    at(1, 5),
    at(-5),
    None,
    3,
]


def outcomes(consumer: KafkaConsumer, tp: TopicPartition) -> list[str]:
    kinds = []
    for bad in BAD_OFFSETS:
        try:
            consumer.commit({tp: bad}, timeout_ms=20_000)
        except Exception as error:
            kinds.append(type(error).__name__)
        else:
            kinds.append("committed")
    return kinds


def test_an_argument_that_the_client_cannot_send_fails_as_in_stock_and_the_consumer_goes_on(
    kafka: Kafka,
) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group:
        group.produce(10)
        (tp,) = partitions_of(group)
        stock = KafkaConsumer(group_id=f"stock-{group.id}", bootstrap_servers=kafka.bootstrap)
        # Assigned manually: the stock leader does not assign a new topic that is missing in its metadata.
        stock.assign([tp])
        expected = outcomes(stock, tp)
        stock.close()
        with consuming(group) as consumer:
            polling_until(lambda: consumer.assignment(), consumer)
            assert outcomes(consumer, tp) == expected
            with pytest.raises(struct.error):  # The broker closes the connection of a stock consumer.
                consumer.commit({tp: at(1, "x" * 40_000)}, timeout_ms=HANG_S * 1000)
            consumer.commit({tp: at(4)})
            assert consumer.committed(tp) == 4
            polling_until(lambda: (consumer.position(tp) or 0) > 4, consumer)


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


def test_thousands_of_commits_at_once_are_accepted_with_the_last_one(kafka: Kafka) -> None:
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group,
        consuming(group, request_timeout_ms=200_000) as consumer,
    ):
        polling_until(lambda: consumer.assignment(), consumer)
        (tp,) = partitions_of(group)
        futures = ask_for_commits(consumer, tp, 2_000)
        polling_until(lambda: all(future.is_done for future in futures), consumer)
        assert all(future.succeeded() for future in futures)
        assert consumer.committed(tp) == 1_999
        assert not consumer._coordinator._session.commits._lines


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


def through(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Route every connection of kafka-python through the proxy, regardless of the advertised address."""
    connect = kafka.net.manager.create_connection

    async def connect_to_proxy(net: Any, host: str, port: int, *arguments: Any, **settings: Any) -> Any:
        return await connect(net, "127.0.0.1", proxy.forward(port, port), *arguments, **settings)

    monkeypatch.setattr(kafka.net.manager, "create_connection", connect_to_proxy)


@pytest.mark.parametrize("seed", range(3))
def test_while_connections_are_reset_no_commit_goes_back_and_the_next_member_begins_at_the_last(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance, called = random.Random(seed), list[int]()
    with (
        FaultProxy() as proxy,
        GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group,
        RecordedGroup(kafka, group.id) as recorded,
    ):
        (tp,) = partitions_of(group)
        group.produce(10)
        with monkeypatch.context() as patched:
            through(proxy, patched)
            with consuming(group) as consumer:
                polling_until(consumer.assignment, consumer)
                offset = 0
                for _ in range(2):
                    for reset in (False, True):
                        with proxy.fault(Fault(Effect.RESET if reset else Effect.SLOW)):
                            for _ in range(chance.randint(5, 20)):
                                offset += 1
                                consumer.commit_async(
                                    {tp: at(offset)}, lambda asked, _: called.append(asked[tp].offset)
                                )
                                consumer.poll(timeout_ms=25)
                consumer.commit({tp: at(offset + 1)}, timeout_ms=HANG_S * 1000)
        with consuming(group) as next_one:
            assert next_one.committed(tp) == offset + 1
        recorded.records()
        accepted = [one.offset for one in recorded.commits()]
    assert accepted == sorted(accepted)
    assert accepted[-1] == offset + 1
    assert called == sorted(called)
