"""A leader of either client checks the weights between rebalances, with a scripted coordinator.

The other member of the group is scripted too. The leader therefore assigns to both, and only the leader acts.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

import kafka_assignors_aiokafka
import kafka_assignors_kafka_python
from compat_tests.scripted.broker import Code, ScriptedBroker
from compat_tests.scripted.model import REBALANCE_IN_PROGRESS, Group
from compat_tests.scripted.test_observers import observing
from compat_tests.scripted.users import CLIENTS, TOPIC, User
from compat_tests.support.hang_limit import HANG_S, hang_limit
from kafka_assignors.load_trigger import LoadTrigger
from kafka_assignors.rebalance import lease
from kafka_assignors.rebalance.load_watch import REASON
from kafka_assignors.wire import Subscription, encode_subscription

each_client = pytest.mark.parametrize("client", CLIENTS)

PARTITIONS = 4
PACKAGES: Mapping[str, Any] = {
    "aiokafka": kafka_assignors_aiokafka,
    "kafka-python": kafka_assignors_kafka_python,
}
QUICK = LoadTrigger(check_every_s=0.1, held_s=0.1, cool_down_s=0.0, rebalances_an_hour=3600, undo_after_s=0.0)
"""Acts when two checks in a row agree and a second has passed since the last action."""


class Source:
    """Weights that the test controls.

    Attributes:
        weigh: called for each request for weights.
        asked: the number of requests for weights.
        at_once: the maximum number of concurrent requests.
    """

    def __init__(self, changed: Callable[[], Any]) -> None:
        self.weights: list[Any] = [1] * PARTITIONS
        self.weigh: Callable[[], Any] = self.give
        self.asked = self.at_once = 0
        self.hanging = threading.Event()
        self.released = threading.Event()
        self._under_way = 0
        self._lock = threading.Lock()
        self._changed = changed

    def __call__(self, topics: Mapping[str, int]) -> Any:
        with self._lock:
            self.asked += 1
            self._under_way += 1
            self.at_once = max(self.at_once, self._under_way)
        self._changed()
        try:
            return self.weigh()
        finally:
            with self._lock:
                self._under_way -= 1

    def give(self) -> Any:
        return {TOPIC: list(self.weights)}

    def hang(self) -> Any:
        self.hanging.set()
        self._changed()
        assert self.released.wait(2 * HANG_S)
        return self.give()


class Scene:
    """A consumer that leads a group of two."""

    def __init__(self, user: User, group: Group, source: Source, told: list[Mapping[str, Any]]) -> None:
        self.user, self.group, self.source, self.told = user, group, source, told
        self.is_closed = False

    async def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            await self.user.close()

    @property
    def joins(self) -> int:
        return len(self.group.sent("JoinGroup"))

    def own(self) -> list[int]:
        """The partitions of the consumer."""
        return sorted(number for _, number in self.group.assigned or ())

    async def until(self, condition: Callable[[], Any]) -> None:
        await self.group.until(condition)

    async def judged(self, times: int = 1) -> None:
        """Wait for this many more load checks."""
        enough = len(self.told) + times
        await self.until(lambda: len(self.told) >= enough)

    def burden(self) -> None:
        """Make the consumer's partitions heavy, and all others light."""
        self.source.weights = [50 if number in self.own() else 1 for number in range(PARTITIONS)]


@asynccontextmanager
async def scene(
    client: str, trigger: LoadTrigger = QUICK, *, eager: bool = False, **of_user: Any
) -> AsyncIterator[Scene]:
    """A consumer of the client; `eager`: it uses the eager protocol, because one of its assignors does."""
    async with ScriptedBroker() as broker:
        peer = encode_subscription(Subscription(0, (TOPIC,)))
        group = broker.group("watched", {TOPIC: PARTITIONS}, others={"peer-1": peer})
        loop = asyncio.get_running_loop()
        told: list[Mapping[str, Any]] = []

        def changed() -> None:
            loop.call_soon_threadsafe(group.changed)

        def tell(name: str, facts: Mapping[str, Any]) -> None:
            if name == "load_judged":
                told.append(facts)
                changed()

        source = Source(changed)
        assignor = PACKAGES[client].WeightedAssignor(source, weights_timeout_s=HANG_S, rebalance=trigger)
        user = User(
            broker,
            group,
            client,
            partition_assignment_strategy=[assignor, *([PACKAGES[client].RangeAssignor()] if eager else [])],
            observer=observing(tell),
            **of_user,
        )
        made = Scene(user, group, source, told)
        async with hang_limit():
            try:
                await user.start()
                await made.until(lambda: len(made.own()) == PARTITIONS // 2)
                yield made
            finally:
                source.released.set()
                await made.close()
        assert broker.unexpected == []
        assert source.at_once == 1


def lines(caplog: pytest.LogCaptureFixture, text: str, level: int = logging.INFO) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= level and text in r.getMessage()]


