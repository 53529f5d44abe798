"""The CPU time and memory of a command with all its processes, from /proc (Linux).

The kernel's sum over ended children is too small here: PySpark's daemon ignores SIGCHLD, so the kernel drops
the time of each Python worker that ends. Therefore a thread reads the time of each process ten times a
second, and the last reading counts: at most a tenth of a second of each process is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

_POLL_S = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36


class ProcessTree:
    """Measures all processes that this one starts inside the block, and their descendants.

    Leaving the block without an error waits for all of them.

    Attributes:
        wall_s: seconds in the block, without the wait.
        cpu_s: user and system time of all processes together.
    """

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0
        self._cpu_s: dict[tuple[int, str], float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ProcessTree:
        # Processes whose parent ends become children of this one.
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl does not make this process a subreaper: is this Linux?")
        self._thread.start()
        self._started = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall_s = time.monotonic() - self._started
        with contextlib.suppress(ChildProcessError):
            while error is None:
                os.wait()
        self._ended.set()
        self._thread.join()
        self.cpu_s = sum(self._cpu_s.values())

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_S):
            for process in descendants(os.getpid()):
                try:
                    stat = process_stat(process)
                except OSError:
                    continue  # It has just ended.
                self._cpu_s[process, stat.started] = stat.cpu_s


def measured(
    command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> ProcessTree:
    """Run the command without its output, and wait for all its processes.

    The variable that stops Python from writing compiled modules is unset, as for an installed package.
    """
    with ProcessTree() as tree:
        done = subprocess.run(
            command,
            env={**(environment or os.environ), "PYTHONDONTWRITEBYTECODE": ""},
            stdout=subprocess.DEVNULL,
            timeout=timeout_s,
            cwd=tempfile.gettempdir(),
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {done.returncode}")
    return tree


class ProcessStat(NamedTuple):
    """A process according to /proc: `started` is in ticks since boot."""

    state: str
    started: str
    cpu_s: float


def process_stat(process: int) -> ProcessStat:
    """Read a process; OSError if it has ended. Source of the fields: proc_pid_stat(5)."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[
        2
    ].split()  # Starts at field 3 of the man page; the name before it may contain spaces.
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
    return ProcessStat(fields[0], fields[19], cpu_s)


def descendants(process: int) -> list[int]:
    """The ids of all descendants of a process."""
    found = [process]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found.extend(map(int, task.read_text().split()))
    return found[1:]
