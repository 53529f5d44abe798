"""The warm-ups of one member: its listener restores partitions that it is going to get, while it consumes.

`Warming` decides what begins, what is cancelled and what is reported; this carries it out with the tasks of a
`Client`. A warm-up that returns, raises or takes too long is ready all the same, since a partition cannot
wait for ever; the log and the observers tell these apart.

Each report is a rebalance, so a ready unit waits for a moment for others that are warming.
"""

from __future__ import annotations

import math
from dataclasses import replace
from logging import Logger
from typing import TYPE_CHECKING, Protocol

from kafka_assignors.rebalance import events, lease
from kafka_assignors.rebalance.events import Partitions
from kafka_assignors.rebalance.observer import Observers, WarmUpOutcome
from kafka_assignors.rebalance.warming import Warming
from kafka_assignors.wire.warm_sections import Unit, WarmList

if TYPE_CHECKING:
    from kafka_assignors.group import Warmth
    from kafka_assignors.rebalance.client import Client, Wakeup

DEFAULT_MAX_WARMING = 4
DEFAULT_WARM_TIMEOUT_S = 300.0

END_S = 5.0
"""How long a close waits for the warm-ups that it has cancelled."""

COALESCE_S = 1.0
"""How long a ready unit waits for others."""


class WarmUp(Protocol):
    """One call of the listener."""

    @property
    def is_running(self) -> bool:
        """Whether it has not returned, or what was told of its cancellation has not."""
        ...

    def cancel(self) -> None:
        """Ask it to end."""
        ...

    async def ended(self, timeout_s: float) -> bool:
        """Wait for its end; False if it takes longer. Raises what it raised, but for a cancellation."""
        ...

    async def tell_cancelled(self, partitions: Partitions, timeout_s: float) -> None:
        """Call `on_warming_cancelled` of the same listener, if it has it. Raises what that raises."""
        ...