def asked_for(caplog: pytest.LogCaptureFixture) -> list[str]:
    return lines(caplog, "asks for a rebalance: ")


@each_client
def test_a_leader_acts_once_when_the_weights_have_shifted(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with scene(client) as made:
            await made.judged(3)
            assert not any(facts["acts"] for facts in made.told)
            own, joins = made.own(), made.joins
            made.burden()
            # Partitions are revoked before they move, so the requested join is the first of two.
            await made.until(lambda: made.joins > joins)
            await made.until(lambda: len(made.own()) == PARTITIONS // 2 and made.own() != own)
            acting = [facts for facts in made.told if facts["acts"]]
            assert [(facts["strategy"], facts["greatest"]) for facts in acting] == [("weighted", 100)]
            assert f"joining: {REASON}" in " ".join(caplog.messages)
            await made.judged()  # The rebalance has ended: the leader does not check the load during one.
            settled = made.joins
            await made.judged(20)
            assert made.joins == settled
            assert await made.user.consumes()

    asyncio.run(run())
    assert len(asked_for(caplog)) == 1


@each_client
def test_an_eager_consumer_acts_if_its_trigger_is_eager(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with scene(client, replace(QUICK, eager=True), eager=True) as made:
            await made.judged()
            own, joins = made.own(), made.joins
            made.burden()
            await made.until(lambda: made.joins > joins)
            await made.until(lambda: len(set(made.own()) & set(own)) == 1)  # One of two heavy partitions.
            await made.judged(20)
            assert made.joins == joins + 1

    asyncio.run(run())
    assert len(asked_for(caplog)) == 1


TROUBLES: Mapping[str, Callable[[Source], Any]] = {
    "raises": lambda source: 1 / 0,
    "exits": lambda source: exec("raise SystemExit(3)"),
    "NaN": lambda source: {TOPIC: [float("nan"), 50, 1, 1]},
    "negative": lambda source: {TOPIC: [-50, 50, 1, 1]},
    "half": lambda source: {TOPIC: [50, 1]},
    "no mapping": lambda source: [50, 50, 1, 1],
}


@each_client
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_source_in_trouble_is_logged_once_and_disturbs_nothing(
    client: str, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with scene(client) as made:
            await made.judged()
            joins = made.joins
            made.source.weigh = lambda: TROUBLES[trouble](made.source)
            asked = made.source.asked
            await made.until(lambda: made.source.asked >= asked + 10)
            assert await made.user.consumes()
            assert made.joins == joins
            assert len(lines(caplog, "no rebalance because of the load", logging.WARNING)) == 1
            # The load watch goes on after the errors.
            made.burden()
            made.source.weigh = made.source.give
            await made.until(lambda: made.joins > joins)

    asyncio.run(run())
    assert len(lines(caplog, "weights", logging.WARNING)) == 1
    assert len(asked_for(caplog)) == 1


@each_client
@pytest.mark.parametrize("weights", [[0] * PARTITIONS, [None] * PARTITIONS], ids=["zeros", "unknown"])
def test_weights_that_say_nothing_move_nothing(
    client: str, weights: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with scene(client) as made:
            made.source.weights = weights
            joins = made.joins
            await made.judged(20)
            assert made.joins == joins

    asyncio.run(run())
    assert asked_for(caplog) == []


@each_client
def test_a_source_that_hangs_is_asked_once_and_the_consumer_stops_without_it(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        # The leader waits for at most a third of the session, which is long over when the source answers.
        async with scene(client, session_timeout_ms=15_000) as made:
            await made.judged()
            joins = made.joins
            made.source.weigh = made.source.hang
            await made.until(made.source.hanging.is_set)
            asked = made.source.asked
            await made.until(lambda: lines(caplog, "it did not answer within 5 s", logging.WARNING))
            since = len(made.group.requests)
            await made.until(lambda: len(made.group.sent("Heartbeat", since=since)) >= 15)
            assert await made.user.consumes()
            assert (made.source.asked, made.joins) == (asked, joins)
            await made.close()
            assert not made.source.released.is_set()
            assert made.user.client.leftovers() == ""

    asyncio.run(run())
    assert len(lines(caplog, "weights", logging.WARNING)) == 1


@each_client
def test_a_consumer_stops_while_a_question_is_under_way(client: str) -> None:
    async def run() -> None:
        async with scene(client) as made:
            await made.judged()
            made.source.weigh = made.source.hang
            await made.until(made.source.hanging.is_set)
            await made.close()  # Long before the leader stops waiting for the source.
            assert not made.source.released.is_set()
            assert made.user.client.leftovers() == ""

    asyncio.run(run())


@each_client
def test_a_join_that_comes_during_a_question_waits_for_it_and_asks_afresh(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        # A source may take up to a third of the session.
        async with scene(client, session_timeout_ms=300_000, request_timeout_ms=305_000) as made:
            await made.judged()
            own, joins = made.own(), made.joins
            made.source.weigh = made.source.hang
            await made.until(made.source.hanging.is_set)
            made.source.weigh = made.source.give
            made.group.begin_rebalance()
            await made.until(lambda: made.joins > joins)
            since = len(made.group.requests)
            await made.until(lambda: len(made.group.sent("Heartbeat", since=since)) >= 5)
            assert made.group.syncing
            # The pending answer still has even weights; the join must not use it.
            made.burden()
            made.source.released.set()
            await made.until(lambda: len(made.own()) == PARTITIONS // 2 and made.own() != own)
            assert not any(facts["acts"] for facts in made.told)

    asyncio.run(run())
    assert lines(caplog, "no weights from", logging.WARNING) == []


@each_client
def test_an_answer_that_comes_when_another_member_leads_is_dropped(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with scene(client, replace(QUICK, held_s=0.0)) as made:
            await made.judged(15)  # After these checks, the leader may act.
            made.source.weigh = made.source.hang
            await made.until(made.source.hanging.is_set)
            made.burden()
            asked = made.source.asked
            made.group.peer_leads = True
            made.group.begin_rebalance()
            joins = made.joins
            await made.until(lambda: made.joins > joins and made.group.syncing is False)
            made.source.released.set()
            since = len(made.group.requests)
            await made.until(lambda: len(made.group.sent("Heartbeat", since=since)) >= 5)
            assert (made.joins, made.source.asked) == (joins + 1, asked)
            # The consumer leads again. The join has balanced the weights, so no further rebalance follows.
            made.group.peer_leads = False
            made.group.begin_rebalance()
            made.source.weigh = made.source.give
            await made.until(lambda: made.source.asked > asked + 20)

    asyncio.run(run())
    assert asked_for(caplog) == []


@each_client
def test_a_rebalance_that_the_group_has_begun_is_not_asked_for_again(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every SyncGroup gets REBALANCE_IN_PROGRESS, so no generation settles."""
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with scene(client) as made:
            await made.judged()
            made.group.answer("SyncGroup", Code(REBALANCE_IN_PROGRESS), times=float("inf"))
            made.group.begin_rebalance()
            joins = made.joins
            # Until a heartbeat tells the leader of the rebalance, it checks the load.
            await made.until(lambda: made.joins > joins)
            made.burden()
            judged = len(made.told)
            await made.until(lambda: made.joins > joins + 10)
            assert len(made.told) == judged

    asyncio.run(run())
    assert asked_for(caplog) == []


@each_client
def test_a_clock_that_jumps_makes_nothing_older_than_it_is(
    client: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The computer sleeps for an hour. The lease has expired, so the member joins with new weights."""
    caplog.set_level(logging.INFO)
    real, ahead_s = lease.clock, [0.0]
    monkeypatch.setattr(lease, "clock", lambda: real() + ahead_s[0])

    async def run() -> None:
        async with scene(client, replace(QUICK, held_s=600.0)) as made:
            await made.judged()
            own, joins = made.own(), made.joins
            made.burden()
            await made.judged(3)
            ahead_s[0] = 3600.0
            await made.until(lambda: made.joins > joins)
            await made.until(lambda: len(made.own()) == PARTITIONS // 2 and made.own() != own)
            await made.judged()
            settled = made.joins
            await made.judged(10)
            assert made.joins == settled

    asyncio.run(run())
    assert asked_for(caplog) == []


@each_client
def test_without_a_trigger_there_is_no_watch(client: str) -> None:
    async def run() -> None:
        async with ScriptedBroker() as broker:
            group = broker.group("plain", {TOPIC: PARTITIONS})
            source = Source(lambda: None)
            assignor = PACKAGES[client].WeightedAssignor(source)
            user = User(broker, group, client, partition_assignment_strategy=[assignor])
            async with hang_limit():
                await user.start()
                assert await user.consumes()
                consumer: Any = user.client
                assert consumer._consumer._coordinator._session._watch is None
                await user.close()
        assert source.asked == 1

    asyncio.run(run())
