"""What a listener is told, and when, against what the broker knows of the membership at that moment."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import kafka
import pytest

import kafka_assignors_aiokafka
import kafka_assignors_kafka_python
from compat_tests.scenarios.in_process import polling_until
from compat_tests.scripted.broker import Held, broker_in_thread
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import (
    TOPIC,
    AioListener,
    KafkaPythonListener,
    User,
    each_client,
    settings_of,
)
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.rebalance import lease
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

UNKNOWN_MEMBER_ID = 25
SESSION_TIMEOUT_S = 3.0

PEER_LEADS = {"peer_leads": True}
FIRST, SECOND = (TOPIC, 0), (TOPIC, 1)

Tell = Callable[[str, Any], None]


def revoke(group: Group, *staying: int) -> None:
    group.assigned = [(TOPIC, number) for number in staying]
    group.begin_rebalance()


@each_client(of_group=PEER_LEADS, enable_auto_commit=True, auto_commit_interval_ms=int(HANG_S * 1000))
async def test_a_membership_lost_during_the_automatic_commit_makes_the_revocation_a_loss(
    user: User, group: Group
) -> None:
    released = asyncio.Event()
    group.answer("OffsetCommit", Held(released), when=lambda _: group.assigned is not None)
    since = len(group.requests)
    revoke(group, 0, 1)
    await group.until(lambda: group.sent("SyncGroup", since=since))
    await group.until(lambda: group.sent("OffsetCommit", since=since))
    group.assigned = None
    group.remove_member()
    released.set()
    await group.until(lambda: user.listened.count("assigned") == 2)
    await user.close()
    assert user.told == [
        ("assigned", [0, 1, 2, 3]),
        ("lost", [0, 1, 2, 3]),
        ("assigned", [0, 1, 2, 3]),
        ("revoked", [0, 1, 2, 3]),
    ]
    assert user.wrongly_told == []


@each_client(of_group=PEER_LEADS, consumes=0)
async def test_with_a_list_that_is_eager_altogether_everything_is_revoked_before_each_join(
    user: User, group: Group, client: str
) -> None:
    eager = kafka_assignors_aiokafka if client == "aiokafka" else kafka_assignors_kafka_python
    user.settings["partition_assignment_strategy"] = [eager.RangeAssignor()]
    await user.start()
    assert await user.consumes(4)
    user.held = {"revoked"}
    since = len(group.requests)
    group.begin_rebalance()
    await user.entered.wait()
    assert group.sent("JoinGroup", since=since) == []
    user.released.set()
    await group.until(lambda: user.listened.count("assigned") == 2)
    await user.close()
    assert [what for what, _ in user.told] == ["assigned", "revoked", "assigned", "revoked"]
    assert {tuple(numbers) for _, numbers in user.told} == {(0, 1, 2, 3)}
    assert user.wrongly_told == []


@each_client(of_group=PEER_LEADS)
async def test_a_call_that_has_begun_ends_and_the_rest_is_lost(user: User, group: Group) -> None:
    user.held = {"revoked"}
    since = len(group.requests)
    revoke(group, 0, 1)
    await user.entered.wait()
    group.assigned = None
    group.remove_member()
    await group.until(
        lambda: any(one.error_code == UNKNOWN_MEMBER_ID for one in group.sent("Heartbeat", since=since))
    )
    user.held = set()
    user.released.set()
    await group.until(lambda: user.listened.count("assigned") == 2)
    await user.close()
    assert user.told[1:3] == [("revoked", [2, 3]), ("lost", [0, 1])]
    assert user.wrongly_told == []


@each_client(of_group=PEER_LEADS, consumes=0)
async def test_partitions_that_are_lost_while_they_are_warmed_are_not_announced(
    user: User, group: Group, client: str
) -> None:
    warming = asyncio.Event()

    class AioWarming(AioListener):
        async def on_partitions_warming(self, _: object) -> None:
            warming.set()
            await asyncio.Event().wait()

    class KafkaPythonWarming(KafkaPythonListener):
        def on_partitions_warming(self, _: object, cancelled: threading.Event) -> None:
            group.loop.call_soon_threadsafe(warming.set)
            cancelled.wait(HANG_S)

    user.listener_of = AioWarming if client == "aiokafka" else KafkaPythonWarming
    group.assigned, group.to_warm = [SECOND], [(FIRST,)]
    await user.start()
    await warming.wait()
    group.assigned, group.to_warm = [FIRST, SECOND], []
    group.begin_rebalance()
    while len(user.client.consumer._coordinator.member.owned) < 2:
        await asyncio.sleep(0.01)
    group.remove_member()
    await group.until(lambda: user.told[-1] == ("assigned", [0, 1]))
    assert user.told == [("assigned", [1]), ("lost", [1]), ("assigned", [0, 1])]


@each_client("aiokafka", of_group=PEER_LEADS, consumes=0)
async def test_a_cancelled_error_of_the_call_for_a_cancelled_warm_up_is_not_that_of_the_member(
    user: User, group: Group
) -> None:
    warming, cancelled = asyncio.Event(), asyncio.Event()

    class Warming(AioListener):
        async def on_partitions_warming(self, _: object) -> None:
            warming.set()
            await asyncio.Event().wait()

        def on_warming_cancelled(self, _: object) -> None:
            cancelled.set()
            raise asyncio.CancelledError  # As the result of a cancelled task of the listener does.

    user.listener_of, group.assigned, group.to_warm = Warming, [], [(FIRST,)]
    await user.start()
    for happened, assigned in ((warming, []), (cancelled, [FIRST])):
        await happened.wait()
        group.assigned, group.to_warm = assigned, []
        group.begin_rebalance()
    await group.until(lambda: user.told == [("assigned", [0])])


async def warms_in_time(user: User, group: Group, client: str) -> tuple[threading.Event, list[str]]:
    """The user warms a partition, which is assigned next: what ends the warm-up, and the calls."""
    may_end, calls = threading.Event(), []

    def note(call: str) -> None:
        calls.append(call)
        group.assigned, group.to_warm = [FIRST], []
        group.loop.call_soon_threadsafe(group.changed)

    class Cancelled:
        def on_warming_cancelled(self, _: object) -> None:
            note("cancelled")

    class AioWarming(Cancelled, AioListener):
        async def on_partitions_warming(self, _: object) -> None:
            note("warming")
            await asyncio.to_thread(may_end.wait, HANG_S)

    class KafkaPythonWarming(Cancelled, KafkaPythonListener):
        def on_partitions_warming(self, *_: object) -> None:
            note("warming")
            may_end.wait(HANG_S)

    listener = (AioWarming if client == "aiokafka" else KafkaPythonWarming)(lambda *_: None)
    user.listener_of, group.assigned, group.to_warm = lambda _: listener, [], [(FIRST,)]
    await user.start()
    await group.until(lambda: calls)
    return may_end, calls


@each_client("kafka-python", of_group=PEER_LEADS, consumes=0)
async def test_the_listener_hears_of_what_it_has_warmed_and_loses_before_a_poll_announces_it(
    user: User, group: Group, client: str
) -> None:
    may_end, calls = await warms_in_time(user, group, client)
    user.polls.clear()
    await user.call("paused")  # When the last poll has ended.
    may_end.set()
    while not user.client.consumer._coordinator.member.owned:
        await asyncio.sleep(0.01)
    assert calls == ["warming"]
    group.remove_member()
    await group.until(lambda: calls == ["warming", "cancelled"])


@each_client(of_group={**PEER_LEADS, "topics": {TOPIC: 4, "other": 1}}, consumes=0)
async def test_the_listener_hears_of_what_it_has_warmed_for_an_older_subscription(
    user: User, group: Group, client: str
) -> None:
    may_end, calls = await warms_in_time(user, group, client)
    released = asyncio.Event()
    group.answer("SyncGroup", Held(released))
    may_end.set()
    await group.until(lambda: any(isinstance(one.scripted, Held) for one in group.requests))
    user.subscribes = {"topics": ["other"]}
    assert await user.call("subscribe") == "ok"
    assert calls == ["warming"]
    released.set()
    await group.until(lambda: calls == ["warming", "cancelled"])


# ---- frozen processes


class FrozenAiokafka:
    """A consumer whose event loop runs only while it is polled."""

    def __init__(self, tell: Tell, **settings: Any) -> None:
        async def told(what: str, partitions: Any) -> None:
            tell(what, partitions)

        async def start() -> Any:
            consumer = CooperativeAIOKafkaConsumer(**settings)
            consumer.subscribe([TOPIC], listener=AioListener(told))
            await consumer.start()
            return consumer

        self._loop = asyncio.new_event_loop()
        self._consumer = self._loop.run_until_complete(start())

    def poll(self, timeout_ms: int) -> None:
        self._loop.run_until_complete(self._consumer.getmany(timeout_ms=timeout_ms))

    def frozen(self, sleep: Callable[[], None]) -> None:
        sleep()

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


class FrozenKafkaPython:
    def __init__(self, tell: Tell, **settings: Any) -> None:
        self._consumer = CooperativeKafkaConsumer(**settings)
        self._consumer.subscribe([TOPIC], listener=KafkaPythonListener(tell))

    def poll(self, timeout_ms: int) -> None:
        self._consumer.poll(timeout_ms=timeout_ms)

    def frozen(self, sleep: Callable[[], None]) -> None:
        self._consumer._coordinator.on_io_thread(sleep)  # The user's thread waits for it.

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "still a member"])
@pytest.mark.parametrize("kind", [FrozenAiokafka, FrozenKafkaPython])
def test_a_process_that_wakes_after_its_lease_asks_before_it_tells_the_listener(
    kind: Any, removed: bool
) -> None:
    """The answer to SyncGroup takes partitions away, and arrives while the process is frozen."""
    told: list[tuple[str, int, bool]] = []

    def tell(what: str, partitions: Any) -> None:
        if partitions:
            told.append((what, len(partitions), bool(group.member_id)))

    def sleep() -> None:
        group.loop.call_soon_threadsafe(released.set)
        group.wait_until(lambda: group.sent("SyncGroup", since=since)[0].answered)
        if removed:
            group.remove_member()
        time.sleep(1.5 * SESSION_TIMEOUT_S)

    with broker_in_thread() as broker:
        group = broker.group("frozen", {TOPIC: 4}, peer_leads=True)
        with closing(
            kind(tell, **settings_of(broker, group, session_timeout_ms=int(SESSION_TIMEOUT_S * 1000)))
        ) as consumer:
            polling_until(lambda: told, consumer)
            released, since = asyncio.Event(), len(group.requests)
            group.answer("SyncGroup", Held(released))
            revoke(group, 0, 1)
            polling_until(lambda: group.sent("SyncGroup", since=since), consumer)
            consumer.frozen(sleep)
            polling_until(lambda: len(told) > 1, consumer)
        last = ("lost", 4, False) if removed else ("revoked", 2, True)
        assert told[:2] == [("assigned", 4, True), last]
        assert broker.unexpected == []


@pytest.mark.parametrize("readings", range(4))
@each_client(of_group=PEER_LEADS)
async def test_a_lease_that_ends_after_any_reading_of_the_clock_only_delays_a_revocation(
    user: User, group: Group, readings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, left, began_at = user.client.consumer._coordinator, [readings], lease.clock()

    def clock() -> float:
        if (call := coordinator.member.call) is not None and call.is_revocation and not call.is_running:
            left[0] -= 1
        return began_at + (2 * coordinator.member.settings.session_timeout if left[0] < 0 else 0)

    monkeypatch.setattr(lease, "clock", clock)
    revoke(group, 0, 1)
    await group.until(lambda: "revoked" in user.listened)
    assert await user.consumes(4)
    assert user.told[:2] == [("assigned", [0, 1, 2, 3]), ("revoked", [2, 3])]
    assert user.raised == []


# ---- commits around a revocation


@pytest.mark.parametrize("ends", ["revoked", "closed"])
@each_client(of_group=PEER_LEADS, consumes=40, enable_auto_commit=True, auto_commit_interval_ms=20)
async def test_no_automatic_commit_overwrites_what_the_listener_commits(
    user: User, group: Group, client: str, ends: str
) -> None:
    """What was consumed is beyond the offset that the listener commits."""
    user.commit_when = user.held_after = {"revoked"}
    since = len(group.requests)
    if ends == "revoked":
        revoke(group, 0, 1)
    else:
        user.polls.clear()
        closing = asyncio.ensure_future(user.call("stop" if client == "aiokafka" else "close"))
    await user.entered.wait()
    # The timer of automatic commits is due many times meanwhile.
    await group.until(lambda: len(group.sent("Heartbeat", since=since)) >= 5)
    joined = len(group.sent("JoinGroup"))
    user.released.set()
    if ends == "revoked":
        await group.until(lambda: len(group.sent("JoinGroup")) > joined)
    else:
        assert await closing == "ok"
    user.commit_when = user.held_after = set()
    gone = (2, 3) if ends == "revoked" else range(4)
    assert {group.committed[TOPIC, number] for number in gone} == {5}
    assert user.commits == ["ok"]


@pytest.mark.parametrize("method", ["close", "unsubscribe", "poll"])
@each_client(
    "kafka-python", of_group=PEER_LEADS, consumes=0, enable_auto_commit=True, auto_commit_interval_ms=1
)
async def test_nothing_that_kafka_pythons_listener_calls_overwrites_what_it_has_committed(
    user: User, group: Group, method: str
) -> None:
    revoked: list[Any] = []

    def told(what: str, partitions: Any) -> None:
        if what != "revoked":
            return
        revoked.append(partitions)
        if len(revoked) == 1:
            consumer.commit({tp: kafka.OffsetAndMetadata(1, "", -1) for tp in partitions})
            for _ in range(1 if method == "close" else 3):
                getattr(consumer, method)()

    def run() -> None:
        consumer.subscribe([TOPIC], listener=KafkaPythonListener(told))
        consumer.poll(timeout_ms=20)
        while not consumer.assignment() or any(consumer.position(tp) < 2 for tp in consumer.assignment()):
            consumer.poll(timeout_ms=20)
        revoke(group, 0, 1)
        while not revoked:
            consumer.poll(timeout_ms=20)
        consumer.close()

    consumer = await user.client.constructed()
    await asyncio.to_thread(run)
    assert {group.committed[TOPIC, number] for number in (2, 3)} == {1}


@each_client(of_group=PEER_LEADS)
async def test_a_listener_that_commits_without_offsets_commits_what_is_being_revoked(
    user: User, group: Group, client: str
) -> None:
    commit = user.client.consumer.commit
    user.held = {"revoked"}
    revoke(group, 0, 1)
    await user.entered.wait()
    since = len(group.requests)
    calling = asyncio.ensure_future(commit() if client == "aiokafka" else asyncio.to_thread(commit))
    await group.until(lambda: group.sent("OffsetCommit", since=since))
    (request, *_) = group.sent("OffsetCommit", since=since)
    committed = {one.partition_index for topic in request.body.topics for one in topic.partitions}
    assert committed >= {2, 3}
    await calling
    user.held = set()
    user.released.set()


# ---- a listener that stops its consumer


@each_client("aiokafka", of_group=PEER_LEADS, consumes=0)
async def test_a_task_that_outlives_the_call_that_started_it_waits_until_the_consumer_has_stopped(
    user: User, group: Group
) -> None:
    consumer, go_on = user.client.consumer, asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def stop_later() -> None:
        await go_on.wait()
        await consumer.stop()
        assert group.sent("LeaveGroup")
        assert not group.has_member

    async def told(what: str, partitions: Any) -> None:
        if what == "assigned":
            tasks.append(asyncio.create_task(stop_later()))
            return
        go_on.set()  # Another call is running.
        since = len(group.requests)
        await group.until(lambda: len(group.sent("Heartbeat", since=since)) >= 3)

    consumer.subscribe([TOPIC], listener=AioListener(told))
    await consumer.start()
    revoke(group, 0, 1)
    await go_on.wait()
    await tasks[0]
