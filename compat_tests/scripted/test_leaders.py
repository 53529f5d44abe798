"""A leader that decodes what the members of a large group sent: kafka-python has one thread for all I/O."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing

import pytest

from compat_tests.scripted.broker import broker_in_thread
from compat_tests.scripted.test_leader_epochs import poll_until
from kafka_assignors.assignor import EagerAssignor
from kafka_assignors.joining import Joined, JoinedMember
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

HANG_S = 20.0


@pytest.mark.timeout(120)
def test_a_leader_that_decodes_for_long_keeps_its_session_and_delivers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, released, ended = threading.Event(), threading.Event(), threading.Event()
    read_members = EagerAssignor.read_members

    def slow(self: EagerAssignor, joined: Iterable[JoinedMember]) -> Joined:
        began.set()
        released.wait(HANG_S)
        ended.set()
        return read_members(self, joined)

    with broker_in_thread() as broker:
        group = broker.group("leaders", {"orders": 4})
        consumer = CooperativeKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap,
            group_id="leaders",
            client_id="leaders",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )
        with closing(consumer):
            assert poll_until(consumer, lambda delivered: len(delivered) == 4, 60)
            monkeypatch.setattr(EagerAssignor, "read_members", slow)
            group.begin_rebalance()
            assert poll_until(consumer, lambda _: began.is_set(), 60)
            since = len(group.requests)

            went_on = poll_until(
                consumer,
                lambda delivered: (
                    ended.is_set() or (len(delivered) == 4 and len(group.sent("Heartbeat", since=since)) > 2)
                ),
                60,
            )

            assert went_on
            assert not ended.is_set()
            released.set()
            assert poll_until(consumer, lambda _: group.sent("SyncGroup", since=since), 60)
            assert poll_until(consumer, lambda delivered: len(delivered) == 4, 60)
        assert broker.unexpected == []
