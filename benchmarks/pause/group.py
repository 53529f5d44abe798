"""A group of member processes on a topic with steady records, and the events that happen to it."""

from __future__ import annotations

import collections
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from benchmarks.pause.journal import JournalReader, Kind, Row
from benchmarks.pause.members.spec import MemberSpec
from benchmarks.pause.peers import Peer
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.processes import Processes

__all__ = ["Group", "GroupError", "Settings"]

_ROOT = Path(__file__).resolve().parent.parent.parent
_START_TIMEOUT_S = 90.0
_LEAVE_TIMEOUT_S = 15.0
"""On top of the time in which other members restore everything."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the members; every peer has the same.

    Attributes:
        interval_ms: between two records of a partition.
        slow_heartbeat_ms: heartbeat interval of the slow member, which learns late that the group rebalances.
        window_s: the time in which gaps are searched.
        restore_s, at_once: how long a member restores a partition before it delivers its records, and how
            many at a time. Nothing is restored while the group forms.
    """

    partitions: int
    interval_ms: int
    fetch_wait_ms: int
    poll_ms: int = 100
    heartbeat_interval_ms: int = 1000
    slow_heartbeat_ms: int = 3000
    session_timeout_ms: int = 4000
    max_poll_interval_ms: int = 30_000
    commit_interval_ms: int = 1000
    window_s: float = 3.0
    rest_s: float = 3.0
    restore_s: float = 0.0
    at_once: int = 4

    @property
    def settled_within_s(self) -> float:
        """A partition without a delivery for this long is not being consumed."""
        return (2 * self.interval_ms + 2 * self.fetch_wait_ms + 300) / 1000

    @property
    def restore_all_s(self) -> float:
        """One member needs this long to restore all partitions."""
        return self.restore_s * -(-self.partitions // self.at_once)


class GroupError(RuntimeError):
    """A member did not start or ended by itself; the message quotes its log."""


class Group:
    """Leaving the block ends every process and deletes the topic."""

    def __init__(self, kafka: Kafka, peer: Peer, settings: Settings, *, topic: str = "") -> None:
        self._kafka = kafka
        self._peer = peer
        self._settings = settings
        run = uuid.uuid4().hex[:8]
        self.id = f"pause-{run}"
        self._own_topic = not topic
        self.topic = topic or f"pause-{run}"
        self._processes = Processes()
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._readers: dict[str, JournalReader] = {}
        self._live: list[str] = []
        self._last: dict[int, tuple[int, str]] = {}
        self._producer: subprocess.Popen[bytes] | None = None
        self.rows: dict[str, list[Row]] = {}
        """By process, the rows of its journal up to the last `read`."""

    def __enter__(self) -> Group:
        self._processes.__enter__()
        self._folder = Path(tempfile.mkdtemp(prefix="pause-"))
        self._processes.own_folder(self._folder)
        self._state = self._folder / "there-is-state"
        if self._own_topic:
            self._kafka.create_topic(self.topic, self._settings.partitions)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, trace)
        if self._own_topic:
            self._kafka.delete_topic(self.topic)

    @property
    def live(self) -> Sequence[str]:
        """The live members, the first that joined in front."""
        return self._live

    # ---- processes

    def stand_by(self, names: Iterable[str], *, slow: Iterable[str] = ()) -> None:
        """Start processes that may join later, and wait until all of them have loaded their client."""
        names, slow = list(names), set(slow)
        for name in names:
            self._start(name, slow=name in slow)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not all(self._is_ready(name) for name in names):
            if time.monotonic() > deadline:
                raise GroupError(f"not all of {', '.join(names)} have started within {_START_TIMEOUT_S:g} s")
            time.sleep(0.05)

    def join(self, name: str) -> None:
        process = self._members[name]
        assert process.stdin is not None
        process.stdin.write(b"join\n")
        process.stdin.flush()
        self._live.append(name)

    def leave(self, name: str) -> None:
        """Ask a member to leave, and wait until its consumer is closed or its process has ended."""
        self.ask_to_leave(name)
        timeout_s = _LEAVE_TIMEOUT_S + self._settings.restore_all_s
        deadline = time.monotonic() + timeout_s
        while not self._has_left(name):
            if time.monotonic() > deadline:
                raise GroupError(f"{name} has not left within {timeout_s:g} s:\n{self.log(name)}")
            time.sleep(0.002)

    def ask_to_leave(self, name: str) -> None:
        """Ask a member to leave, and do not wait."""
        self._live.remove(name)
        self.signal(name, signal.SIGTERM)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a member's process."""
        self._members[name].send_signal(number)

    def kill(self, name: str) -> None:
        self._live.remove(name)
        self._processes.stop(self._members[name], signal.SIGKILL)

    def start_producer(self) -> None:
        arguments = (
            self._kafka.bootstrap,
            self.topic,
            self._settings.partitions,
            self._settings.interval_ms,
        )
        command = [sys.executable, "-m", "benchmarks.pause.producer", *map(str, arguments)]
        self._producer = self._processes.start(command, self._folder / "producer.log", cwd=_ROOT)

    def has_state(self) -> None:
        """From now on, members restore what they get."""
        self._state.touch()

    def hold_producer(self) -> None:
        """Write no records until `resume_producer`."""
        assert self._producer is not None
        self._producer.send_signal(signal.SIGSTOP)

    def resume_producer(self) -> None:
        assert self._producer is not None
        self._producer.send_signal(signal.SIGCONT)

    def _start(self, name: str, *, slow: bool) -> None:
        settings = self._settings
        journal = self._folder / f"{name}.journal"
        spec = MemberSpec(
            bootstrap=self._kafka.bootstrap,
            group=self.id,
            topic=self.topic,
            name=name,
            protocol=self._peer.protocol,
            journal=str(journal),
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.slow_heartbeat_ms if slow else settings.heartbeat_interval_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            fetch_wait_ms=settings.fetch_wait_ms,
            poll_ms=settings.poll_ms,
            commit_interval_ms=settings.commit_interval_ms,
            restore_s=settings.restore_s,
            at_once=settings.at_once,
            state=str(self._state),
        )
        self._members[name] = self._processes.start(
            self._peer.command(spec), self._log(name), cwd=_ROOT, stdin=subprocess.PIPE
        )
        self._readers[name] = JournalReader(journal)
        self.rows[name] = []

    def _is_ready(self, name: str) -> bool:
        self.read()
        if self._members[name].poll() is not None:
            raise GroupError(f"{name} ended by itself:\n{self.log(name)}")
        return any(row.kind == Kind.READY for row in self.rows[name][:1])

    def _has_left(self, name: str) -> bool:
        self.read()
        ended = self._members[name].poll() is not None
        return ended or any(row.kind == Kind.LEFT for row in self.rows[name][-1:])

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def log(self, name: str) -> str:
        """The end of a process's output."""
        return self._log(name).read_text(errors="replace")[-4000:]

    # ---- observation

    def read(self) -> None:
        """Read the new rows of all journals."""
        for name, reader in self._readers.items():
            rows = reader.new_rows()
            self.rows[name] += rows
            for row in rows:
                if row.kind == Kind.DELIVERED:
                    self._last[row.partition] = max(self._last.get(row.partition, (0, "")), (row.at_ns, name))

    def is_settled(self) -> bool:
        """Whether every partition is being delivered, by live members with equal shares (at most 1 apart)."""
        self.read()
        since_ns = time.monotonic_ns() - int(self._settings.settled_within_s * 1e9)
        if len(self._last) < self._settings.partitions or min(self._last.values())[0] < since_ns:
            return False
        shares = collections.Counter(name for _, name in self._last.values())
        return shares.keys() == set(self._live) and max(shares.values()) - min(shares.values()) <= 1

    def settle(self, timeout_s: float = 20.0) -> bool:
        """Wait until `is_settled`, and return whether that happened in time.

        The time in which members restore everything comes on top of the timeout.
        """
        deadline = time.monotonic() + timeout_s + self._settings.restore_all_s
        while not self.is_settled():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def check(self) -> None:
        """Raises GroupError if a live member's process has ended."""
        for name in self._live:
            if self._members[name].poll() is not None:
                raise GroupError(f"{name} ended by itself:\n{self.log(name)}")

    def cpu_ns(self) -> int:
        """The CPU time that the live members have taken so far, in nanoseconds."""
        return sum(
            int((task / "schedstat").read_text().split()[0])
            for name in self._live
            for task in Path(f"/proc/{self._members[name].pid}/task").iterdir()
        )
