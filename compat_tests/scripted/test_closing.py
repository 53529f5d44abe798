"""Consumers that are closed at unusual moments: by their listener, during `start`, before other calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

import aiokafka
import kafka
import pytest

from compat_tests.scripted.broker import Code, Held, Never, ScriptedBroker
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import (
    CLIENTS,
    TOPIC,
    AioListener,
    KafkaPythonListener,
    User,
    each_client,
    settings_of,
)
from compat_tests.support.hang_limit import HANG_S, SOON_S, hang_limit
from kafka_assignors.rebalance import session
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeAssignment
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

NOT_COORDINATOR = 16


async def in_a_task(stop: Coroutine[Any, Any, None]) -> None:
    await asyncio.create_task(stop)


async def gathered(stop: Coroutine[Any, Any, None]) -> None:
    await asyncio.gather(stop)


async def in_time(stop: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait_for(asyncio.create_task(stop), HANG_S)


async def closed_by_aiokafkas_listener(
    broker: ScriptedBroker, group: Group, wait: Any = lambda stop: stop
) -> list[str]:
    """`stop` waits for the listener, for at most `max_poll_interval_ms`, and the listener for the stop."""
    calls = []
    settings = settings_of(broker, group, max_poll_interval_ms=int(10 * HANG_S * 1000))
    consumer = CooperativeAIOKafkaConsumer(**settings)

    async def told(what: str, _: object) -> None:
        if what == "assigned":
            await wait(consumer.stop())
        calls.append(what)

    await consumer.start()
    consumer.subscribe([TOPIC], listener=AioListener(told))
    await group.until(lambda: group.sent("LeaveGroup"))
    await consumer.stop()
    return calls


async def closed_by_kafka_pythons_listener(
    broker: ScriptedBroker, group: Group, method: str = "close"
) -> list[str]:
    calls = []

    def told(what: str, _: object) -> None:
        calls.append(what)
        if what == "assigned":
            getattr(consumer, method)()

    def run() -> None:
        nonlocal consumer
        consumer = CooperativeKafkaConsumer(**settings_of(broker, group))
        consumer.subscribe([TOPIC], listener=KafkaPythonListener(told))
        while not calls:
            assert consumer.poll(timeout_ms=100) == {}
        if method == "close":
            with pytest.raises(kafka.errors.IllegalStateError):
                consumer.poll()
        consumer.close()

    consumer: Any = None
    await asyncio.get_running_loop().run_in_executor(None, run)
    return calls


def _is_of_another(record: logging.LogRecord, client_id: str) -> bool:
    """Whether it is of another consumer's I/O thread, which kafka-python names after the client id."""
    thread = record.threadName or ""
    return thread.startswith("kafka-io-") and thread != f"kafka-io-{client_id}"


