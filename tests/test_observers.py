"""The events that observers of a member receive from the machine's steps, and observers that fail."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Topic
from kafka_assignors.messages import (
    NEVER_ASSIGNED,
    JoinedMember,
    LastAssignment,
    encode_assignments,
    read_members,
)
from kafka_assignors.rebalance import MemberState, Settings, events, lease, observer
from kafka_assignors.rebalance.events import Event, Membership, MembershipError
from kafka_assignors.strategies import CooperativeSticky, Range
from kafka_assignors.strategy import RebalanceProtocol, Strategy
from tests.joining import subscription_bytes
from tests.test_session import session_of

ASSIGNED, MEMBER_ID_GIVEN, FAILED = observer.RebalanceOutcome

LOG = logging.getLogger("tests.observers")
COOPERATIVE = RebalanceProtocol.COOPERATIVE
FIRST, SECOND = Membership("a", 1), Membership("a", 2)
ORDERS_0 = frozenset({("orders", 0)})


def recording(hook: str) -> Any:
    def tell(self: Recorder, **facts: Any) -> None:
        self.told.append((hook, facts))

    return tell


class Recorder(observer.RebalanceObserver):
    """Records every event; observers are called only for the methods that they override."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Mapping[str, Any]]] = []

    def of(self, name: str) -> list[Mapping[str, Any]]:
        return [facts for told, facts in self.told if told == name]


for hook in observer.HOOKS:
    setattr(Recorder, hook, recording(hook))


class Member:
    """A machine whose steps observers see; each event comes one second after the previous one."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.observers = observer.Observers([self.recorder], "g", LOG)
        self.state = MemberState(Settings(45, 300, 300))
        self.now = 0.0

    def handle(self, *told: Event) -> Member:
        for event in told:
            self.now += 1
            before = self.state
            self.state, actions = before.handle(event, self.now)
            self.observers.stepped(before, event, self.state, actions, self.now)
        return self

    def joining(self) -> Member:
        """Send the first JoinGroup, at second 2."""
        return self.handle(events.SubscriptionChanged(frozenset({"orders"})), events.AboutToJoin(COOPERATIVE))

    def joined(self) -> Member:
        """Install the assignment at second 4, and return from the listener."""
        self.joining().handle(events.Joined(1, FIRST), events.Assigned(FIRST, ORDERS_0, 3.0))
        return self.handle(events.AboutToCall(), events.ListenerReturned())

    @property
    def ended(self) -> list[tuple[float, observer.RebalanceOutcome, int]]:
        facts = self.recorder.of("rebalance_ended")
        return [(one["seconds"], one["outcome"], one["generation"]) for one in facts]


# ---- begins and ends of rebalances


def test_the_time_of_a_later_rebalance_counts_from_its_own_begin() -> None:
    member = Member().joined()
    member.handle(events.HeartbeatAnswered(FIRST, MembershipError.REBALANCE_IN_PROGRESS, 5.0))
    member.handle(
        events.AboutToJoin(COOPERATIVE), events.Joined(2, SECOND), events.Assigned(SECOND, ORDERS_0, 8.0)
    )
    assert member.recorder.of("rebalance_begun")[1]["reason"] == "the group is rebalancing"
    assert member.ended[1:] == [(2.0, ASSIGNED, 2)]


@pytest.mark.parametrize(
    "event",
    [
        events.HeartbeatAnswered(FIRST, MembershipError.UNKNOWN_MEMBER_ID, 3.0),
        events.PollIntervalChecked(-1000.0),
        events.CloseRequested(),
    ],
    ids=["its session has ended", "its user does not poll", "it is closed"],
)
def test_a_rebalance_that_the_member_gives_up_has_failed_and_its_late_response_is_no_end(
    event: Event,
) -> None:
    member = Member().joining().handle(events.Joined(1, FIRST), event)
    member.handle(events.Assigned(FIRST, ORDERS_0, 3.0))
    assert member.ended == [(2.0, FAILED, 1)]


def test_a_member_that_unsubscribes_during_a_rebalance_does_not_count_the_time_until_it_comes_back() -> None:
    member = Member().joining().handle(events.SubscriptionChanged(frozenset()))
    member.now = 90_000.0
    member.handle(events.SubscriptionChanged(frozenset({"orders"})), events.AboutToJoin(COOPERATIVE))
    member.handle(events.Joined(2, FIRST), events.Assigned(FIRST, ORDERS_0, 0.0))
    assert member.ended == [(1.0, FAILED, -1), (2.0, ASSIGNED, 1)]


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (events.Announce(ORDERS_0), "assigned"),
        (events.Revoke(ORDERS_0), "revoked"),
        (events.Lose(ORDERS_0), "lost"),
    ],
)
def test_each_call_of_the_listener_has_an_event_also_if_it_raises(
    asked: events.Announce | events.Revoke | events.Lose, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, times = Recorder(), iter((1.0, 1.5, 2.0))
    monkeypatch.setattr(lease, "clock", lambda: next(times))
    client: Any = SimpleNamespace(member=MemberState(Settings(45, 300, 300)), wakeup=lambda: None)
    session = session_of(client, observers=[recorder])
    with pytest.raises(ZeroDivisionError), session.call_of(object(), asked, ORDERS_0):
        raise ZeroDivisionError
    with session.call_of(None, asked, ORDERS_0):
        pass
    assert recorder.told == [(name, {"partitions": ORDERS_0, "seconds": seconds}) for seconds in (0.5, None)]


# ---- what a leader decides


@pytest.mark.parametrize(
    ("strategy", "owned", "moves"),
    [
        (CooperativeSticky(), (range(6), ()), {"moved": 3, "withheld": 3, "held": 0}),
        (Range(), (range(3, 6), range(3)), {"moved": 6, "withheld": 0, "held": 0}),
    ],
    ids=["cooperative-sticky", "range"],
)
def test_a_leader_tells_what_it_moves_and_what_it_withholds_to_those_who_ask(
    strategy: Strategy,
    owned: tuple[Sequence[int], Sequence[int]],
    moves: Mapping[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joined = []
    for name, partitions in zip("ab", owned, strict=True):
        last = LastAssignment({"orders": [*partitions]}, 1) if partitions else NEVER_ASSIGNED
        joined.append(JoinedMember(name, None, subscription_bytes(strategy, ["orders"], last, held=True)))
    encoded = encode_assignments(strategy, read_members(strategy, joined), [Topic("orders", 6)], 2)
    recorder = Recorder()
    observer.Observers([recorder], "g", LOG).decided(strategy.name, encoded, 0.25)
    assert recorder.told == [("decided", {"strategy": strategy.name, "seconds": 0.25, **moves})]
    monkeypatch.setattr(observer, "movement", lambda *_: pytest.fail("measured"))
    observer.Observers([Raising(AssertionError())], "g", LOG).decided(strategy.name, encoded, 0.25)


# ---- observers with faults


class Raising(observer.RebalanceObserver):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def joined(self, *, seconds: float, **_: Any) -> None:
        raise self.error

    def synced(self, *, seconds: float, **_: Any) -> None:
        raise self.error


class Cancelling(BaseException):
    """An error that is not an Exception, such as asyncio's CancelledError."""


