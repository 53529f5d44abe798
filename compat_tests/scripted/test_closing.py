"""Consumers that are closed at unusual moments: by their listener, during `start`, before other calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import aiokafka
import kafka
import pytest

from compat_tests.scripted.broker import Code, Held, Never, broker_in_thread
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import (
    TOPIC,
    AioListener,
    KafkaPythonListener,
    User,
    each_client,
    settings_of,
)
from compat_tests.support.hang_limit import HANG_S, SOON_S, hang_limit
from kafka_assignors.rebalance import lease, session, warm_ups
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeAssignment
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED = 16, 30
SILENCE_MS = int(HANG_S * 1000)
UNITS = [((TOPIC, number),) for number in range(8)]
A_WHILE_S = 0.3
"""A close that does not wait for a warm-up of this length is over before it."""


async def in_a_task(stop: Coroutine[Any, Any, None]) -> None:
    await asyncio.create_task(stop)


async def gathered(stop: Coroutine[Any, Any, None]) -> None:
    await asyncio.gather(stop)


async def in_time(stop: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait_for(asyncio.create_task(stop), HANG_S)


@pytest.fixture
def warnings_of(caplog: pytest.LogCaptureFixture) -> Callable[[Group], list[str]]:
    """The warnings and errors of a group's consumer."""
    caplog.set_level(logging.ERROR, "kafka.net.selector")  # It warns of a task that a busy machine stalls.
    caplog.set_level(logging.CRITICAL, "kafka.cluster")  # It logs a refresh that the close has cancelled.
    caplog.handler.setLevel(logging.WARNING)  # `set_level` sets it too, to that of the last logger.

    def is_own(record: logging.LogRecord, group: Group) -> bool:
        # An I/O thread of kafka-python, named after its client id, may outlive an earlier test, and log.
        thread = record.threadName or ""
        return not thread.startswith("kafka-io-") or thread == f"kafka-io-{group.id}"

    return lambda group: [
        each.getMessage()
        for each in caplog.records
        if each.levelno >= logging.WARNING and is_own(each, group)
    ]


@pytest.mark.parametrize("wait", [lambda stop: stop, in_a_task, gathered, in_time])
@each_client("aiokafka", consumes=0, max_poll_interval_ms=10 * SILENCE_MS)
async def test_a_listener_that_stops_its_consumer_is_told_the_rest_and_the_member_leaves(
    user: User, group: Group, wait: Any, warnings_of: Callable[[Group], list[str]]
) -> None:
    """`stop` waits for the listener, for at most `max_poll_interval_ms`, and the listener for the stop."""
    consumer, calls = user.client.consumer, []

    async def told(what: str, _: object) -> None:
        if what == "assigned":
            await wait(consumer.stop())
        calls.append(what)

    await consumer.start()
    consumer.subscribe([TOPIC], listener=AioListener(told))
    await group.until(lambda: group.sent("LeaveGroup"))
    await consumer.stop()
    assert calls == ["assigned", "revoked"]
    assert len(group.sent("LeaveGroup")) == 1
    assert warnings_of(group) == []


@pytest.mark.parametrize("method", ["close", "unsubscribe"])
@each_client("kafka-python", consumes=0)
async def test_a_listener_that_closes_its_consumer_is_told_the_rest_and_the_member_leaves(
    user: User, group: Group, method: str, warnings_of: Callable[[Group], list[str]]
) -> None:
    calls = []

    def told(what: str, _: object) -> None:
        calls.append(what)
        if what == "assigned":
            getattr(consumer, method)()

    def run() -> None:
        consumer.subscribe([TOPIC], listener=KafkaPythonListener(told))
        while not calls:
            assert consumer.poll(timeout_ms=100) == {}
        if method == "close":
            with pytest.raises(kafka.errors.IllegalStateError):
                consumer.poll()
        consumer.close()

    consumer = await user.client.constructed()
    await asyncio.to_thread(run)
    assert calls == ["assigned", "revoked"]
    assert len(group.sent("LeaveGroup")) == 1
    assert warnings_of(group) == []