@pytest.mark.parametrize(
    "run",
    [
        closed_by_aiokafkas_listener,
        *(partial(closed_by_aiokafkas_listener, wait=wait) for wait in (in_a_task, gathered, in_time)),
        closed_by_kafka_pythons_listener,
        partial(closed_by_kafka_pythons_listener, method="unsubscribe"),
    ],
)
def test_a_listener_that_closes_its_consumer_is_told_the_rest_and_the_member_leaves(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("closing", {TOPIC: 4})
            assert await run(broker, group) == ["assigned", "revoked"]
            assert len(group.sent("LeaveGroup")) == 1
            assert broker.unexpected == []
        # kafka-python's I/O thread of a consumer in an earlier test may still run, and log.
        own = [each for each in caplog.records if not _is_of_another(each, group.id)]
        assert [each for each in own if each.levelno >= logging.WARNING] == []

    caplog.set_level(logging.ERROR, "kafka.net.selector")  # It warns of a task that a busy machine stalls.
    caplog.set_level(logging.CRITICAL, "kafka.cluster")  # It logs a refresh that the close has cancelled.
    asyncio.run(scene())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_consumer_that_does_not_know_its_coordinator_looks_it_up_to_leave(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOOKUP_BEFORE_LEAVING_S", HANG_S)  # A busy machine stalls for seconds.

    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("closing", {TOPIC: 4})
            user = User(broker, group, client)
            await user.start()
            assert await user.consumes()
            since, found = len(group.requests), asyncio.Event()
            group.answer("FindCoordinator", Held(found))
            group.answer("Heartbeat", Code(NOT_COORDINATOR))
            await group.until(lambda: group.sent("FindCoordinator", since=since))
            closing = asyncio.ensure_future(user.close())
            await group.until(lambda: "revoked" in user.listened)
            await asyncio.sleep(0.1)  # What does not wait closes the connections meanwhile.
            found.set()
            await closing
            assert len(group.sent("LeaveGroup")) == 1
            assert not group.has_member

    asyncio.run(scene())


@pytest.mark.parametrize("requests", [1, 2, 3])
def test_a_start_that_waits_for_metadata_ends_when_the_consumer_stops(requests: int) -> None:
    """With a pattern, `start` waits for the metadata of all topics, which the broker stops sending."""

    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit(SOON_S):
            group = broker.group("closing", {TOPIC: 4})
            silence_ms = int(HANG_S * 1000)
            consumer = CooperativeAIOKafkaConsumer(
                **settings_of(broker, group, session_timeout_ms=silence_ms, request_timeout_ms=silence_ms)
            )
            consumer.subscribe(pattern="ord.*")
            starting = asyncio.ensure_future(consumer.start())
            while len(group.sent("Metadata")) < requests:
                await asyncio.sleep(0)
            for _ in range(20):
                group.answer("Metadata", Never())
            await asyncio.sleep(0.1)
            await consumer.stop()
            with pytest.raises(aiokafka.errors.ConsumerStoppedError):
                await starting

    asyncio.run(scene())


def test_no_call_after_the_end_of_a_consumer_leaves_a_task_behind() -> None:
    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("closing", {TOPIC: 4})
            consumer = CooperativeAIOKafkaConsumer(TOPIC, **settings_of(broker, group))
            await consumer.start()
            await consumer.stop()
            before = asyncio.all_tasks()
            consumer.unsubscribe()
            consumer.subscribe([TOPIC])
            consumer.enforce_rebalance()
            consumer.unsubscribe()
            consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
            assert asyncio.all_tasks() == before

    asyncio.run(scene())


@each_client()
async def test_a_reason_that_no_request_can_carry_is_refused_at_once_or_made_fit(
    user: User, group: Group
) -> None:
    assert await user.call("enforce_rebalance", 5) == "TypeError"
    joins = len(group.sent("JoinGroup"))
    assert await user.call("enforce_rebalance", "\ud800") == "ok"
    await group.until(lambda: len(group.sent("JoinGroup")) > joins)
    assert user.raised == []


INTERVALS = ("heartbeat_interval_ms", "max_poll_interval_ms", "auto_commit_interval_ms", "retry_backoff_ms")


@pytest.mark.parametrize("kind", [CooperativeAIOKafkaConsumer, CooperativeKafkaConsumer])
@pytest.mark.parametrize("interval", [*INTERVALS, "session_timeout_ms"])
@pytest.mark.parametrize("wrong", [0, -5, float("nan"), "3000"])
def test_an_interval_that_would_make_a_storm_of_requests_is_refused(
    kind: Any, interval: str, wrong: object
) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{interval} must be"):
        kind(TOPIC, group_id="closing", bootstrap_servers="127.0.0.1:1", **{interval: wrong})


def test_partitions_that_come_and_go_for_ever_leave_nothing_behind() -> None:
    """Partitions change like this with a pattern and topics that are created and deleted all the time."""

    async def scene() -> None:
        assignment = CooperativeAssignment()
        first = aiokafka.TopicPartition("orders-0", 0)
        for number in range(1000):
            assignment.become([aiokafka.TopicPartition(f"orders-{number}", 0)])
        assert len(assignment._tp_state) == 1
        # A fetch of the first partition may still be in flight; it finds a state without a valid position.
        assert assignment.state_value(first).paused
        assert not assignment.state_value(first).has_valid_position

    asyncio.run(scene())
