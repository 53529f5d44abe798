"""What a listener is told, and when, against what the broker knows of the membership at that moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import kafka
import pytest

from compat_tests.scripted.broker import Held, Request, ScriptedBroker, broker_in_thread
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import (
    CLIENTS,
    TOPIC,
    AioListener,
    KafkaPythonListener,
    User,
    consuming,
    settings_of,
)
from compat_tests.support.hang_limit import HANG_S, hang_limit
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, RangeAssignor
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_kafka_python import RangeAssignor as RangeAssignorOfKafkaPython

UNKNOWN_MEMBER_ID = 25
SESSION_TIMEOUT_S = 3.0

Act = Callable[[User, Group], Awaitable[None]]
Tell = Callable[[str, Any], None]


def play(client: str, act: Act, **settings: Any) -> User:
    """Have a user who owns four partitions, and act."""

    async def scene() -> User:
        async with consuming(client, of_group={"peer_leads": True}, **settings) as (user, group):
            await act(user, group)
        return user

    return asyncio.run(scene())


def revoke(group: Group, *staying: int) -> None:
    group.assigned = [(TOPIC, number) for number in staying]
    group.begin_rebalance()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_membership_lost_during_the_automatic_commit_makes_the_revocation_a_loss(client: str) -> None:
    async def act(user: User, group: Group) -> None:
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

    user = play(client, act, enable_auto_commit=True, auto_commit_interval_ms=int(HANG_S * 1000))
    assert user.told == [
        ("assigned", [0, 1, 2, 3]),
        ("lost", [0, 1, 2, 3]),
        ("assigned", [0, 1, 2, 3]),
        ("revoked", [0, 1, 2, 3]),
    ]
    assert user.wrongly_told == []


@pytest.mark.parametrize("client", CLIENTS)
def test_with_a_list_that_is_eager_altogether_everything_is_revoked_before_each_join(client: str) -> None:
    async def act(user: User, group: Group) -> None:
        user.held = {"revoked"}
        since = len(group.requests)
        group.begin_rebalance()
        await user.entered.wait()
        assert group.sent("JoinGroup", since=since) == []
        user.released.set()
        await group.until(lambda: user.listened.count("assigned") == 2)

    eager = RangeAssignor() if client == "aiokafka" else RangeAssignorOfKafkaPython()
    user = play(client, act, partition_assignment_strategy=[eager])
    assert [what for what, _ in user.told] == ["assigned", "revoked", "assigned", "revoked"]
    assert {tuple(numbers) for _, numbers in user.told} == {(0, 1, 2, 3)}
    assert user.wrongly_told == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_that_has_begun_ends_and_the_rest_is_lost(client: str) -> None:
    async def act(user: User, group: Group) -> None:
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

    user = play(client, act)
    assert user.told[1:3] == [("revoked", [2, 3]), ("lost", [0, 1])]
    assert user.wrongly_told == []


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

    def poll(self) -> None:
        self._loop.run_until_complete(self._consumer.getmany(timeout_ms=20))

    def frozen(self, sleep: Callable[[], None]) -> None:
        sleep()

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


class FrozenKafkaPython:
    def __init__(self, tell: Tell, **settings: Any) -> None:
        self._consumer = CooperativeKafkaConsumer(**settings)
        self._consumer.subscribe([TOPIC], listener=KafkaPythonListener(tell))

    def poll(self) -> None:
        self._consumer.poll(timeout_ms=20)

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

    def poll_until(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + HANG_S
        while not condition():
            consumer.poll()
            assert time.monotonic() < deadline

    with broker_in_thread() as broker:
        group = broker.group("frozen", {TOPIC: 4}, peer_leads=True)
        with closing(
            kind(tell, **settings_of(broker, group, session_timeout_ms=int(SESSION_TIMEOUT_S * 1000)))
        ) as consumer:
            poll_until(lambda: told)
            released, since = asyncio.Event(), len(group.requests)
            group.answer("SyncGroup", Held(released))
            revoke(group, 0, 1)
            poll_until(lambda: group.sent("SyncGroup", since=since))
            consumer.frozen(sleep)
            poll_until(lambda: len(told) > 1)
        last = ("lost", 4, False) if removed else ("revoked", 2, True)
        assert told[:2] == [("assigned", 4, True), last]
        assert broker.unexpected == []


# ---- commits around a revocation


def committed_by(request: Request) -> dict[int, int]:
    return {
        one.partition_index: one.committed_offset for topic in request.body.topics for one in topic.partitions
    }


@pytest.mark.parametrize("ends", ["revoked", "closed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_no_automatic_commit_overwrites_what_the_listener_commits(client: str, ends: str) -> None:
    async def act(user: User, group: Group) -> None:
        assert await user.consumes(40)  # Beyond the offset that the listener commits.
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

    play(client, act, enable_auto_commit=True, auto_commit_interval_ms=20)


@pytest.mark.parametrize("method", ["close", "unsubscribe", "poll"])
def test_nothing_that_kafka_pythons_listener_calls_overwrites_what_it_has_committed(method: str) -> None:
    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("commits", {TOPIC: 4}, peer_leads=True)
            settings = settings_of(broker, group, enable_auto_commit=True, auto_commit_interval_ms=1)
            await asyncio.to_thread(run, group, settings)
            assert {group.committed[TOPIC, number] for number in (2, 3)} == {1}

    def run(group: Group, settings: dict[str, Any]) -> None:
        revoked: list[Any] = []

        def told(what: str, partitions: Any) -> None:
            if what != "revoked":
                return
            revoked.append(partitions)
            if len(revoked) == 1:
                consumer.commit({tp: kafka.OffsetAndMetadata(1, "", -1) for tp in partitions})
                for _ in range(1 if method == "close" else 3):
                    getattr(consumer, method)()

        consumer: Any = CooperativeKafkaConsumer(**settings)
        consumer.subscribe([TOPIC], listener=KafkaPythonListener(told))
        consumer.poll(timeout_ms=20)
        while not consumer.assignment() or any(consumer.position(tp) < 2 for tp in consumer.assignment()):
            consumer.poll(timeout_ms=20)
        revoke(group, 0, 1)
        while not revoked:
            consumer.poll(timeout_ms=20)
        consumer.close()

    asyncio.run(scene())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_listener_that_commits_without_offsets_commits_what_is_being_revoked(client: str) -> None:
    async def act(user: User, group: Group) -> None:
        commit = user.client._consumer.commit  # type: ignore[attr-defined]
        user.held = {"revoked"}
        revoke(group, 0, 1)
        await user.entered.wait()
        since = len(group.requests)
        calling = asyncio.ensure_future(commit() if client == "aiokafka" else asyncio.to_thread(commit))
        await group.until(lambda: group.sent("OffsetCommit", since=since))
        assert committed_by(group.sent("OffsetCommit", since=since)[0]).keys() >= {2, 3}
        await calling
        user.held = set()
        user.released.set()

    play(client, act)


# ---- a listener that stops its consumer


def test_a_task_that_outlives_the_call_that_started_it_waits_until_the_consumer_has_stopped() -> None:
    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("stopping", {TOPIC: 4}, peer_leads=True)
            tasks: list[asyncio.Task[None]] = []
            go_on = asyncio.Event()

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

            consumer = CooperativeAIOKafkaConsumer(**settings_of(broker, group))
            consumer.subscribe([TOPIC], listener=AioListener(told))
            await consumer.start()
            revoke(group, 0, 1)
            await go_on.wait()
            await tasks[0]

    asyncio.run(scene())
