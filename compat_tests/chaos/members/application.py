"""The application's part, for every client: it notes records, and knows what to commit."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from compat_tests.chaos.rights import PASSWORD
from compat_tests.support.member_reports import MemberSpec, Orders, Reporter, by_topic, machine_time

__all__ = [
    "COMMIT_EVERY_S",
    "REQUEST_TIMEOUT_MS",
    "TELL_WHERE",
    "TRANSACTION_TIMEOUT_MS",
    "Application",
    "ChaosOrders",
    "ListenerError",
    "Partition",
    "copy_of",
    "login",
    "stand_still",
]

COMMIT_EVERY_S = 0.3
"""Long enough for some records to be uncommitted at any time."""

REQUEST_TIMEOUT_MS = 15_000
"""Longer than a rebalance, for that is how long a JoinGroup may take."""

TRANSACTION_TIMEOUT_MS = 5000
"""The broker aborts what a member has left open before others have waited for long."""

TELL_WHERE = signal.SIGUSR2
"""At this signal a member of ours writes to its log where it is waiting."""

Partition: TypeAlias = tuple[str, int]


class Application:
    """Processing a record takes no time: it is done when it is reported."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._processed: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}

    def process(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        self._reporter.consumed(topic, partition, offsets)
        self._processed[topic, partition] = offsets[-1] + 1

    def uncommitted(self, partitions: Collection[Partition] | None = None) -> dict[Partition, int]:
        """What to commit, of these partitions or of all: the offset after the last record."""
        return {
            partition: offset
            for partition, offset in self._processed.items()
            if (partitions is None or partition in partitions) and self._committed.get(partition) != offset
        }

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """A commit has succeeded."""
        self._committed.update((tp, offset) for tp, offset in offsets.items() if tp in self._processed)
        self._reporter.report("committed", offsets=[[*tp, offset] for tp, offset in offsets.items()])

    def commit_failed(self, offsets: Mapping[Partition, int], error: BaseException) -> None:
        """It has not, and may be tried again."""
        told = f"{type(error).__name__}: {error}"
        self._reporter.report("commit_failed", partitions=by_topic(offsets), error=told)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """They belong to others now: to commit them could undo what those commit."""
        for partition in partitions:
            self._processed.pop(partition, None)
            self._committed.pop(partition, None)


def stand_still(until: float, *, suspended: bool = False) -> None:
    """Stop this process as SIGSTOP does, until SIGCONT; not if it is too late for that.

    If it is `suspended`, CLOCK_MONOTONIC, as this process reads it, stands still meanwhile, as it does on a
    machine that sleeps. CLOCK_BOOTTIME goes on.
    """
    stopped_at = machine_time()
    if stopped_at < until:
        os.kill(os.getpid(), signal.SIGSTOP)
        if suspended:
            _AwakeTime.slept_s += machine_time() - stopped_at
            _AwakeTime.install()


class _AwakeTime:
    """`time.monotonic` without the time that the machine slept."""

    slept_s = 0.0

    @classmethod
    def now(cls) -> float:
        return machine_time() - cls.slept_s

    @classmethod
    def install(cls) -> None:
        """In `time`, and wherever else it was imported by name, but for the clock of reports."""
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("compat_tests."):
                continue
            for name, value in list(vars(module).items()):
                if value is machine_time:
                    setattr(module, name, cls.now)


class ListenerError(RuntimeError):
    """A listener fails as it was ordered to."""


class ChaosOrders(Orders):
    """Orders, and those that only members of ours know.

    `freeze_before`: stop until SIGCONT, `suspended` or not. A stop from outside can fall
    between the moment at which a client decides to hand a record over and the one at which the application
    notes the time; after it the record seems to be delivered far too late, which no client could prevent.
    So members with a lease, which are judged by that, stop themselves where nothing is being handed over.
    `freeze` is called by a thread of its own with what `stand_still` is to do.

    `hang_until`: calls of the listener last until then. `raising`: they raise in the end.
    `fill_executor_s`: all threads of the default executor are occupied for so long, by `fill_executor`.
    """

    def __init__(
        self,
        reporter: Reporter,
        freeze: Callable[[Callable[[], object]], object],
        fill_executor: Callable[[float], object] = lambda _: None,
    ) -> None:
        self.hang_until = 0.0
        self.raising = False
        self._freeze = freeze
        self._fill_executor = fill_executor
        super().__init__(reporter)

    def obey(self, order: Mapping[str, Any]) -> None:
        super().obey(order)
        self.hang_until = order.get("hang_until", self.hang_until)
        self.raising = order.get("raising", self.raising)
        if "fill_executor_s" in order:
            self._fill_executor(order["fill_executor_s"])
        if "freeze_before" in order:
            suspended = order.get("suspended", False)
            self._freeze(functools.partial(stand_still, order["freeze_before"], suspended=suspended))

    def delays_s(self) -> Iterator[float]:
        """How long a call of the listener has to wait, piece by piece."""
        yield self.pause_s
        while machine_time() < self.hang_until:
            yield 0.05

    def raise_if_ordered(self) -> None:
        if self.raising:
            raise ListenerError("this listener was ordered to raise")


def copy_of(topic: str, partition: int, offset: int) -> bytes:
    """What a member that copies makes of a record; it tells which record it was."""
    return f"{topic}/{partition}/{offset}".encode()


def login(spec: MemberSpec) -> dict[str, Any]:
    """What both clients need to log in as the user of the member."""
    if spec.user is None:
        return {}
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": spec.user,
        "sasl_plain_password": PASSWORD,
    }