@each_client("kafka-python", consumes=0)
async def test_an_interrupt_before_the_listener_is_called_leaves_no_call_that_a_close_would_wait_for(
    user: User, group: Group
) -> None:
    calls: list[str] = []

    def run() -> None:
        consumer.subscribe([TOPIC], listener=KafkaPythonListener(lambda what, _: calls.append(what)))
        listener_calls._begin = begin_and_interrupt
        with pytest.raises(KeyboardInterrupt):
            poll_for_ever()
        consumer.close()

    def poll_for_ever() -> None:
        while True:
            consumer.poll(timeout_ms=100)

    def begin_and_interrupt() -> None:
        listener_calls._begin = begin
        assert begin() is not None
        raise KeyboardInterrupt

    consumer = await user.client.constructed()
    listener_calls = consumer._coordinator.listener_calls
    begin = listener_calls._begin
    await asyncio.to_thread(run)
    assert calls == ["revoked"]
    assert len(group.sent("LeaveGroup")) == 1


@each_client(consumes=0)
async def test_a_listener_that_assigns_partitions_by_hand_leaves_the_group_and_keeps_them(
    user: User, group: Group, client: str
) -> None:
    consumer, by_hand = await user.client.constructed(), user.partition(TOPIC, 1)

    def told(what: str, _: object) -> None:
        if what == "assigned":
            consumer.unsubscribe()
            consumer.assign([by_hand])

    async def told_by_aiokafka(what: str, partitions: object) -> None:
        told(what, partitions)

    is_aiokafka = client == "aiokafka"
    if is_aiokafka:
        await consumer.start()
    consumer.subscribe(
        [TOPIC], listener=AioListener(told_by_aiokafka) if is_aiokafka else KafkaPythonListener(told)
    )
    while not (records := await user.client.poll()) or not group.sent("LeaveGroup"):
        pass
    assert set(records) == consumer.assignment() == {by_hand}


