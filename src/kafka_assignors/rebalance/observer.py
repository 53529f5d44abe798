"""The events of a consumer's rebalances as they happen, for metrics: `RebalanceObserver`.

Durations are seconds of the clock of the lease (`kafka_assignors.rebalance.lease`), which never goes back. An
observer that raises does not disturb the consumer: its first failure is logged, the others are counted, and
their number is logged when the consumer is closed.
"""

from __future__ import annotations

import enum
import inspect
import threading
from collections.abc import Callable, Iterable
from logging import Logger
from typing import Any

from kafka_assignors.claims import movement
from kafka_assignors.group import NO_GENERATION
from kafka_assignors.messages import EncodedAssignments
from kafka_assignors.rebalance.events import Action, Assigned, Event, JoinFailed, Partitions, SendJoin
from kafka_assignors.rebalance.member import MemberState
from kafka_assignors.rebalance.progress import Phase


class RebalanceOutcome(enum.Enum):
    """How an attempt to join ended."""

    ASSIGNED = "assigned"
    """SyncGroup was accepted."""

    MEMBER_ID_GIVEN = "member_id_given"
    """The coordinator gave a dynamic member its id at its first attempt, and it joins again (KIP-394)."""

    FAILED = "failed"
    """Anything else; the member joins again, if it still has a subscription."""


