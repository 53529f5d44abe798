"""The events that observers of both consumers receive, with a scripted coordinator."""

from __future__ import annotations

import asyncio
import collections
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from compat_tests.scripted.broker import Code, Held, ScriptedBroker
from compat_tests.scripted.model import ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, Group
from compat_tests.scripted.users import CLIENTS, TOPIC, User
from compat_tests.support.hang_limit import hang_limit
from kafka_assignors.rebalance.observer import HOOKS, RebalanceObserver, RebalanceOutcome
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

NOT_AUTHORIZED = 30

each_client = pytest.mark.parametrize("client", CLIENTS)

OF_WARM_UPS = {"warming", "warmed"}
"""What the listeners of these tests do not have."""


def observing(tell: Callable[[str, Mapping[str, Any]], None]) -> RebalanceObserver:
    """An observer that passes every event to `tell`."""

    def hook(name: str) -> Callable[..., None]:
        return lambda _, **facts: tell(name, facts)

    kind = type("Observing", (RebalanceObserver,), {name: hook(name) for name in HOOKS})
    observer: RebalanceObserver = kind()
    return observer


class Scene:
    """One consumer with an observer, and the observer's events.

    Attributes:
        told: the events, in order, as (name, facts).
    """

    def __init__(self, user: User, group: Group, told: list[tuple[str, Mapping[str, Any]]]) -> None:
        self.user, self.group, self.told = user, group, told

    def of(self, name: str) -> list[Mapping[str, Any]]:
        return [facts for told, facts in list(self.told) if told == name]

    def counts(self) -> Mapping[str, int]:
        """The number of each event, except heartbeats, whose number depends on time."""
        counts = collections.Counter(name for name, _ in list(self.told))
        del counts["heartbeat_answered"]
        return counts

    async def until_told(self, name: str, times: int = 1) -> None:
        """Wait until this event occurred `times` times."""
        await self.group.until(lambda: len(self.of(name)) >= times)

    async def rebalance(self) -> None:
        """Make another member join, and wait until the group has assigned again."""
        ended = len(self.of("rebalance_ended"))
        self.group.begin_rebalance()
        await self.until_told("rebalance_ended", ended + 1)


@asynccontextmanager
async def scene(client: str, *, started: bool = True, **of_group: Any) -> AsyncIterator[Scene]:
    """A consumer of the client, which has joined if it is `started`; the broker must have no failure."""
    told: list[tuple[str, Mapping[str, Any]]] = []
    async with ScriptedBroker() as broker:
        group = broker.group("observed", {TOPIC: 4}, **of_group)
        loop = asyncio.get_running_loop()

        def tell(name: str, facts: Mapping[str, Any]) -> None:
            told.append((name, facts))
            loop.call_soon_threadsafe(group.changed)

        user = User(broker, group, client, observer=observing(tell))
        made = Scene(user, group, told)
        async with hang_limit():
            try:
                if started:
                    await user.start()
                    await made.until_told("assigned")
                yield made
            finally:
                await user.close()
        assert broker.unexpected == []
        for name, facts in told:
            assert (facts.get("seconds") or 0.0) >= 0.0, name


@each_client
def test_a_first_join_that_leads(client: str) -> None:
    async def run() -> None:
        async with scene(client) as made:
            await made.until_told("decided")
            assert made.counts() == {
                "rebalance_begun": 2,
                "rebalance_ended": 2,
                "joined": 1,
                "synced": 1,
                "assigned": 1,
                "decided": 1,
            }
            required, accepted = made.of("rebalance_ended")
            assert (required["outcome"], required["generation"]) == (RebalanceOutcome.MEMBER_ID_GIVEN, -1)
            assert (accepted["outcome"], accepted["generation"]) == (RebalanceOutcome.ASSIGNED, 1)
            assert accepted["seconds"] >= required["seconds"]
            assert [facts["reason"] for facts in made.of("rebalance_begun")] == [
                "the subscription has changed",
                "the coordinator gave a member id",
            ]
            (joined,), (assigned,), (decided,) = map(made.of, ("joined", "assigned", "decided"))
            assert (joined["generation"], joined["leads"]) == (1, True)
            assert assigned["partitions"] == {(TOPIC, number) for number in range(4)}
            assert assigned["seconds"] is not None
            del decided["seconds"]  # type: ignore[attr-defined]
            assert decided == {"strategy": "cooperative-sticky", "moved": 0, "withheld": 0, "held": 0}
            assert [name for name, _ in made.told if name in ("joined", "synced", "rebalance_ended")] == [
                "rebalance_ended",
                "joined",
                "synced",
                "rebalance_ended",
            ]

    asyncio.run(run())


