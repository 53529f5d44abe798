"""What a member is told, as JSON in its one argument, and how it waits for the order to join."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import sys
from pathlib import Path

from benchmarks.pause.journal import JournalWriter, Kind

__all__ = ["FETCH_BYTES", "MemberSpec", "stand_by"]

FETCH_BYTES = 1 << 20
"""More than there ever is, so that every fetch waits as long as it may, with every client."""


@dataclasses.dataclass(frozen=True, slots=True)
class MemberSpec:
    """One consumer. Every client is given the same values for what it has in common with the others.

    Attributes:
        protocol: what the program calls its way of rebalancing, such as `sticky` or `cooperative`.
        journal: the file that it writes.
        fetch_wait_ms: how long the broker keeps a fetch.
        poll_ms: how long the application waits in one call for records.
        commit_interval_ms: of the automatic commits.
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

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_arguments(cls) -> MemberSpec:
        """What this process was told."""
        return cls(**json.loads(sys.argv[1]))


_MCL_CURRENT = 1
"""<sys/mman.h>"""


def stand_by() -> tuple[MemberSpec, JournalWriter]:
    """The specification of this process, once it may join; ends the process if it never may."""
    _stay_in_memory()
    spec = MemberSpec.from_arguments()
    journal = JournalWriter(Path(spec.journal))
    journal.add(Kind.READY)
    if not sys.stdin.readline():
        raise SystemExit(0)
    return spec, journal


def _stay_in_memory() -> None:
    """Have what this process has loaded stay loaded, if the system lets it.

    Some systems drop pages that were not touched for a minute. The code for a rebalance is not touched
    between rebalances, and the first one would be slow for having to read it from the disk again.
    """
    ctypes.CDLL(None).mlockall(_MCL_CURRENT)