@each_client()
async def test_a_consumer_that_does_not_know_its_coordinator_looks_it_up_to_leave(
    user: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOOKUP_BEFORE_LEAVING_S", HANG_S)  # A busy machine stalls for seconds.
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


@each_client()
async def test_an_assignment_that_comes_after_the_member_has_left_is_no_fault_of_its_leader(
    user: User, group: Group, warnings_of: Callable[[Group], list[str]]
) -> None:
    since, assigned, left = len(group.requests), asyncio.Event(), asyncio.Event()
    group.answer("SyncGroup", Held(assigned))
    group.answer("LeaveGroup", Held(left))
    group.begin_rebalance()
    await group.until(lambda: group.sent("SyncGroup", since=since))
    closing = asyncio.ensure_future(user.close())
    await group.until(lambda: group.sent("LeaveGroup"))
    assigned.set()
    await asyncio.sleep(0.1)  # The assignment arrives before the member closes its connections.
    left.set()
    await closing
    assert warnings_of(group) == []


@each_client(of_group={"peer_leads": True}, group_instance_id="pod-1")
async def test_a_static_member_that_unsubscribes_before_its_assignment_comes_watches_nothing(
    user: User, group: Group, warnings_of: Callable[[Group], list[str]]
) -> None:
    since, assigned, user.held = len(group.requests), asyncio.Event(), {"revoked"}
    group.answer("SyncGroup", Held(assigned))
    group.begin_rebalance()
    await group.until(lambda: group.sent("SyncGroup", since=since))
    leaving = asyncio.ensure_future(user.call("unsubscribe"))
    await user.entered.wait()
    assigned.set()
    while not user.client.consumer._coordinator._session.joins_are_answered:
        await asyncio.sleep(0.01)
    user.released.set()
    assert await leaving == "ok"
    assert warnings_of(group) == []


@each_client(consumes=0, metadata_max_age_ms=50)
async def test_metadata_that_come_while_a_member_with_a_pattern_unsubscribes_do_not_bring_it_back(
    user: User, group: Group
) -> None:
    user.subscribes, user.held = {"pattern": "^orders"}, {"revoked"}
    await user.start()
    assert await user.consumes(4)
    since = len(group.requests)
    leaving = asyncio.ensure_future(user.call("unsubscribe"))
    await user.entered.wait()
    group.topics["orders-of-today"] = 2
    during = len(group.requests)
    await group.until(lambda: len(group.sent("Metadata", since=during)) > 2)
    user.released.set()
    assert await leaving == "ok"
    await group.until(lambda: group.sent("LeaveGroup", since=since))
    left = len(group.requests)
    await asyncio.sleep(1)
    assert not group.sent("Heartbeat", since=left)
    assert not group.sent("JoinGroup", since=left)


@pytest.mark.parametrize("unanswered", ["Metadata", "FindCoordinator", "JoinGroup"])
@each_client("kafka-python", consumes=0)
async def test_a_close_before_the_first_join_logs_no_failure(
    user: User, group: Group, unanswered: str, warnings_of: Callable[[Group], list[str]]
) -> None:
    consumer = await user.client.constructed()
    group.answer(unanswered, Never(), times=20)  # The close ends what waits for it.

    def run() -> None:
        consumer.subscribe([TOPIC])
        while not group.sent(
            unanswered
        ):  # The client logs a connection that the close ends before it is open.
            consumer.poll(timeout_ms=100)
        consumer.close()

    await asyncio.to_thread(run)
    assert warnings_of(group) == []


@each_client()
async def test_a_close_during_a_lookup_logs_no_failure(
    user: User, group: Group, monkeypatch: pytest.MonkeyPatch, warnings_of: Callable[[Group], list[str]]
) -> None:
    monkeypatch.setattr(session, "LOOKUP_BEFORE_LEAVING_S", 0.1)
    since = len(group.requests)
    group.answer("FindCoordinator", Never(), times=20)
    group.answer("Heartbeat", Code(NOT_COORDINATOR))
    await group.until(lambda: group.sent("FindCoordinator", since=since))
    before = warnings_of(group)
    await user.close()
    assert warnings_of(group) == before


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("has_lease", [True, False], ids=["lease", "no lease"])
@each_client("aiokafka", of_group={"peer_leads": True}, session_timeout_ms=1500)
async def test_a_consumer_whose_tasks_are_cancelled_before_a_revocation_tells_its_listener_when_it_stops(
    user: User, group: Group, turns: int, has_lease: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `asyncio.run` cancels them, `turns` of the loop after the assignment has come."""
    coordinator = user.client.consumer._coordinator
    assigned, beats = asyncio.Event(), asyncio.Event()
    began_at, passed = lease.clock(), 0.0
    monkeypatch.setattr(lease, "clock", lambda: began_at + passed)
    user.polls.clear()
    await group.until(lambda: group.sent("Heartbeat"))
    since, group.assigned = len(group.requests), UNITS[0]
    group.answer("Heartbeat", Held(beats), times=math.inf)
    group.answer("SyncGroup", Held(assigned))
    assert await user.call("enforce_rebalance") == "ok"
    await group.until(lambda: group.sent("SyncGroup", since=since))
    passed = 0.0 if has_lease else 10.0
    assigned.set()
    while coordinator.member.call is None:
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    cancel_tasks_of_consumer()
    beats.set()
    await user.close()
    revoked = [number for what, numbers in user.told if what == "revoked" for number in numbers]
    assert sorted(revoked) == [0, 1, 2, 3]
    assert group.sent("LeaveGroup")


def cancel_tasks_of_consumer() -> None:
    for task in asyncio.all_tasks():
        if "compat_tests" not in task.get_coro().cr_code.co_filename:  # type: ignore[union-attr]
            task.cancel()


def test_a_consumer_stops_also_when_its_listener_ends_the_process() -> None:
    """The handler of a signal may raise SystemExit anywhere."""

    async def told(what: str, _: object) -> None:
        if what == "assigned":
            raise SystemExit

    async def consume() -> None:
        consumer = CooperativeAIOKafkaConsumer(**settings_of(broker, group, session_timeout_ms=1500))
        await consumer.start()
        consumer.subscribe([TOPIC], listener=AioListener(told))
        try:
            await asyncio.Event().wait()
        finally:
            async with hang_limit(SOON_S):
                await consumer.stop()

    with broker_in_thread() as broker:
        group = broker.group("closing", {TOPIC: 4})
        with pytest.raises(SystemExit):
            asyncio.run(consume())
        assert group.sent("LeaveGroup")


@pytest.mark.parametrize("requests", [1, 2, 3])
@each_client("aiokafka", consumes=0, session_timeout_ms=SILENCE_MS, request_timeout_ms=SILENCE_MS)
async def test_a_start_that_waits_for_metadata_ends_when_the_consumer_stops(
    user: User, group: Group, requests: int
) -> None:
    """With a pattern, `start` waits for the metadata of all topics, which the broker stops sending."""
    consumer = user.client.consumer
    async with hang_limit(SOON_S):
        consumer.subscribe(pattern="ord.*")
        starting = asyncio.ensure_future(consumer.start())
        while len(group.sent("Metadata")) < requests:
            await asyncio.sleep(0)
        group.answer("Metadata", Never(), times=20)
        await asyncio.sleep(0.1)
        await consumer.stop()
        with pytest.raises(aiokafka.errors.ConsumerStoppedError):
            await starting


@each_client("aiokafka")
async def test_a_join_that_is_given_up_at_any_moment_is_followed_by_the_next(
    user: User, group: Group
) -> None:
    consumer = user.client.consumer
    for turns in range(20):
        consumer.unsubscribe()
        await group.until(lambda: not group.member_id)
        await asyncio.sleep(0.01)  # The consumer comes to rest.
        consumer.subscribe([TOPIC])
        for _ in range(turns):
            await asyncio.sleep(0)
    consumer.unsubscribe()
    consumer.subscribe([TOPIC])
    assert await user.consumes()


@each_client("aiokafka")
async def test_no_call_after_the_end_of_a_consumer_leaves_a_task_behind(user: User, group: Group) -> None:
    await user.close()
    consumer, before = user.client.consumer, asyncio.all_tasks()
    consumer.unsubscribe()
    consumer.subscribe([TOPIC])
    consumer.enforce_rebalance()
    consumer.unsubscribe()
    consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
    assert asyncio.all_tasks() == before


@each_client("aiokafka", consumes=0)
async def test_a_lookup_that_has_failed_leaves_alone_what_looks_up_for_the_next_subscription(
    user: User, group: Group
) -> None:
    """The failure waits for the user's next call, and the new lookup ends with the consumer."""
    consumer = user.client.consumer
    group.answer("OffsetFetch", Code(GROUP_AUTHORIZATION_FAILED))
    await consumer.start()
    consumer.subscribe([TOPIC])
    while consumer._coordinator.user_was_told:
        await asyncio.sleep(0.01)
    consumer.unsubscribe()
    consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
    looking_up = consumer._coordinator._commit_refresh_task
    with pytest.raises(aiokafka.errors.GroupAuthorizationFailedError):
        await user.client.poll()
    while not await user.client.poll():
        pass
    await consumer.stop()
    assert looking_up.done()


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
@pytest.mark.parametrize("setting", [*INTERVALS, "session_timeout_ms", "observer"])
@pytest.mark.parametrize("wrong", [0, -5, float("nan"), "3000"])
def test_no_observer_and_an_interval_that_would_make_a_storm_of_requests_are_refused(
    kind: Any, setting: str, wrong: object
) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{setting} must be"):
        kind(TOPIC, group_id="closing", bootstrap_servers="127.0.0.1:1", **{setting: wrong})


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


@each_client(of_group={"peer_leads": True}, consumes=0)
async def test_a_close_leaves_at_once_and_waits_for_the_warm_ups_that_nothing_else_cancels(
    user: User, group: Group, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_ups, "END_S", HANG_S)  # A busy machine stalls for seconds.
    calls: list[str] = []

    def has_left() -> bool:
        return bool(group.sent("LeaveGroup"))

    def note(call: str) -> None:
        calls.append(call)
        group.loop.call_soon_threadsafe(group.changed)

    class AioWarming(AioListener):
        async def on_partitions_warming(self, _: object) -> None:
            note("warming")
            try:
                await asyncio.Event().wait()
            finally:
                note("asked to end")
                await group.until(has_left)
                await asyncio.sleep(A_WHILE_S)
                note("ended")

        def on_warming_cancelled(self, _: object) -> None:
            note("cancelled")

    class KafkaPythonWarming(KafkaPythonListener):
        def on_partitions_warming(self, _: object, cancelled: threading.Event) -> None:
            note("warming")
            cancelled.wait(HANG_S)
            note("asked to end")
            group.wait_until(has_left)
            time.sleep(A_WHILE_S)
            note("ended")

        def on_warming_cancelled(self, _: object) -> None:
            note("cancelled")

    listener = (AioWarming if client == "aiokafka" else KafkaPythonWarming)(lambda *_: None)
    user.listener_of, group.assigned, group.to_warm = lambda _: listener, [], UNITS[:1]
    if client == "aiokafka":
        assert await user.call("subscribe") == "ok"  # Before `start`, so that the next is the same again.
        monkeypatch.setattr(user.client, "start", user.client.consumer.start)
    await user.start()
    await group.until(lambda: calls)
    assert await user.call("subscribe") == "ok"  # With the same listener.
    since = len(group.requests)
    await group.until(lambda: len(group.sent("Heartbeat", since=since)) >= 2)
    assert calls == ["warming"]
    await user.close()
    assert calls == ["warming", "asked to end", "ended", "cancelled"]


@each_client("kafka-python", of_group={"peer_leads": True}, consumes=0)
async def test_the_timeout_of_a_close_is_that_of_its_wait_for_warm_ups_too(
    user: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_ups, "END_S", HANG_S)
    begun, released = asyncio.Event(), threading.Event()

    def warm(*_: object) -> None:
        user.loop.call_soon_threadsafe(begun.set)
        released.wait(HANG_S)

    monkeypatch.setattr(KafkaPythonListener, "on_partitions_warming", warm, raising=False)
    group.assigned, group.to_warm = [], UNITS[:1]
    await user.start()
    await begun.wait()
    user.polls.clear()
    before = time.monotonic()
    await asyncio.to_thread(user.client.consumer.close, timeout_ms=100)
    took_s = time.monotonic() - before
    released.set()
    assert took_s < SOON_S


@each_client(of_group={"peer_leads": True}, consumes=0, warm_timeout_ms=100)
async def test_calls_of_on_warming_cancelled_that_never_return_are_bounded(
    user: User, group: Group, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    released, told = threading.Event(), []

    class AioHangs(AioListener):
        async def on_partitions_warming(self, _: object) -> None: ...

        async def on_warming_cancelled(self, partitions: object) -> None:
            told.append(partitions)
            while not released.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)

    class KafkaPythonHangs(KafkaPythonListener):
        def on_partitions_warming(self, *_: object) -> None: ...

        def on_warming_cancelled(self, partitions: object) -> None:
            told.append(partitions)
            released.wait(HANG_S)

    user.listener_of = AioHangs if client == "aiokafka" else KafkaPythonHangs
    group.topics[TOPIC], group.assigned, group.to_warm = len(UNITS), [], UNITS
    await user.start()
    warm = user.client.consumer._coordinator._session.warm_ups
    await group.until(lambda: len(warm._warmed) == len(UNITS))
    group.to_warm = []
    group.begin_rebalance()
    await group.until(lambda: told and not warm._calls)
    released.set()
    assert len(told) == warm_ups.DEFAULT_MAX_WARMING
    assert caplog.text.count("on_warming_cancelled is not called") == 1


# ---- drain


@each_client()
async def test_a_close_ends_a_drain_that_has_not_handed_everything_over(
    user: User, group: Group, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    drain, joins = user.client.consumer.drain, len(group.sent("JoinGroup"))
    draining = asyncio.ensure_future(drain() if client == "aiokafka" else asyncio.to_thread(drain))
    await group.until(lambda: len(group.sent("JoinGroup")) > joins)
    await user.close()
    assert await draining is False
    assert "not all partitions are drained: it is being closed" in caplog.text


@each_client()
async def test_a_listener_cannot_drain_its_consumer_but_others_can_while_it_runs(
    user: User, group: Group, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, told, user.held = user.client.consumer, user.client._told, {"revoked"}
    results: list[object] = []

    def drain() -> Any:
        return consumer.drain(timeout_ms=100)

    async def in_its_task(what: str, partitions: Any) -> None:
        try:
            results.append(await drain())
        except aiokafka.errors.IllegalStateError:
            results.append("refused")
        await told(what, partitions)

    def in_its_thread(what: str, partitions: Any) -> None:
        try:
            results.append(drain())
        except kafka.errors.IllegalStateError:
            results.append("refused")
        told(what, partitions)

    monkeypatch.setattr(user.client, "_told", in_its_task if client == "aiokafka" else in_its_thread)
    assert await user.call("subscribe") == "ok"
    leaving = asyncio.ensure_future(user.call("unsubscribe"))
    await user.entered.wait()
    assert await (drain() if client == "aiokafka" else asyncio.to_thread(drain)) is False
    user.released.set()
    assert await leaving == "ok"
    assert {*results} == {"refused"}
