"""What an application does with records, whatever the client: it notes them, and knows what to commit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from compat_tests.member_reports import Orders, Reporter, by_topic

__all__ = ["COMMIT_EVERY_S", "TELL_WHERE", "Application", "ChaosOrders", "Partition", "stand_still"]

COMMIT_EVERY_S = 0.3
"""Long enough for some records to be uncommitted at any time."""

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


def stand_still(until: float) -> None:
    """Stop this process as SIGSTOP does, until somebody sends SIGCONT; not if it is too late for that."""
    if time.monotonic() < until:
        os.kill(os.getpid(), signal.SIGSTOP)


class ChaosOrders(Orders):
    """Orders, and one more: `freeze_before`.

    A stop from outside can fall between the moment at which a client decides to hand a record over and the
    one at which the application notes the time; after it the record seems to be delivered far too late, and
    nobody could have helped it. So members with a lease, which are judged by that, stop themselves where
    nothing is being handed over. `freeze` is called by a thread of its own with the time up to which
    `stand_still` is wanted.
    """

    def __init__(self, reporter: Reporter, freeze: Callable[[float], object]) -> None:
        self._freeze = freeze
        super().__init__(reporter)

    def obey(self, order: Mapping[str, Any]) -> None:
        super().obey(order)
        if "freeze_before" in order:
            self._freeze(order["freeze_before"])