@each_client
def test_a_follower_decides_nothing(client: str) -> None:
    async def run() -> None:
        async with scene(client, peer_leads=True) as made:
            assert [facts["leads"] for facts in made.of("joined")] == [False]
            assert made.of("decided") == []

    asyncio.run(run())


@each_client
def test_partitions_that_go_are_revoked_and_take_a_second_rebalance(client: str) -> None:
    async def run() -> None:
        async with scene(client, peer_leads=True) as made:
            made.group.assigned = [(TOPIC, 0), (TOPIC, 1)]
            made.group.begin_rebalance()
            await made.until_told("assigned", 3)
            (revoked,) = made.of("revoked")
            assert revoked["partitions"] == {(TOPIC, 2), (TOPIC, 3)}
            assert [sorted(facts["partitions"]) for facts in made.of("assigned")[1:]] == [[], []]
            assert [facts["reason"] for facts in made.of("rebalance_begun")[2:]] == [
                "the group is rebalancing",
                "partitions were revoked",
            ]
            assert [facts["generation"] for facts in made.of("rebalance_ended")] == [-1, 1, 2, 3]

    asyncio.run(run())


@each_client
@pytest.mark.parametrize("code", [ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID])
def test_partitions_of_a_member_that_the_coordinator_does_not_know_are_lost(client: str, code: int) -> None:
    async def run() -> None:
        async with scene(client, peer_leads=True) as made:
            made.group.remove_member()
            made.group.answer("Heartbeat", Code(code))
            await made.until_told("lost")
            assert [len(facts["partitions"]) for facts in made.of("lost")] == [4]
            assert made.of("revoked") == []
            assert False in [facts["ok"] for facts in made.of("heartbeat_answered")]

    asyncio.run(run())


@each_client
def test_a_rebalance_whose_join_or_sync_is_refused_has_failed(client: str) -> None:
    async def run() -> None:
        async with scene(client, peer_leads=True) as made:
            made.group.answer("JoinGroup", Code(REBALANCE_IN_PROGRESS))
            made.group.answer("SyncGroup", Code(REBALANCE_IN_PROGRESS))
            made.group.begin_rebalance()
            await made.until_told("rebalance_ended", 5)
            ended = made.of("rebalance_ended")[2:]
            assert [(facts["outcome"], facts["generation"]) for facts in ended] == [
                (RebalanceOutcome.FAILED, -1),
                (RebalanceOutcome.FAILED, 2),
                (RebalanceOutcome.ASSIGNED, 3),
            ]
            assert [facts["seconds"] for facts in ended] == sorted(facts["seconds"] for facts in ended)
            assert (len(made.of("joined")), len(made.of("synced"))) == (3, 2)

    asyncio.run(run())


@each_client
def test_heartbeats_and_commits_count_their_responses(client: str) -> None:
    async def run() -> None:
        async with scene(client) as made:
            await made.until_told("heartbeat_answered", 2)
            partition = made.user.partition(TOPIC, 0)
            assert await made.user.call("commit", {partition: 5}) == "ok"
            made.group.answer("OffsetCommit", Code(NOT_AUTHORIZED))
            assert await made.user.call("commit", {partition: 6}) == "GroupAuthorizationFailedError"
            assert [facts["ok"] for facts in made.of("commit_answered")] == [True, False]
            answered = [one for one in made.group.sent("Heartbeat") if one.error_code is not None]
            assert len(made.of("heartbeat_answered")) <= len(answered)

    asyncio.run(run())


@each_client
def test_a_consumer_that_is_closed_during_a_rebalance_has_ended_it(client: str) -> None:
    async def run() -> None:
        async with scene(client, peer_leads=True) as made:
            made.group.answer("JoinGroup", Held(asyncio.Event()))
            made.group.begin_rebalance()
            await made.until_told("rebalance_begun", 3)
        assert [facts["outcome"] for facts in made.of("rebalance_ended")] == [
            RebalanceOutcome.MEMBER_ID_GIVEN,
            RebalanceOutcome.ASSIGNED,
            RebalanceOutcome.FAILED,
        ]
        (revoked,) = made.of("revoked")
        assert len(revoked["partitions"]) == 4
        assert len(made.of("rebalance_begun")) == len(made.of("rebalance_ended"))

    asyncio.run(run())


