"""What a listener is told, and when, against what the broker knows of the membership at that moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from typing import Any

import aiokafka
import kafka
import pytest

from compat_tests.scripted.broker import Held, Request, ScriptedBroker, broker_in_thread
from compat_tests.scripted.model import Group
from compat_tests.scripted.test_leader_epochs import poll_until
from compat_tests.scripted.users import CLIENTS, TOPIC, User
from compat_tests.support.hang_limit import HANG_S, SOON_S, hang_limit
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, RangeAssignor
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_kafka_python import RangeAssignor as RangeAssignorOfKafkaPython

UNKNOWN_MEMBER_ID = 25
SESSION_TIMEOUT_S = 3.0

Act = Callable[[User, Group], Awaitable[None]]


def play(client: str, act: Act, **settings: Any) -> User:
    """Have a user who owns four partitions, and act."""

    async def scene() -> User:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("listening", {TOPIC: 4}, peer_leads=True)
            user = User(broker, group, client, **settings)
            await user.start()
            await group.until(lambda: "assigned" in user.listened)
            assert await user.consumes()
            await act(user, group)
            await user.close()
            assert broker.unexpected == []
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


def test_a_user_who_does_not_poll_until_the_membership_is_lost_is_told_of_a_loss() -> None:
    """Only kafka-python's user can keep a call of the listener waiting."""

    async def act(user: User, group: Group) -> None:
        user.polls.clear()
        await user.call("assignment")  # The poll under way has returned.
        since = len(group.requests)
        revoke(group, 0, 1)
        await group.until(lambda: [one for one in group.sent("SyncGroup", since=since) if one.answered])
        group.assigned = None
        group.remove_member()
        refused = lambda: any(  # noqa: E731
            one.error_code == UNKNOWN_MEMBER_ID and one.answered
            for one in group.sent("Heartbeat", since=since)
        )
        await group.until(refused)
        coordinator = user.client._consumer._coordinator  # type: ignore[attr-defined]
        while coordinator.member.in_group:
            await asyncio.sleep(0.01)
        user.polls.set()
        await group.until(lambda: user.listened.count("assigned") == 2)

    user = play("kafka-python", act)
    assert [what for what, _ in user.told] == ["assigned", "lost", "assigned", "revoked"]
    assert user.told[1] == ("lost", [0, 1, 2, 3])
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


def settings_of(broker: ScriptedBroker, group: Group, **settings: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap,
        "group_id": group.id,
        "client_id": group.id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": int(SESSION_TIMEOUT_S * 1000),
        "heartbeat_interval_ms": 100,
        "retry_backoff_ms": 50,
        **settings,
    }


class Freeze:
    """The answer to SyncGroup takes partitions away, and arrives while the process is frozen."""

    def __init__(self, broker: ScriptedBroker, group: Group, *, removed: bool) -> None:
        self.group = group
        self._loop = broker._loop
        self._is_removed = removed
        self._released = asyncio.Event()
        self.told: list[tuple[str, int, bool]] = []

    def begin(self) -> None:
        """Rebalance, and return when SyncGroup was sent."""
        self.group.answer("SyncGroup", Held(self._released))
        self._since = len(self.group.requests)
        revoke(self.group, 0, 1)

    def has_begun(self) -> bool:
        return bool(self.group.sent("SyncGroup", since=self._since))

    def sleep(self) -> None:
        """Sleep for longer than a session, in the thread that is frozen."""
        self._loop.call_soon_threadsafe(self._released.set)
        self.group.wait_until(lambda: self.group.sent("SyncGroup", since=self._since)[0].answered)
        if self._is_removed:
            self.group.remove_member()
        time.sleep(1.5 * SESSION_TIMEOUT_S)

    def tell(self, what: str, partitions: Any) -> None:
        if partitions:
            self.told.append((what, len(partitions), bool(self.group.member_id)))

    @property
    def expected(self) -> list[tuple[str, int, bool]]:
        last = ("lost", 4, False) if self._is_removed else ("revoked", 2, True)
        return [("assigned", 4, True), last]


