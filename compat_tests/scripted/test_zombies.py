"""A member that was frozen until it was removed, and wakes while another broker takes its group over.

A coordinator that loads a group answers OK to every heartbeat (`GroupCoordinatorService.heartbeat` of Kafka),
even to those of removed members. A consumer that trusts this response delivers records that are not its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from compat_tests.scripted.broker import ScriptedBroker, broker_in_thread
from compat_tests.scripted.model import Group
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.rebalance import MemberState
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative import coordinator as of_aiokafka
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_kafka_python.cooperative import coordinator as of_kafka_python

SESSION_TIMEOUT_S = 3.0
LOADING = 14
HANG_MS = int(HANG_S * 1000)

Delivered = Mapping[Any, Any]


class TrustingMember(MemberState):
    """A faulty member: it renews its lease although the coordinator may not know the group yet."""

    def _heartbeat_accepted(self, sent_at: float, now: float) -> MemberState:
        return self._accepted(sent_at, rebalancing=False)


def settings(broker: ScriptedBroker) -> Mapping[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap,
        "group_id": "zombies",
        "client_id": "zombies",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": int(SESSION_TIMEOUT_S * 1000),
        "heartbeat_interval_ms": 100,
        "retry_backoff_ms": 50,
    }


def given_away(group: Group) -> None:
    """End the member's session, and make the coordinator load the group without this member."""
    group.remove_member()
    group.loading = True


def has_believed_or_rejoined(group: Group, since: int, delivered: Delivered) -> Callable[[], bool]:
    """Whether the consumer got OK, and then delivered records or tried to join more than once."""

    def decided() -> bool:
        told_ok = [one for one in group.sent("Heartbeat", since=since) if one.error_code == 0]
        refused = [one for one in group.sent("JoinGroup", since=since) if one.error_code == LOADING]
        return bool(told_ok) and (bool(delivered) or len(refused) > 1)

    return decided


async def aiokafka_zombie(broker: ScriptedBroker, group: Group) -> Delivered:
    consumer = CooperativeAIOKafkaConsumer("orders", **settings(broker))
    await asyncio.wait_for(consumer.start(), HANG_S)
    try:
        before = await consumer.getmany(timeout_ms=HANG_MS, max_records=1)
        assert before
        # The sleep blocks the event loop, and with it the consumer.
        given_away(group)
        time.sleep(1.5 * SESSION_TIMEOUT_S)
        since, delivered = len(group.requests), {}
        decided = has_believed_or_rejoined(group, since, delivered)
        # A call for records waits while there is no lease, as it does during a rebalance of aiokafka.
        calling = asyncio.ensure_future(consumer.getmany(timeout_ms=20))
        deadline = time.monotonic() + HANG_S
        while not decided():
            assert time.monotonic() < deadline
            await asyncio.wait([calling], timeout=0.02)
            if calling.done():
                delivered.update(await calling)
                calling = asyncio.ensure_future(consumer.getmany(timeout_ms=20))
        calling.cancel()
        group.loading = False
        assert await asyncio.wait_for(consumer.getmany(timeout_ms=HANG_MS), HANG_S)
        return delivered
    finally:
        await consumer.stop()


def kafka_python_zombie(broker: ScriptedBroker, group: Group) -> Delivered:
    consumer = CooperativeKafkaConsumer("orders", **settings(broker))
    try:
        deadline = time.monotonic() + HANG_S
        while not consumer.poll(timeout_ms=100, max_records=1):
            assert time.monotonic() < deadline
        # The I/O thread is blocked, and the user's thread waits for it.
        given_away(group)
        consumer._coordinator.on_io_thread(time.sleep, 1.5 * SESSION_TIMEOUT_S)
        since, delivered = len(group.requests), {}
        decided = has_believed_or_rejoined(group, since, delivered)
        while not decided():
            assert time.monotonic() < deadline
            delivered.update(consumer.poll(timeout_ms=20))
        group.loading = False
        while not consumer.poll(timeout_ms=20):
            assert time.monotonic() < deadline
        return delivered
    finally:
        consumer.close()


@pytest.mark.parametrize("trusting", [False, True], ids=["ours", "a member that trusts"])
@pytest.mark.parametrize("client", ["aiokafka", "kafka-python"])
def test_zombies_that_wake_while_another_broker_takes_the_group_over_deliver_nothing(
    client: str, trusting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trusting:
        for module in (of_aiokafka, of_kafka_python):
            monkeypatch.setattr(module, "MemberState", TrustingMember)
    with broker_in_thread() as broker:
        group = broker.group("zombies", {"orders": 4})
        if client == "aiokafka":
            delivered = asyncio.run(aiokafka_zombie(broker, group))
        else:
            delivered = kafka_python_zombie(broker, group)
        assert bool(delivered) is trusting
        assert broker.unexpected == []
