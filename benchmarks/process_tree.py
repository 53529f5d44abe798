"""The CPU time and memory of processes and of a command with all its processes, from /proc (Linux).

The kernel's sum over ended children is too small here: PySpark's daemon ignores SIGCHLD, so the kernel drops
the time of each Python worker that ends. Therefore the time of each process is read ten times a second, and
the last reading counts: at most a tenth of a second of each process is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_POLL_S = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_MIB = os.sysconf("SC_PAGESIZE") / (1 << 20)
_PR_SET_CHILD_SUBREAPER = 36


class Usage(NamedTuple):
    """What a command and its processes used: user and system time of all, the time that passed, and the most
    resident memory of all at one time, where a page that processes share counts for each of them."""

    cpu_s: float
    passed_s: float
    peak_mib: float


def usage_of(command: Sequence[str]) -> Usage:
    """Run the command without its output until all its processes have ended."""
    # Processes whose parent ends become children of this one.
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl does not make this process a subreaper: is this Linux?")
    cpu_s: dict[tuple[int, str], float] = {}
    peak_mib, ended, began_s = 0.0, threading.Event(), time.monotonic()

    def watch() -> None:
        nonlocal peak_mib
        while not ended.wait(_POLL_S):
            resident_mib = 0.0
            for process in descendants(os.getpid()):
                with contextlib.suppress(OSError):  # It has just ended.
                    stat = process_stat(process)
                    cpu_s[process, stat.started] = stat.cpu_s
                    resident_mib += stat.resident_mib
            peak_mib = max(peak_mib, resident_mib)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    # Python may write compiled modules, as for an installed package.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    folder = tempfile.gettempdir()
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, cwd=folder, check=False)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    ended.set()
    watching.join()
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {done.returncode}")
    return Usage(sum(cpu_s.values()), time.monotonic() - began_s, peak_mib)


class ProcessStat(NamedTuple):
    """A process according to /proc: `started` is in ticks since boot."""

    state: str
    started: str
    cpu_s: float
    resident_mib: float


def process_stat(process: int) -> ProcessStat:
    """Read a process; OSError if it has ended. Source of the fields: proc_pid_stat(5)."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[
        2
    ].split()  # Starts at field 3 of the man page; the name before it may contain spaces.
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
    return ProcessStat(fields[0], fields[19], cpu_s, int(fields[21]) * _PAGE_MIB)


def descendants(process: int) -> list[int]:
    """The ids of all descendants of a process."""
    found = [process]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found.extend(map(int, task.read_text().split()))
    return found[1:]