# ---- observers with faults


def consumed_and_rebalanced(client: str, observer: RebalanceObserver) -> None:
    """A consumer with this observer goes through every event without an error."""

    async def run() -> None:
        async with ScriptedBroker() as broker:
            group = broker.group("observed", {TOPIC: 4})
            user = User(broker, group, client, observer=observer)
            async with hang_limit():
                try:
                    await user.start()
                    assert await user.consumes(20)
                    assert await user.call("commit", {user.partition(TOPIC, 0): 5}) == "ok"
                    since = len(group.requests)
                    group.begin_rebalance()
                    await group.until(lambda: group.sent("SyncGroup", since=since))
                    group.remove_member()
                    await group.until(lambda: "lost" in user.listened)
                    assert await user.consumes(20)
                    assert await user.call("commit", {user.partition(TOPIC, 0): 6}) == "ok"
                finally:
                    await user.close()
            assert user.raised == []
            assert user.listened == ["assigned", "lost", "assigned", "revoked"]
            assert user.client.leftovers() == ""
            assert broker.unexpected == []

    asyncio.run(run())


@each_client
@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, SystemExit])
def test_an_observer_that_raises_at_every_event_changes_nothing_and_is_logged_once(
    client: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    raised: collections.Counter[str] = collections.Counter()

    def fail(name: str, facts: object) -> None:
        raised[name] += 1
        raise error(name)

    consumed_and_rebalanced(client, observing(fail))
    assert raised.keys() >= {*HOOKS} - OF_WARM_UPS
    failures = [record.getMessage() for record in caplog.records if "observer" in record.getMessage()]
    assert len(failures) == 2
    assert "later failures are counted" in failures[0]
    assert failures[1].startswith("group 'observed': ")
    assert int(failures[1].split()[2]) >= sum(raised.values())


@each_client
def test_an_observer_that_is_slow_delays_and_breaks_nothing(client: str) -> None:
    calls = []

    def wait(name: str, facts: object) -> None:
        calls.append(name)
        time.sleep(0.1)

    consumed_and_rebalanced(client, observing(wait))
    assert {*calls} >= {*HOOKS} - OF_WARM_UPS


@each_client
def test_durations_do_not_follow_a_clock_on_the_wall_that_jumps(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with scene(client) as made:
            wall, jumps = time.time, iter((86_400.0, -86_400.0) * 1000)
            monkeypatch.setattr(time, "time", lambda: wall() + next(jumps, 0.0))
            for _ in range(2):
                await made.rebalance()
            await made.until_told("heartbeat_answered", 3)
            assert max(facts.get("seconds") or 0.0 for _, facts in list(made.told)) < 3600.0

    asyncio.run(run())


@each_client
def test_observers_are_called_on_the_threads_that_their_class_names(client: str) -> None:
    threads: dict[str, set[str]] = collections.defaultdict(set)
    consumed_and_rebalanced(
        client, observing(lambda name, _: threads[name].add(threading.current_thread().name))
    )
    of_user = {"assigned", "revoked", "lost"}
    of_io = {*HOOKS} - of_user - OF_WARM_UPS
    if client == "aiokafka":
        assert {name for hook in of_user | of_io for name in threads[hook]} == {threading.main_thread().name}
    else:
        (io_thread,) = {name for hook in of_io for name in threads[hook]}
        assert {io_thread}.isdisjoint(name for hook in of_user for name in threads[hook])


@pytest.mark.parametrize("kind", [CooperativeAIOKafkaConsumer, CooperativeKafkaConsumer])
@pytest.mark.parametrize("wrong", [print, "prometheus", RebalanceObserver])
def test_what_is_no_observer_is_refused_before_anything_is_connected(kind: Any, wrong: object) -> None:
    with pytest.raises(TypeError, match="observer must be"):
        kind(TOPIC, group_id="observed", bootstrap_servers="127.0.0.1:1", observer=wrong)