class WarmUps:
    """What one member warms, and its wish to drain."""

    def __init__(
        self,
        client: Client,
        observers: Observers,
        *,
        group_id: str,
        cooperative: bool,
        max_warming: int,
        warm_timeout_s: float,
        log: Logger,
    ) -> None:
        self._client = client
        self._cooperative = cooperative
        self._observers = observers
        self._group_id = group_id
        self._max_warming = max_warming
        self._timeout_s = warm_timeout_s
        self._log = log
        self._state = Warming()
        self._listener: object = None
        self._calls: dict[Unit, WarmUp] = {}
        self._warmed: dict[Unit, WarmUp] = {}
        self._arriving: frozenset[Unit] = frozenset()  # assigned, but not announced to the listener yet
        self._overdue: list[WarmUp] = []
        self._has_said_they_hang = False
        self._reports_soon = False
        self._refusal: str | None = None
        self._has_said_it_drains = False  # in its last JoinGroup request
        self._drains: list[Wakeup] = []  # one for each call: a wakeup wakes one task
        self._ended = client.wakeup()
        self._report_soon_over = client.wakeup()

    # ---- for the session

    def announced(self, topics: frozenset[str]) -> Warmth | None:
        """What the member announces when it joins with a subscription to these topics."""
        foreign = (unit for unit in self._state.listed if any(topic not in topics for topic, _ in unit))
        self._cancel(frozenset(foreign))
        self._state = replace(self._state, max_warming=self._max_warming if self._client.warms else 0)
        self._state, warmth = self._state.joining()
        self._has_said_it_drains = self._state.draining
        return warmth

    def assigned(self, generation: int, warm: WarmList | None, partitions: Partitions) -> None:
        """The member was assigned these partitions, and shall warm what is listed."""
        if warm is None and self._has_said_it_drains:
            self._refusal = "its leader knows nothing of warm handoff"
        self._arriving |= {unit for unit in self._state.listed if partitions.issuperset(unit)}
        self._state, gone = self._state.assigned(generation, warm, partitions)
        self._tell_cancelled(gone)
        self.look()  # The member may have begun to close before the response came.
        self._begin()
        self._report()

    def listener_is(self, listener: object) -> None:
        """Cancel the warm-ups of another listener than this one, and join again for the next list."""
        if listener is self._listener:
            return
        self._listener = listener
        is_listed = bool(self._state.listed)
        self._cancel(self._uncancelled)
        if is_listed:
            self._client.handle(events.RejoinRequested("the listener that warmed partitions is another one"))

    def look(self) -> None:
        """The machine has changed. A loss, an `unsubscribe` and a close cancel all warm-ups."""
        member = self._client.member
        if self._arriving:
            self._cancel(self._never_announced())
        if member.closing or not member.in_group or not member.topics:
            self._cancel(self._uncancelled)
        if member.closing:
            self._refusal = "it is being closed"
            self._report_soon_over.notify()
        for drain in self._drains:
            drain.notify()

    def _never_announced(self) -> frozenset[Unit]:
        """The units that were assigned, and that the machine does not announce any more.

        It announces nothing after a loss, and installs nothing of an assignment for an older subscription.
        """
        member, call = self._client.member, self._client.member.call
        if call is not None and call.is_running and isinstance(call.asked, events.Announce):
            self._arriving = frozenset()  # From now on the listener is told of their end as of any other's.
            self._warmed = {unit: warm for unit, warm in self._warmed.items() if unit in self._state.ready}
        coming = member.coming if member.in_group else frozenset()
        never = frozenset(unit for unit in self._arriving if not coming.issuperset(unit))
        self._arriving -= never
        return never - self._state.cancelled

    # ---- for the adapter

    def is_warming(self, partitions: Partitions) -> bool:
        """Whether a warm-up of one of these partitions runs, as it may after the death of an owner.

        `on_partitions_assigned` waits for its end, which comes within the time that a warm-up may take.
        """
        # Of a value that is never changed: kafka-python asks in another thread.
        return any(not partitions.isdisjoint(unit) for unit in self._state.running)

    async def over(self, partitions: Partitions) -> None:
        """Wait for that end."""
        while self.is_warming(partitions):
            await self._ended(self._timeout_s)

    async def end(self, longest_s: float = math.inf) -> None:
        """Wait until cancelled warm-ups have ended and the listener was told, for a few seconds at most."""
        until = lease.clock() + min(END_S, longest_s)
        while self._calls and (left_s := until - lease.clock()) > 0:
            await self._ended(left_s)

    async def drain(self, timeout_s: float | None) -> bool:
        """Let other members take over all partitions, each when they are ready; False if some are left.

        The member goes on consuming what it still has, and stays in the group. What no other member
        subscribes to stays with it.
        """
        member_changed = self._client.wakeup()
        self._drains.append(member_changed)
        try:
            refusal = await self._drain(timeout_s, member_changed)
        finally:
            self._drains.remove(member_changed)
        if refusal is not None:
            self._log.warning("group %r: not all partitions are drained: %s", self._group_id, refusal)
        else:
            self._log.info("group %r: all partitions are drained", self._group_id)
        return refusal is None

    async def _drain(self, timeout_s: float | None, member_changed: Wakeup) -> str | None:
        """Why partitions are left; None if none are."""
        client, began_at = self._client, lease.clock()
        if client.member.settings.static:
            return "a static member keeps its assignment while it restarts"
        if not self._cooperative:
            return "a member of an eager group gives up all partitions before it joins"
        self._refusal = None
        self._state = replace(self._state, draining=True)
        client.handle(events.RejoinRequested("this member drains"))
        while self._refusal is None and (client.member.owned or self._joins_unaware):
            left_s = None if timeout_s is None else timeout_s - (lease.clock() - began_at)
            if left_s is not None and left_s <= 0:
                coming = ", and a join may bring others" if self._joins_unaware else ""
                return f"{len(client.member.owned)} are left after {timeout_s:g} s{coming}"
            await member_changed(left_s)
        return self._refusal

    @property
    def _joins_unaware(self) -> bool:
        """Whether a join is under way whose leader was not told of the drain: it may bring partitions."""
        return self._client.member.join.is_under_way and not self._has_said_it_drains

    # ---- the calls

    def _begin(self) -> None:
        state, begun = self._state.begin()
        if begun and not self._client.warms:  # The listener has changed since the member joined.
            self._client.handle(events.RejoinRequested("its listener cannot warm partitions any more"))
            return
        self._state = state
        for unit in begun:
            self._client.spawn(self._warm(unit))

    async def _warm(self, unit: Unit) -> None:
        try:
            if unit not in self._state.cancelled:  # Otherwise it was cancelled before it could begin.
                await self._call(unit)
        finally:
            self._over(unit)
        self._report()

    async def _call(self, unit: Unit) -> None:
        began_at = lease.clock()
        outcome = WarmUpOutcome.READY
        self._observers.tell("warming", partitions=frozenset(unit))
        try:
            call = self._calls[unit] = self._started(unit)
            if not await call.ended(self._timeout_s):
                outcome = WarmUpOutcome.TIMED_OUT
                call.cancel()
                self._overdue.append(call)
        except Exception as error:
            outcome = WarmUpOutcome.FAILED
            self._log.error("group %r: on_partitions_warming failed", self._group_id, exc_info=error)
        if unit in self._state.cancelled:
            outcome = WarmUpOutcome.CANCELLED
            await self._tell_listener(unit)
        seconds = lease.clock() - began_at
        self._log.info(
            "group %r: warm-up of %s: %s after %.1f s", self._group_id, _named(unit), outcome.value, seconds
        )
        self._observers.tell("warmed", partitions=frozenset(unit), seconds=seconds, outcome=outcome)

    def _started(self, unit: Unit) -> WarmUp:
        """A call; RuntimeError if `max_warming` earlier ones took too long, and still have not returned."""
        if self._too_many_hang:
            raise RuntimeError(
                f"{len(self._overdue)} calls for warm-ups took longer than warm_timeout_ms, and have not "
                "returned: end them when they are cancelled"
            )
        return self._client.warm_up(frozenset(unit))

    @property
    def _too_many_hang(self) -> bool:
        self._overdue = [call for call in self._overdue if call.is_running]
        return len(self._overdue) >= self._max_warming

    def _over(self, unit: Unit) -> None:
        self._state = self._state.ended(unit)
        call = self._calls.pop(unit, None)
        if call is not None and unit in self._state.ready | self._arriving:
            self._warmed[unit] = call
        self._ended.notify()
        self._begin()

    @property
    def _uncancelled(self) -> frozenset[Unit]:
        """All units, but for those that were told to end: a call is told once."""
        return (self._state.running - self._state.cancelled).union(self._state.listed)

    def _cancel(self, gone: frozenset[Unit]) -> None:
        self._state = self._state.without(gone)
        self._tell_cancelled(gone)

    def _tell_cancelled(self, gone: frozenset[Unit]) -> None:
        for unit in gone:
            if (call := self._calls.get(unit)) is not None:
                call.cancel()
        if warmed := gone.intersection(self._warmed):
            # Until the listener is told, they count as running: neither warmed again nor announced.
            self._calls.update((unit, self._warmed.pop(unit)) for unit in warmed)
            running, cancelled = self._state.running | warmed, self._state.cancelled | warmed
            self._state = replace(self._state, running=running, cancelled=cancelled)
            self._client.spawn(self._forget(warmed))

    async def _forget(self, warmed: frozenset[Unit]) -> None:
        for unit in warmed:
            try:
                await self._tell_listener(unit)
            finally:
                self._over(unit)

    async def _tell_listener(self, unit: Unit) -> None:
        """Tell the listener that warmed the unit, or began to, what does not come."""
        member, call = self._client.member, self._calls.get(unit)
        partitions = frozenset(unit).difference(member.coming if member.in_group else ())
        if call is None or not partitions:
            return
        if self._too_many_hang and call not in self._overdue:  # One that counts already adds none.
            if not self._has_said_they_hang:
                self._log.error(
                    "group %r: on_warming_cancelled is not called while %d calls for warm-ups that took "
                    "longer than warm_timeout_ms have not returned",
                    self._group_id,
                    len(self._overdue),
                )
            self._has_said_they_hang = True
            return
        try:
            await call.tell_cancelled(partitions, self._timeout_s)
        except Exception as error:
            self._log.error("group %r: on_warming_cancelled failed", self._group_id, exc_info=error)
        if call.is_running and call not in self._overdue:
            self._overdue.append(call)

    # ---- reports

    def _report(self) -> None:
        if not self._state.unreported:
            return
        if self._state.is_warm:
            self._rejoin()
        elif not self._reports_soon:
            self._reports_soon = True
            self._client.spawn(self._report_soon())

    async def _report_soon(self) -> None:
        await self._report_soon_over(COALESCE_S)
        self._reports_soon = False
        if self._state.unreported:
            self._rejoin()

    def _rejoin(self) -> None:
        member = self._client.member
        if member.closing or member.join.is_under_way:  # Its assignment may have no need of the report.
            return
        count = sum(map(len, self._state.ready))
        self._client.handle(events.RejoinRequested(f"{count} partitions are warm"))


def _named(unit: Unit) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in unit)


def raise_error(error: BaseException | None) -> None:
    """Raise what a call of the listener has raised; what would end the event loop, as a RuntimeError."""
    if error is not None and not isinstance(error, Exception):
        raise RuntimeError(f"it raised {error!r}") from error
    if error is not None:
        raise error
