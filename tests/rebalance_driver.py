"""The adapter's side of `MemberState`, for tests that send events one by one."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from kafka_assignors.rebalance import MemberState, Settings, events
from kafka_assignors.rebalance.events import Action, Event, Membership, MembershipError, Partitions
from kafka_assignors.strategy import RebalanceProtocol

P = ParamSpec("P")

COOPERATIVE, EAGER = RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER
SETTINGS = Settings(session_timeout=45, rebalance_timeout=300, max_poll_interval=300)


def orders(*partitions: int) -> Partitions:
    return frozenset(("orders", partition) for partition in partitions)


class Driver:
    """An adapter in a test: it keeps the member's state and returns the actions of each event.

    A call of the listener begins as soon as it is due, unless `calls_at_once` is False.
    """

    def __init__(self, settings: Settings = SETTINGS, protocol: RebalanceProtocol = COOPERATIVE) -> None:
        self.member = MemberState(settings)
        self.protocol = protocol
        self.now = 1000.0
        self.calls_at_once = True
        self.tell(events.SubscriptionChanged(frozenset({"orders"})))

    def tell(self, event: Event) -> tuple[Action, ...]:
        self.member, actions = self.member.handle(event, self.now)
        if self.calls_at_once and actions and isinstance(actions[-1], events.CallDue):
            return (*actions[:-1], *self.tell(events.AboutToCall()))
        return actions

    def join(self) -> events.SendJoin:
        """Send JoinGroup; no listener call may be due before it."""
        (request,) = self.tell(events.AboutToJoin(self.protocol))
        assert isinstance(request, events.SendJoin)
        return request

    def joined(self, generation: int, member_id: str = "a") -> Membership:
        """Send JoinGroup, receive its response, and send SyncGroup."""
        request = self.join()
        membership = Membership(member_id, generation)
        assert self.tell(events.Joined(request.attempt, membership)) == (events.SendSync(membership),)
        return membership

    def rejoin(self) -> events.SendJoin:
        """Hear of a rebalance, and send JoinGroup."""
        self.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
        return self.join()

    def rejoined(self, generation: int) -> Membership:
        """Hear of a rebalance, and go on to SyncGroup."""
        self.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
        return self.joined(generation)

    def assigned(self, *partitions: int) -> tuple[Action, ...]:
        return self.tell(events.Assigned(self.member.membership, orders(*partitions), self.now))

    def owning(self, *partitions: int, generation: int = 1) -> Driver:
        self.joined(generation)
        self.assigned(*partitions)
        self.tell(events.ListenerReturned())
        return self

    def heartbeat(self, answer: MembershipError, sent_at: float | None = None) -> tuple[Action, ...]:
        at = self.now if sent_at is None else sent_at
        return self.tell(events.HeartbeatAnswered(self.member.membership, answer, at))


class Wakeup:
    """What tasks of a client in a test wait with, one at a time: a client wakes one."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._is_waiting = False

    async def __call__(self, timeout_s: float | None = None) -> None:
        assert not self._is_waiting
        self._is_waiting = True
        try:
            await asyncio.wait_for(self._event.wait(), timeout_s)
        except asyncio.TimeoutError:
            return
        finally:
            self._is_waiting = False
            self._event.clear()

    def notify(self) -> None:
        self._event.set()


def scene(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that runs in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 60))

    return run


async def settled() -> None:
    """Let all tasks run until they wait."""
    for _ in range(12):
        await asyncio.sleep(0)