async def frozen_aiokafka(freeze: Freeze, **settings: Any) -> None:
    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
        async def on_partitions_assigned(self, assigned: Any) -> None:
            freeze.tell("assigned", assigned)

        async def on_partitions_revoked(self, revoked: Any) -> None:
            freeze.tell("revoked", revoked)

        async def on_partitions_lost(self, lost: Any) -> None:
            freeze.tell("lost", lost)

    consumer = CooperativeAIOKafkaConsumer(**settings)
    consumer.subscribe([TOPIC], listener=Listener())
    await consumer.start()
    async with hang_limit():
        freeze.begin()
        while not freeze.has_begun():
            await consumer.getmany(timeout_ms=20)
        freeze.sleep()  # The event loop is blocked, and with it the consumer.
        while len(freeze.told) < 2:
            await consumer.getmany(timeout_ms=20)
        await consumer.stop()


def frozen_kafka_python(freeze: Freeze, **settings: Any) -> None:
    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
        def on_partitions_assigned(self, assigned: Any) -> None:
            freeze.tell("assigned", assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            freeze.tell("revoked", revoked)

        def on_partitions_lost(self, lost: Any) -> None:
            freeze.tell("lost", lost)

    consumer = CooperativeKafkaConsumer(**settings)
    consumer.subscribe([TOPIC], listener=Listener())
    deadline = time.monotonic() + HANG_S
    while not freeze.told:
        consumer.poll(timeout_ms=20)
        assert time.monotonic() < deadline
    freeze.begin()
    while not freeze.has_begun():
        consumer.poll(timeout_ms=20)
        assert time.monotonic() < deadline
    consumer._coordinator.on_io_thread(freeze.sleep)  # The user's thread waits for it.
    while len(freeze.told) < 2:
        consumer.poll(timeout_ms=20)
        assert time.monotonic() < deadline
    consumer.close()


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "still a member"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_process_that_wakes_after_its_lease_asks_before_it_tells_the_listener(
    client: str, removed: bool
) -> None:
    with broker_in_thread() as broker:
        group = broker.group("frozen", {TOPIC: 4}, peer_leads=True)
        freeze = Freeze(broker, group, removed=removed)
        if client == "aiokafka":
            asyncio.run(frozen_aiokafka(freeze, **settings_of(broker, group)))
        else:
            frozen_kafka_python(freeze, **settings_of(broker, group))
        assert freeze.told[:2] == freeze.expected
        assert broker.unexpected == []


# ---- commits around a revocation


def committed_by(request: Request) -> dict[int, int]:
    return {
        one.partition_index: one.committed_offset for topic in request.body.topics for one in topic.partitions
    }


async def aiokafka_commits(broker: ScriptedBroker, group: Group, ends: str) -> list[dict[int, int]]:
    """The commits from the listener's own on, until it returns."""
    commits: list[dict[int, int]] = []

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
        async def on_partitions_assigned(self, assigned: Any) -> None:
            pass

        async def on_partitions_revoked(self, revoked: Any) -> None:
            if commits:
                return
            since = len(group.requests)
            await consumer.commit(dict.fromkeys(revoked, 1))
            # With a heartbeat every 100 ms, the timer of automatic commits (20 ms) is due many times.
            await group.until(lambda: len(group.sent("Heartbeat", since=since)) >= 8)
            commits.extend(map(committed_by, group.sent("OffsetCommit", since=since)))

    settings = settings_of(broker, group, enable_auto_commit=True, auto_commit_interval_ms=20)
    consumer = CooperativeAIOKafkaConsumer(**{**settings, "session_timeout_ms": 45_000})
    consumer.subscribe([TOPIC], listener=Listener())
    await consumer.start()
    while any([await consumer.position(tp) < 2 for tp in consumer.assignment()]):
        await consumer.getmany(timeout_ms=20)
    if ends == "revoked":
        revoke(group, 0, 1)
        while not commits:
            await consumer.getmany(timeout_ms=20)
    await consumer.stop()
    return commits


@pytest.mark.parametrize("ends", ["revoked", "stopped"])
def test_no_automatic_commit_overwrites_what_the_listener_commits(ends: str) -> None:
    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("commits", {TOPIC: 4}, peer_leads=True)
            commits = await aiokafka_commits(broker, group, ends)
            gone = {2, 3} if ends == "revoked" else {0, 1, 2, 3}
            for number in gone:
                offsets = [commit[number] for commit in commits if number in commit]
                assert offsets[offsets.index(1) :] == [1]  # An earlier one may still have been under way.
            stay = [commit for commit in commits if commit.keys() - gone]
            assert bool(stay) is (ends == "revoked")

    asyncio.run(scene())


@pytest.mark.parametrize("method", ["close", "unsubscribe", "poll"])
def test_nothing_that_kafka_pythons_listener_calls_overwrites_what_it_has_committed(method: str) -> None:
    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("commits", {TOPIC: 4}, peer_leads=True)
            settings = settings_of(broker, group, enable_auto_commit=True, auto_commit_interval_ms=1)
            await asyncio.to_thread(run, group, {**settings, "session_timeout_ms": 45_000})
            assert {group.committed[TOPIC, number] for number in (2, 3)} == {1}

    def run(group: Group, settings: dict[str, Any]) -> None:
        told: list[Any] = []

        class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
            def on_partitions_assigned(self, assigned: Any) -> None:
                pass

            def on_partitions_revoked(self, revoked: Any) -> None:
                told.append(revoked)
                if len(told) == 1:
                    consumer.commit({tp: kafka.OffsetAndMetadata(1, "", -1) for tp in revoked})
                    for _ in range(3):
                        getattr(consumer, method)()
                        if method == "close":
                            break

        consumer: Any = CooperativeKafkaConsumer(**settings)
        consumer.subscribe([TOPIC], listener=Listener())
        consumer.poll(timeout_ms=20)
        while not consumer.assignment() or any(consumer.position(tp) < 2 for tp in consumer.assignment()):
            consumer.poll(timeout_ms=20)
        revoke(group, 0, 1)
        while not told:
            consumer.poll(timeout_ms=20)
        consumer.close()

    asyncio.run(scene())


def test_the_poll_that_calls_kafka_pythons_listener_raises_its_error() -> None:
    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("raising", {TOPIC: 4}, peer_leads=True)
            await asyncio.to_thread(run, settings_of(broker, group))

    def run(settings: dict[str, Any]) -> None:
        told: list[Any] = []

        class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
            def on_partitions_assigned(self, assigned: Any) -> None:
                told.append(assigned)
                raise ValueError("a fault of the listener")

            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

        with closing(CooperativeKafkaConsumer(**settings)) as consumer:
            consumer.subscribe([TOPIC], listener=Listener())
            with pytest.raises(kafka.errors.KafkaError, match="a fault of the listener"):
                poll_until(consumer, lambda _: told)

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


async def in_a_task(stop: Coroutine[Any, Any, None]) -> None:
    await asyncio.create_task(stop)


async def gathered(stop: Coroutine[Any, Any, None]) -> None:
    await asyncio.gather(stop)


async def in_time(stop: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait_for(asyncio.create_task(stop), HANG_S)


@pytest.mark.parametrize("wait", [in_a_task, gathered, in_time])
def test_a_listener_may_wait_for_a_task_that_stops_its_consumer(wait: Any) -> None:
    """`stop` waits for the listener, for at most `max_poll_interval_ms`, and the listener for the task."""

    async def scene() -> None:
        async with ScriptedBroker() as broker, hang_limit(SOON_S):
            group = broker.group("stopping", {TOPIC: 4})
            told = []

            class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # no types
                async def on_partitions_assigned(self, assigned: Any) -> None:
                    await wait(consumer.stop())
                    told.append("assigned")

                async def on_partitions_revoked(self, revoked: Any) -> None:
                    told.append("revoked")

            settings = settings_of(broker, group, max_poll_interval_ms=int(10 * HANG_S * 1000))
            consumer = CooperativeAIOKafkaConsumer(**{**settings, "session_timeout_ms": 45_000})
            await consumer.start()
            consumer.subscribe([TOPIC], listener=Listener())
            await group.until(lambda: group.sent("LeaveGroup"))
            await consumer.stop()
            assert told == ["assigned", "revoked"]

    asyncio.run(scene())


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

            class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # no types
                async def on_partitions_assigned(self, assigned: Any) -> None:
                    tasks.append(asyncio.create_task(stop_later()))

                async def on_partitions_revoked(self, revoked: Any) -> None:
                    go_on.set()  # Another call is running.
                    since = len(group.requests)
                    await group.until(lambda: len(group.sent("Heartbeat", since=since)) >= 3)

            consumer = CooperativeAIOKafkaConsumer(
                **{**settings_of(broker, group), "session_timeout_ms": 45_000}
            )
            consumer.subscribe([TOPIC], listener=Listener())
            await consumer.start()
            revoke(group, 0, 1)
            await go_on.wait()
            await tasks[0]

    asyncio.run(scene())
