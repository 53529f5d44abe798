"""What observers of both consumers are told, and on which thread; when, is in `tests/test_observers.py`."""

from __future__ import annotations

import asyncio
import collections
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from compat_tests.scripted.broker import Code
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import TOPIC, User, each_client
from kafka_assignors.rebalance.observer import HOOKS, RebalanceObserver, RebalanceOutcome

NOT_AUTHORIZED = 30

OF_WARM_UPS = {"warming", "warmed"}
"""What the listeners of these tests do not have."""


def observing(tell: Callable[[str, Mapping[str, Any]], None]) -> RebalanceObserver:
    """An observer that passes every event to `tell`."""

    def hook(name: str) -> Callable[..., None]:
        return lambda _, **facts: tell(name, facts)

    kind = type("Observing", (RebalanceObserver,), {name: hook(name) for name in HOOKS})
    observer: RebalanceObserver = kind()
    return observer


async def live(user: User, group: Group, observer: RebalanceObserver) -> None:
    """The consumer, with this observer, goes through every event without an error."""
    user.settings["observer"] = observer
    await user.start()
    assert await user.consumes(20)
    assert await user.call("commit", {user.partition(TOPIC, 0): 5}) == "ok"
    since = len(group.requests)
    group.begin_rebalance()
    await group.until(lambda: group.sent("SyncGroup", since=since))
    group.remove_member()
    await group.until(lambda: "lost" in user.listened)
    assert await user.consumes(20)
    group.answer("OffsetCommit", Code(NOT_AUTHORIZED))
    refused = await user.call("commit", {user.partition(TOPIC, 0): 6})
    assert refused == "GroupAuthorizationFailedError"
    await user.close()
    assert user.raised == []
    assert user.listened == ["assigned", "lost", "assigned", "revoked"]
    assert user.client.leftovers() == ""


@each_client(consumes=0)
async def test_what_is_told_of_joins_commits_and_heartbeats(user: User, group: Group) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    await live(user, group, observing(lambda name, facts: told.append((name, {**facts}))))

    def of(name: str, fact: str) -> list[Any]:
        return [facts[fact] for other, facts in told if other == name]

    outcomes = RebalanceOutcome
    joins = [outcomes.MEMBER_ID_GIVEN, outcomes.ASSIGNED]
    assert of("rebalance_ended", "outcome") == [*joins, outcomes.ASSIGNED, *joins]
    assert of("rebalance_ended", "generation") == [-1, 1, 2, -1, 4]
    assert of("rebalance_begun", "reason")[:3] == [
        "the subscription has changed",
        "the coordinator gave a member id",
        "the group is rebalancing",
    ]
    assert of("joined", "generation") == of("synced", "generation") == [1, 2, 4]
    assert of("joined", "leads") == [True] * 3
    assert (of("decided", "strategy"), of("decided", "moved")) == (["cooperative-sticky"] * 3, [0] * 3)
    everything = {(TOPIC, number) for number in range(4)}
    assert of("assigned", "partitions") == [everything, frozenset(), everything]
    assert of("lost", "partitions") == of("revoked", "partitions") == [everything]
    assert of("commit_answered", "ok") == [True, False]
    assert {*of("heartbeat_answered", "ok")} == {True, False}
    assert all((facts.get("seconds") or 0.0) >= 0.0 for _, facts in told)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, SystemExit])
@each_client(consumes=0)
async def test_an_observer_that_raises_at_every_event_changes_nothing_and_is_logged_once(
    user: User, group: Group, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    raised: collections.Counter[str] = collections.Counter()

    def failures() -> list[str]:
        return [record.getMessage() for record in caplog.records if "observer" in record.getMessage()]

    def fail(name: str, facts: object) -> None:
        # A heartbeat that was sent before the close may have its answer after it, when all are counted.
        if len(failures()) < 2:
            raised[name] += 1
        raise error(name)

    await live(user, group, observing(fail))
    assert raised.keys() >= {*HOOKS} - OF_WARM_UPS
    first, counted = failures()
    assert "later failures are counted" in first
    assert counted.startswith("group 'group': ")
    assert int(counted.split()[2]) >= sum(raised.values())


@each_client(consumes=0)
async def test_observers_are_called_on_the_threads_that_their_class_names(
    user: User, group: Group, client: str
) -> None:
    threads: dict[str, set[str]] = collections.defaultdict(set)
    await live(user, group, observing(lambda name, _: threads[name].add(threading.current_thread().name)))
    of_user = {"assigned", "revoked", "lost"}
    of_io = {*HOOKS} - of_user - OF_WARM_UPS
    if client == "aiokafka":
        assert {name for hook in of_user | of_io for name in threads[hook]} == {threading.main_thread().name}
    else:
        (io_thread,) = {name for hook in of_io for name in threads[hook]}
        assert {io_thread}.isdisjoint(name for hook in of_user for name in threads[hook])
