"""The warm-ups of a member, with a client whose calls end when a test says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.rebalance import warm_ups
from kafka_assignors.rebalance.events import Announce, Partitions, RejoinRequested
from kafka_assignors.rebalance.observer import Observers, RebalanceObserver, WarmUpOutcome
from kafka_assignors.rebalance.warm_ups import WarmUps
from kafka_assignors.wire.warm_sections import Unit, WarmList
from tests.rebalance_driver import Wakeup, scene, settled

NOTHING: Partitions = frozenset()


def unit(number: int) -> Unit:
    return (("t", number),)


class Call:
    def __init__(self, told: list[Partitions]) -> None:
        self.told = told
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.was_cancelled = False

    @property
    def is_running(self) -> bool:
        return not self.over.done()

    def cancel(self) -> None:
        self.was_cancelled = True
        if not self.over.done():
            self.over.set_result(None)

    async def ended(self, timeout_s: float) -> bool:
        await asyncio.wait([self.over], timeout=timeout_s)
        if self.over.done():
            self.over.result()
        return self.over.done()

    async def tell_cancelled(self, partitions: Partitions, timeout_s: float) -> None:
        self.told.append(partitions)


def in_a_group(*, static: bool = False, joins: bool = False, **changed: Any) -> Any:
    """What warm-ups read of the machine; the member owns nothing."""
    facts = {"closing": False, "in_group": True, "topics": frozenset({"t"}), "owned": NOTHING, **changed}
    facts = {"coming": facts["owned"], "call": None, **facts}
    join = SimpleNamespace(is_under_way=joins)
    return SimpleNamespace(settings=SimpleNamespace(static=static), join=join, **facts)


class Client(RebalanceObserver):
    """A client, which is its own observer."""

    warms = True

    def __init__(self, member: Any = None) -> None:
        self.member = member or in_a_group()
        self.calls: dict[Unit, Call] = {}
        self.fails: set[Unit] = set()
        self.joins = 0
        self.outcomes: list[tuple[Partitions, WarmUpOutcome]] = []
        self.told: list[Partitions] = []

    def wakeup(self) -> Wakeup:
        return Wakeup()

    def spawn(self, task: Coroutine[Any, Any, None]) -> object:
        return asyncio.ensure_future(task)

    def handle(self, event: object) -> None:
        assert isinstance(event, RejoinRequested)
        self.joins += 1

    def warm_up(self, partitions: Partitions) -> Call:
        (one,) = partitions
        call = self.calls[(one,)] = Call(self.told)
        if (one,) in self.fails:
            call.over.set_exception(RuntimeError("no disk"))
        return call

    def warmed(self, *, partitions: Partitions, outcome: WarmUpOutcome, **_: Any) -> None:
        self.outcomes.append((partitions, outcome))


def member_of(client: Any, timeout_s: float = 60.0, *, cooperative: bool = True) -> WarmUps:
    log = logging.getLogger("tests")
    made = WarmUps(
        client,
        Observers([client], "g", log),
        group_id="g",
        cooperative=cooperative,
        max_warming=2,
        warm_timeout_s=timeout_s,
        log=log,
    )
    made.announced(frozenset({"t"}))
    return made


def listed(warm: WarmUps, *numbers: int, generation: int = 1) -> None:
    warm.assigned(generation, WarmList(7, tuple(map(unit, numbers))), NOTHING)


async def warming(*numbers: int) -> tuple[Client, WarmUps]:
    """A client whose member has a list of these partitions, and has begun with the first two."""
    client = Client()
    warm = member_of(client)
    listed(warm, *numbers)
    await settled()
    return client, warm


@scene
async def test_the_member_joins_again_when_everything_is_ready() -> None:
    client, _ = await warming(0, 1, 2)
    assert list(client.calls) == [unit(0), unit(1)]
    for number in (0, 1, 2):
        client.calls[unit(number)].over.set_result(None)
        await settled()
    assert client.joins == 1
    assert [outcome for _, outcome in client.outcomes] == [WarmUpOutcome.READY] * 3


@scene
async def test_what_is_ready_is_reported_soon_although_something_is_still_warming(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_ups, "COALESCE_S", 0.2)
    client, warm = await warming(0, 1)
    client.calls[unit(0)].over.set_result(None)
    await settled()
    assert client.joins == 0
    while not client.joins:
        await asyncio.sleep(0.01)
    warmth = warm.announced(frozenset({"t"}))
    assert warmth is not None
    assert (warmth.ready, warmth.warming) == ({"t": [0]}, {"t": [1]})


@scene
async def test_calls_that_ignore_their_cancellation_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Call, "cancel", lambda self: None)
    client = Client()
    warm = member_of(client, timeout_s=0.01)
    listed(warm, 0, 1, 2)
    while len(client.outcomes) < 3:
        await asyncio.sleep(0.01)
    assert client.calls.keys() == {unit(0), unit(1)}
    assert client.outcomes[2] == (frozenset(unit(2)), WarmUpOutcome.FAILED)
    client.calls[unit(0)].over.set_result(None)
    listed(warm, 3, generation=2)
    await settled()
    assert unit(3) in client.calls


@scene
async def test_failure_and_timeout_count_as_ready_and_are_told_apart() -> None:
    client = Client()
    client.fails = {unit(0)}
    warm = member_of(client, timeout_s=0.01)
    listed(warm, 0, 1)
    while not client.joins:
        await asyncio.sleep(0.01)
    assert client.outcomes == [
        (frozenset(unit(0)), WarmUpOutcome.FAILED),
        (frozenset(unit(1)), WarmUpOutcome.TIMED_OUT),
    ]
    assert client.calls[unit(1)].was_cancelled


@scene
async def test_what_is_not_listed_any_more_is_cancelled_and_the_listener_is_told() -> None:
    client, warm = await warming(0, 1)
    listed(warm, 1, generation=2)
    await settled()
    assert client.calls[unit(0)].was_cancelled
    assert client.told == [frozenset(unit(0))]
    assert client.outcomes == [(frozenset(unit(0)), WarmUpOutcome.CANCELLED)]
    assert not client.calls[unit(1)].was_cancelled


@scene
async def test_the_listener_is_told_that_what_it_has_warmed_does_not_come() -> None:
    client, warm = await warming(0, 1, 2)
    client.calls[unit(0)].over.set_result(None)
    client.calls[unit(1)].over.set_result(None)
    await settled()
    client.member = in_a_group(owned=frozenset(unit(1)))
    warm.assigned(2, WarmList(7, (unit(2),)), frozenset(unit(1)))
    assert warm.is_warming(frozenset(unit(0)))
    await settled()
    assert client.told == [frozenset(unit(0))]
    assert not warm.is_warming(frozenset(unit(0)))
    announcing = SimpleNamespace(is_running=True, asked=Announce(frozenset(unit(1))))
    client.member = in_a_group(owned=frozenset(unit(1)), call=announcing)
    warm.look()
    client.member = in_a_group(in_group=False)
    warm.look()
    await settled()
    assert client.told == [frozenset(unit(0)), frozenset(unit(2))]


@pytest.mark.parametrize("was_running", [False, True])
@pytest.mark.parametrize("is_installed", [False, True])
@scene
async def test_the_listener_is_told_of_what_was_assigned_and_never_announced(
    is_installed: bool, was_running: bool
) -> None:
    client, warm = await warming(0)
    if not was_running:
        client.calls[unit(0)].over.set_result(None)
        await settled()
    if is_installed:
        client.member = in_a_group(owned=frozenset(unit(0)))
    warm.assigned(2, WarmList(7), frozenset(unit(0)))  # Without the install: for an older subscription.
    await settled()
    assert client.told == ([] if is_installed else [frozenset(unit(0))])
    client.member = in_a_group(owned=frozenset(unit(0)), in_group=False)
    warm.look()
    warm.look()
    await settled()
    assert client.told == [frozenset(unit(0))]
    assert client.calls[unit(0)].was_cancelled or not was_running
    assert not warm.is_warming(frozenset(unit(0)))


@scene
async def test_what_is_cancelled_before_its_call_begins_is_not_called() -> None:
    client = Client()
    warm = member_of(client)
    listed(warm, 0)
    warm.listener_is(object())
    await settled()
    assert not client.calls
    listed(warm, 0, generation=2)
    await settled()
    assert [*client.calls] == [unit(0)]


@scene
async def test_what_is_assigned_while_it_warms_is_cancelled_by_a_close_and_told_once() -> None:
    client, warm = await warming(0)
    warm.assigned(2, WarmList(7), frozenset(unit(0)))
    client.member = in_a_group(in_group=False, closing=True)
    warm.look()
    assert client.calls[unit(0)].was_cancelled
    client.calls[unit(0)].was_cancelled = False
    warm.look()
    assert not client.calls[unit(0)].was_cancelled
    await settled()
    assert client.told == [frozenset(unit(0))]


@pytest.mark.parametrize("change", ["closing", "topics"])
@scene
async def test_a_list_that_comes_after_the_end_began_is_not_warmed(change: str) -> None:
    gone: Any = {"closing": True, "topics": frozenset()}[change]
    client = Client(in_a_group(**{change: gone}))
    listed(member_of(client), 0)
    await settled()
    assert not client.calls


@scene
async def test_a_list_for_a_listener_that_cannot_warm_any_more_makes_the_member_join_again() -> None:
    client = Client()
    warm = member_of(client)
    client.warms = False
    listed(warm, 0, 1)
    await settled()
    assert not client.calls
    assert client.joins == 1
    warm.announced(frozenset({"t"}))
    listed(warm, 0, 1, generation=2)
    assert client.joins == 1


@scene
async def test_another_listener_gets_a_list_of_its_own() -> None:
    client = Client()
    warm = member_of(client)
    first = object()
    warm.listener_is(first)
    listed(warm, 0)
    await settled()
    warm.listener_is(first)
    await settled()
    assert not client.calls[unit(0)].was_cancelled
    assert client.joins == 0
    warm.listener_is(object())
    await settled()
    assert client.calls[unit(0)].was_cancelled
    assert client.joins == 1


@pytest.mark.parametrize("change", ["closing", "in_group", "topics"])
@scene
async def test_a_close_a_loss_and_the_end_of_a_subscription_cancel(change: str) -> None:
    client, warm = await warming(0)
    warm.look()
    assert not client.calls[unit(0)].was_cancelled
    gone: Any = {"closing": True, "in_group": False, "topics": frozenset()}[change]
    client.member = in_a_group(**{change: gone})
    warm.look()
    assert client.calls[unit(0)].was_cancelled


@scene
async def test_a_report_is_made_once_although_the_owner_still_revokes_what_is_ready() -> None:
    before = asyncio.all_tasks()
    client, warm = await warming(0)
    client.calls[unit(0)].over.set_result(None)
    await settled()
    for generation in (2, 3):
        warm.announced(frozenset({"t"}))
        listed(warm, 0, generation=generation)  # It is withheld, so it is listed still.
        await settled()
    assert client.joins == 1
    assert asyncio.all_tasks() == before  # Nothing joins again later.


@pytest.mark.parametrize("is_needed", [False, True])
@scene
async def test_what_becomes_ready_during_a_join_is_reported_if_it_is_listed_then(
    is_needed: bool,
) -> None:
    client, warm = await warming(0)
    client.member = in_a_group(joins=True)
    client.calls[unit(0)].over.set_result(None)
    await settled()
    assert client.joins == 0
    client.member = in_a_group()
    listed(warm, *[0] * is_needed, generation=2)
    await settled()
    assert client.joins == is_needed


@scene
async def test_assigned_partitions_wait_for_the_end_of_their_warm_up() -> None:
    client, warm = await warming(0)
    partitions = frozenset(unit(0))
    client.member = in_a_group(owned=partitions)
    warm.assigned(2, WarmList(7), partitions)
    over = asyncio.ensure_future(warm.over(partitions))
    await settled()
    assert warm.is_warming(partitions)
    assert not over.done()
    client.calls[unit(0)].over.set_result(None)
    await over
    assert not client.calls[unit(0)].was_cancelled


@scene
async def test_a_warm_up_runs_before_its_task_has_taken_its_first_step() -> None:
    warm = member_of(Client())
    listed(warm, 0)
    assert warm.is_warming(frozenset(unit(0)))
    assert not warm.is_warming(frozenset(unit(1)))
    warm.listener_is(object())  # Nothing was called: it ends without a call.
    await warm.over(frozenset(unit(0)))


@scene
async def test_a_drain_ends_when_nothing_is_owned_or_with_its_timeout() -> None:
    client = Client(in_a_group(owned=frozenset(unit(0))))
    warm = member_of(client)
    draining = [asyncio.ensure_future(warm.drain(None)) for _ in range(2)]
    assert await warm.drain(0.01) is False
    await settled()
    assert not any(call.done() for call in draining)  # The timeout is that of one call.
    warmth = warm.announced(frozenset({"t"}))
    assert warmth is not None
    assert warmth.draining
    client.member = in_a_group()
    warm.look()
    assert await asyncio.gather(*draining) == [True, True]


@scene
async def test_a_drain_waits_for_the_partitions_of_a_join_whose_leader_does_not_know_of_it() -> None:
    client = Client(in_a_group(joins=True))
    warm = member_of(client)
    draining = asyncio.ensure_future(warm.drain(None))
    await settled()
    for member in (in_a_group(owned=frozenset(unit(0))), in_a_group()):
        assert not draining.done()
        client.member = member
        warm.look()
        await settled()
    assert draining.result() is True


@scene
async def test_a_drain_that_such_a_join_outlasts_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    assert await member_of(Client(in_a_group(joins=True))).drain(0.01) is False
    assert "0 are left after 0.01 s, and a join may bring others" in caplog.text


@scene
async def test_a_drain_that_cannot_work_ends_at_once_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owned = frozenset(unit(0))
    assert await member_of(Client(in_a_group(static=True, owned=owned))).drain(None) is False
    assert await member_of(Client(in_a_group(owned=owned)), cooperative=False).drain(None) is False
    warm = member_of(Client(in_a_group(owned=owned)))
    draining = asyncio.ensure_future(warm.drain(None))
    await settled()
    warm.assigned(2, None, owned)  # The leader did not know of it yet.
    warm.look()
    await settled()
    assert not draining.done()
    warm.announced(frozenset({"t"}))
    warm.assigned(3, None, owned)
    warm.look()
    assert await draining is False
    assert "a static member keeps its assignment" in caplog.text
    assert "a member of an eager group gives up all partitions" in caplog.text
    assert "its leader knows nothing of warm handoff" in caplog.text