@pytest.mark.parametrize("error", [ValueError("full disk"), Cancelling(), SystemExit(1)], ids=repr)
def test_an_observer_that_raises_is_logged_once_counted_and_keeps_no_other_from_being_told(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    observers = observer.Observers([Raising(error), recorder], "g", LOG)
    for _ in range(100):
        observers.tell("joined", seconds=0.1, generation=1, leads=False)
        observers.tell("synced", seconds=0.1, generation=1)
    assert (observers.failures, len(recorder.told)) == (200, 200)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "joined of the observer" in record.getMessage()
    member = Member()
    member.observers = observers
    member.handle(events.CloseRequested())
    assert caplog.records[1].getMessage() == "group 'g': 200 calls of observers failed"


def test_ctrl_c_in_an_observer_is_the_users() -> None:
    with pytest.raises(KeyboardInterrupt):
        observer.Observers([Raising(KeyboardInterrupt())], "g", LOG).tell(
            "joined", seconds=0.1, generation=1, leads=False
        )


class Awaited(observer.RebalanceObserver):
    async def joined(self, **_: Any) -> None:  # type: ignore[override]
        """No caller awaits this coroutine."""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (print, "observer must be a RebalanceObserver or None, not <built-in"),
        ("prometheus", "observer must be a RebalanceObserver or None, not 'prometheus'"),
        (observer.RebalanceObserver, r"not the class RebalanceObserver: pass RebalanceObserver\(\)"),
        (Awaited(), "Awaited.joined is a coroutine function"),
        (Assignor(Range()), "derive your class from RebalanceObserver"),
    ],
    ids=["a function", "a name", "a class", "coroutines", "another object"],
)
def test_what_is_no_observer_is_refused(value: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        observer.require_observer("observer", value)