class WarmUpOutcome(enum.Enum):
    """How a warm-up ended. The member gets its partitions after each but a cancelled one."""

    READY = "ready"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class RebalanceObserver:
    """Base class of observers: override what you need. Without an override an event costs nothing.

    The methods are plain functions with keyword arguments alone, so that later releases can add arguments:
    end yours with `**_`. They are called in the order of the events, by the thread on which these happen: the
    event loop of aiokafka; the I/O thread of kafka-python, but its user's thread for `revoked` and `lost`,
    and with a listener for `assigned`. The consumer waits for each call, so a method must not block. Times
    are in seconds.
    """

    def rebalance_begun(self, *, reason: str, **_: Any) -> None:
        """A JoinGroup request is sent. `reason` is also in the log and in the request.

        Each attempt begins with this call and ends with `rebalance_ended`. A cooperative rebalance in which
        partitions move takes two attempts, since members join again after they have revoked.
        """

    def joined(self, *, seconds: float, generation: int, leads: bool, **_: Any) -> None:
        """JoinGroup was accepted, after `seconds`; `leads` says whether this member leads the generation."""

    def synced(self, *, seconds: float, generation: int, **_: Any) -> None:
        """SyncGroup was accepted, after `seconds`."""

    def rebalance_ended(
        self, *, seconds: float, outcome: RebalanceOutcome, generation: int, **_: Any
    ) -> None:
        """The attempt is over.

        `seconds` are counted from the first attempt since the last one that succeeded. `generation` is -1 if
        JoinGroup was not accepted.
        """

    def assigned(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        """Partitions were added, maybe none; the user's callback took `seconds`, None without a callback."""

    def revoked(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        """Partitions were given up; `seconds` as in `assigned`."""

    def lost(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        """Partitions were lost, and other members may own them; `seconds` as in `assigned`."""

    def warming(self, *, partitions: Partitions, **_: Any) -> None:
        """A warm-up of these partitions begins."""

    def warmed(self, *, partitions: Partitions, seconds: float, outcome: WarmUpOutcome, **_: Any) -> None:
        """A warm-up of these partitions is over, after `seconds`."""

    def heartbeat_answered(self, *, seconds: float, ok: bool, **_: Any) -> None:
        """Heartbeat was answered, after `seconds`; `ok` means without an error."""

    def commit_answered(self, *, seconds: float, ok: bool, **_: Any) -> None:
        """OffsetCommit was answered, after `seconds`; `ok` means without an error for any partition.

        One call of `commit` may take several requests.
        """

    def decided(
        self, *, strategy: str, seconds: float, moved: int, withheld: int, held: int, **_: Any
    ) -> None:
        """This member has led a generation: it had the assignment `seconds` after JoinGroup was accepted.

        `moved` partitions change their owner although the owner is in the group and could keep them.
        `withheld` partitions wait until their owners have revoked them, `held` ones until their next owner
        has warmed them.
        """


HOOKS = tuple(name for name in vars(RebalanceObserver) if not name.startswith("_"))
"""The names of the methods that an observer may override."""


def require_observer(argument: str, value: object) -> RebalanceObserver | None:
    """The value of an argument that is an observer or None; TypeError for anything else."""
    if value is None:
        return None
    if isinstance(value, type):
        raise TypeError(
            f"{argument} must be an instance, not the class {value.__name__}: pass {value.__name__}()"
        )
    if not isinstance(value, RebalanceObserver):
        raise TypeError(
            f"{argument} must be a RebalanceObserver or None, not {value!r}: derive your class from "
            "RebalanceObserver, and override the methods that you need"
        )
    for name in HOOKS:
        if inspect.iscoroutinefunction(getattr(value, name)):
            raise TypeError(
                f"{argument}: {type(value).__name__}.{name} is a coroutine function, which is never awaited: "
                "make it a plain function"
            )
    return value


class Observers:
    """The observers of one consumer. What they raise is logged and counted, and goes no further.

    Attributes:
        failures: how many calls have raised.
    """

    def __init__(self, observers: Iterable[RebalanceObserver], group_id: str, log: Logger) -> None:
        self.failures = 0
        self._group_id = group_id
        self._log = log
        self._has_failed: set[int] = set()
        self._lock = threading.Lock()
        self._began_at: float | None = None
        given = tuple(observers)
        self._calls = {name: tuple(one for one in given if _overrides(one, name)) for name in HOOKS}

    # ---- the machine

    def stepped(
        self, before: MemberState, event: Event, after: MemberState, actions: Iterable[Action], now: float
    ) -> None:
        """The machine has handled an event."""
        if before.join.is_under_way and not after.join.is_under_way:
            self._ended(before, event, after, now)
        for action in actions:
            if isinstance(action, SendJoin):
                if self._began_at is None:
                    self._began_at = now
                self.tell("rebalance_begun", reason=action.reason)
        if after.phase is Phase.CLOSED and before.phase is not Phase.CLOSED and self.failures:
            self._log.warning("group %r: %d calls of observers failed", self._group_id, self.failures)

    def _ended(self, before: MemberState, event: Event, after: MemberState, now: float) -> None:
        began_at = now if self._began_at is None else self._began_at
        is_joined = before.phase is Phase.SYNCING
        outcome = RebalanceOutcome.FAILED
        if is_joined and isinstance(event, Assigned):
            outcome = RebalanceOutcome.ASSIGNED
        elif isinstance(event, JoinFailed) and event.given_id:
            outcome = RebalanceOutcome.MEMBER_ID_GIVEN
        # A member that unsubscribes may join again a day later.
        if outcome is RebalanceOutcome.ASSIGNED or not after.topics:
            self._began_at = None
        self.tell(
            "rebalance_ended",
            seconds=now - began_at,
            outcome=outcome,
            generation=before.membership.generation if is_joined else NO_GENERATION,
        )

    # ---- leading

    def decided(self, strategy: str, encoded: EncodedAssignments, seconds: float) -> None:
        """This member has assigned a generation."""
        if not self._calls["decided"]:
            return
        result = encoded.result
        moved, _ = movement(encoded.group.claims, result.target)
        withheld = sum(len(numbers) for topics in result.withheld.values() for numbers in topics.values())
        counts = {"moved": moved, "withheld": withheld, "held": result.held}
        self.tell("decided", strategy=strategy, seconds=seconds, **counts)

    # ---- telling

    def tell(self, name: str, **facts: Any) -> None:
        """Call the method of this name of all observers that override it."""
        for observer in self._calls[name]:
            method: Callable[..., None] = getattr(observer, name)
            try:
                method(**facts)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # Also what would cancel a task or end a thread of the consumer.
                self._failed(observer, name, error)

    def _failed(self, observer: RebalanceObserver, name: str, error: BaseException) -> None:
        with self._lock:  # Several threads tell.
            self.failures += 1
            is_first = id(observer) not in self._has_failed
            self._has_failed.add(id(observer))
        if is_first:
            self._log.error(
                "group %r: %s of the observer %r failed; later failures are counted and not logged",
                self._group_id,
                name,
                observer,
                exc_info=error,
            )


def _overrides(observer: RebalanceObserver, name: str) -> bool:
    return getattr(type(observer), name) is not getattr(RebalanceObserver, name) or name in vars(observer)
