"""Child processes that do not outlive the process that started them.

`Processes` is a context manager. Leaving it kills the processes that still run and removes the registered
folders. If the owner cannot leave the block (SIGKILL, a SIGTERM that Python does not handle, a crash), a
small watchdog process does the same. It reads the processes and folders to clean up from a pipe, which closes
when the owner dies.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from compat_tests.support import preloaded
from compat_tests.support.hang_limit import HANG_S

_LAST_WORDS_S = 2.0

_WATCHDOG = """
import os, shutil, signal, sys
pids, folders = set(), set()
for line in sys.stdin:
    what, name = line.rstrip("\\n").split(" ", 1)
    {"+pid": pids.add, "-pid": pids.discard, "+dir": folders.add, "-dir": folders.discard}[what](name)
for pid in pids:
    try:
        os.kill(int(pid), signal.SIGKILL)
    except ProcessLookupError:
        pass
for folder in folders:
    shutil.rmtree(folder, ignore_errors=True)
"""


Child: TypeAlias = subprocess.Popen[bytes] | preloaded.PreloadedProcess


def state_of(pid: int) -> str:
    """The state of a process in Linux's letters, such as T if it is stopped; "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Processes:
    """The child processes and temporary folders of one owner."""

    def __init__(self) -> None:
        self._running: dict[int, Child] = {}
        self._folders: set[Path] = set()
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Processes:
        # Its own session keeps Ctrl-C in a terminal from ending the watchdog before the owner cleans up.
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-c", _WATCHDOG], stdin=subprocess.PIPE, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        for process in list(self._running.values()):
            if process.poll() is None:
                process.kill()
        for process in list(self._running.values()):
            process.wait()
            self._forget(process)
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        if self._watchdog is not None and self._watchdog.stdin is not None:
            for folder in self._folders:
                self._tell("-dir", folder)
            self._watchdog.stdin.close()
            self._watchdog.wait()

    def own_folder(self, folder: Path) -> None:
        """Remove this folder when the block ends."""
        self._folders.add(folder)
        self._tell("+dir", folder)

    def start(
        self,
        command: Sequence[str],
        log: Path,
        *,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process, and append its standard output and error to `log`."""
        with open(log, "ab") as output:
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=cwd,
                env=environment,
            )
        self._own(process)
        return process

    def start_preloaded(
        self,
        program: str,
        arguments: Sequence[str],
        log: Path,
        *,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Start a module as a program whose client is already loaded, with a pipe as its input.

        `environment` adds to the variables of this process.
        """
        process = preloaded.start(program, arguments, log, cwd, environment=environment)
        self._own(process)
        return process

    def _own(self, process: Child) -> None:
        self._running[process.pid] = process
        self._tell("+pid", process.pid)

    def stop(self, process: Child, number: signal.Signals = signal.SIGTERM, timeout_s: float = HANG_S) -> int:
        """Send a signal, wait for the end, kill after `timeout_s` seconds; returns the exit code.

        Before the kill, SIGQUIT makes a JVM or one of our members print the stacks of its threads.
        """
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LAST_WORDS_S)
                process.kill()
                process.wait()
        self._forget(process)
        return process.wait()

    def _forget(self, process: Child) -> None:
        if process.stdin is not None:
            # `close` tries to write the bytes that a dead process could not take.
            with suppress(BrokenPipeError):
                process.stdin.close()
        if self._running.pop(process.pid, None) is not None:
            self._tell("-pid", process.pid)

    def _tell(self, what: str, name: object) -> None:
        if self._watchdog is None or self._watchdog.stdin is None:
            raise RuntimeError("Processes is a context manager: enter it first")
        self._watchdog.stdin.write(f"{what} {name}\n".encode())
        self._watchdog.stdin.flush()
