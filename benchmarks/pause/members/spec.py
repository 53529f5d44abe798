"""The settings of a member, as JSON in its one argument, and how it waits for the order to join."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.pause.journal import JournalWriter, Kind

__all__ = ["FETCH_BYTES", "MemberSpec", "listener", "stand_by"]

FETCH_BYTES = 1 << 20
"""More bytes than are ever available, so that every fetch waits for its maximum time, with every client."""


@dataclasses.dataclass(frozen=True, slots=True)
class MemberSpec:
    """The settings of one consumer. All clients get the same values for the settings that they share.

    Attributes:
        protocol: the program's name for its way of rebalancing, such as `sticky` or `cooperative`.
        journal: the file that the member writes.
        fetch_wait_ms: how long the broker holds a fetch.
        poll_ms: how long one call of the application waits for records.
        commit_interval_ms: between automatic commits.
        restore_s, at_once: how long the application restores a partition, and how many at a time.
        state: a file; while it does not exist, there is nothing to restore.
    """

    bootstrap: str
    group: str
    topic: str
    name: str
    protocol: str
    journal: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    fetch_wait_ms: int
    poll_ms: int
    commit_interval_ms: int
    restore_s: float
    at_once: int
    state: str

    def restoring_s(self, partitions: int) -> float:
        """How long the application restores so many partitions."""
        return self.restore_s * -(-partitions // self.at_once) if Path(self.state).exists() else 0.0

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_arguments(cls) -> MemberSpec:
        """The settings that this process was started with."""
        return cls(**json.loads(sys.argv[1]))


_MCL_CURRENT = 1
"""<sys/mman.h>"""


def stand_by() -> tuple[MemberSpec, JournalWriter]:
    """Wait for the order to join, and return the settings of this process; exits if there is no order."""
    _stay_in_memory()
    spec = MemberSpec.from_arguments()
    journal = JournalWriter(Path(spec.journal))
    journal.add(Kind.READY)
    if not sys.stdin.readline():
        raise SystemExit(0)
    return spec, journal


def listener(base: type, journal: JournalWriter, spec: MemberSpec) -> Any:
    """A rebalance listener of a client's own class that writes what it is told into the journal.

    It restores what the member gets before it returns, except what is `warm`: what a subclass has restored
    before the member got it.
    """

    class Listener(base):  # type: ignore[misc]  # the clients have classes of their own
        def __init__(self) -> None:
            self.warm: set[Any] = set()

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            journal.add(Kind.REVOKED, [tp.partition for tp in revoked])
            self.warm.difference_update(revoked)

        on_partitions_lost = on_partitions_revoked

        def on_warming_cancelled(self, partitions: set[Any]) -> None:
            self.warm -= partitions

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            journal.add(Kind.ASSIGNED, [tp.partition for tp in assigned])
            time.sleep(spec.restoring_s(len({*assigned} - self.warm)))

    return Listener()


def _stay_in_memory() -> None:
    """Lock the loaded pages of this process in memory, if the system allows it.

    Some systems drop pages that are unused for a minute. The code of a rebalance is unused between
    rebalances, so the first rebalance would be slow because its code is read from the disk again.
    """
    ctypes.CDLL(None).mlockall(_MCL_CURRENT)
