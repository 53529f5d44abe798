"""The application, for every client: it records deliveries, and knows which offsets to commit."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from compat_tests.chaos.ledger import signature
from compat_tests.support.member_reports import Orders, Reporter, by_topic, machine_time

COMMIT_EVERY_S = 0.3
"""Long enough for some records to be uncommitted at any time."""

MOST_COMMITS = 10
"""The most commits of a member at a time: they overlap while the network is away."""

REQUEST_TIMEOUT_MS = 15_000
"""Longer than a rebalance, because a JoinGroup may take that long."""

TRANSACTION_TIMEOUT_MS = 5000
"""The broker aborts an open transaction of a dead member before other members have waited for long."""


Partition: TypeAlias = tuple[str, int]


class Application:
    """Processing a record takes no time: a reported record is processed."""

    def __init__(self, reporter: Reporter, member: str = "") -> None:
        self._reporter = reporter
        self._member = member
        self._announcements = 0
        self._processed: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}

    def process(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        self._reporter.consumed(topic, partition, offsets)
        self._processed[topic, partition] = offsets[-1] + 1

    def uncommitted(self, partitions: Collection[Partition] | None = None) -> dict[Partition, int]:
        """The offsets to commit, of these partitions or of all: the offset after the last record."""
        return {
            partition: offset
            for partition, offset in self._processed.items()
            if (partitions is None or partition in partitions) and self._committed.get(partition) != offset
        }

    def assigned(self, member_id: str, generation: int, partitions: Iterable[Any]) -> None:
        """Report everything that this member owns."""
        self._announcements += 1
        self._reporter.assigned(member_id, generation, partitions)

    @property
    def signature(self) -> str:
        """The metadata of a commit that this member asks for at this moment."""
        return signature(self._member, self._announcements)

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Record a successful commit."""
        self._committed.update((tp, offset) for tp, offset in offsets.items() if tp in self._processed)
        self._reporter.report("committed", offsets=[[*tp, offset] for tp, offset in offsets.items()])

    def commit_failed(self, offsets: Mapping[Partition, int], error: BaseException) -> None:
        """Report a failed commit; it may be retried."""
        self._reporter.failed(error, "commit_failed", partitions=by_topic(offsets))

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that other members own: a commit could undo the commits of these members."""
        for partition in partitions:
            self._processed.pop(partition, None)
            self._committed.pop(partition, None)


def stand_still(until: float, *, suspended: bool = False) -> None:
    """Stop this process with SIGSTOP until SIGCONT, unless it is later than `until`.

    If it is `suspended`, CLOCK_MONOTONIC, as this process reads it, stops too, as on a machine that sleeps.
    CLOCK_BOOTTIME goes on.
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
        """Replace the clock in `time` and in every module that imported it by name, except in the reports."""
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("compat_tests."):
                continue
            for name, value in list(vars(module).items()):
                if value is machine_time:
                    setattr(module, name, cls.now)


class ChaosOrders(Orders):
    """`Orders`, with additional orders for our members.

    `freeze_before`: stop until SIGCONT, `suspended` or not. A stop from outside can fall between the client's
    decision to deliver a record and the application's report. The record then seems to be delivered far too
    late, which no client could prevent. Members with a lease are judged by the time of the report, so they
    stop themselves while no delivery is in progress. `freeze` is called on a separate thread, with a function
    that calls `stand_still`.

    `hang_until`: listener calls last until then. `raising`: they raise at their end.
    """

    def __init__(self, freeze: Callable[[Callable[[], object]], object]) -> None:
        self.hang_until = 0.0
        self.raising = False
        self._freeze = freeze
        super().__init__()

    def obey(self, order: Mapping[str, Any]) -> None:
        super().obey(order)
        self.hang_until = order.get("hang_until", self.hang_until)
        self.raising = order.get("raising", self.raising)
        if "freeze_before" in order:
            suspended = order.get("suspended", False)
            self._freeze(functools.partial(stand_still, order["freeze_before"], suspended=suspended))

    def delays_s(self) -> Iterator[float]:
        """How long a listener call has to wait, in steps."""
        yield self.pause_s
        while machine_time() < self.hang_until:
            yield 0.05

    def raise_if_ordered(self) -> None:
        if self.raising:
            raise RuntimeError("this listener was ordered to raise")


def copy_of(topic: str, partition: int, offset: int) -> bytes:
    """The copy of a record; it identifies the record."""
    return f"{topic}/{partition}/{offset}".encode()
