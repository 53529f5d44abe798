"""Starts member programs in processes that have already loaded their client.

    process = start("compat_tests.aiokafka.member", [spec.to_json()], log, folder)

Loading a client takes half a second of CPU. The tests start hundreds of members, so loading would be half of
their work. `multiprocessing`'s fork server loads the clients once and forks for each member. A forked process
has its own session, standard files, arguments and exit code, as if it were started directly. It shares only
the hash seed with the server.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        # Each process would load the script of pytest again.
        "__main__",
        "asyncio",
        "aiokafka",
        "kafka",
        "confluent_kafka",
        "kafka_assignors_aiokafka",
        "kafka_assignors_kafka_python",
        "kafka_assignors.strategies.registry",
        "compat_tests.support.member_reports",
        "kafka_assignors_cli.app",
        "kafka_assignors_ops.groups_command",
        "kafka_assignors_ops.lint_command",
        "kafka_assignors_ops.watch_command",
        # The commands load these when they run.
        "confluent_kafka.admin",
        "zoneinfo",
        "kafka_assignors_ops.lint.rules",
        "kafka_assignors_ops.watch.watcher",
    ]
)
"""The server loads those of these modules that are installed."""

_lock = threading.Lock()
"""`multiprocessing` reads exit codes, also of other processes when it starts one, and two threads must not
read the same code."""


class PreloadedProcess:
    """The part of `subprocess.Popen` that the tests need. Threads may share it."""

    def __init__(self, process: ForkServerProcess, stdin: IO[bytes]) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid
        self.stdin: IO[bytes] | None = stdin

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with _lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; raises `subprocess.TimeoutExpired` if it does not end within `timeout` seconds."""
        wait([self._process.sentinel], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # As with `Popen`, the process may have ended since.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    program: str,
    arguments: Sequence[str],
    log: Path,
    cwd: Path,
    *,
    errors: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> PreloadedProcess:
    """Run a module as a program, with a pipe as its input, and append its output to `log`.

    Standard error goes to `errors`, by default to `log` too. `environment` adds to the variables that the
    server was started with; what the preloaded modules read when they were loaded stays.
    """
    files = [log, errors or log]
    for file in files:
        file.touch()
    theirs, ours = _CONTEXT.Pipe(duplex=False)
    with theirs, ours:
        order = (program, arguments, theirs, files, cwd, environment or {})
        process = _CONTEXT.Process(target=_run, args=order, daemon=True)
        with _lock:
            process.start()
        return PreloadedProcess(process, open(os.dup(ours.fileno()), "wb"))  # its owner closes it


def _run(
    program: str,
    arguments: Sequence[str],
    stdin: Connection,
    files: Sequence[Path],
    cwd: Path,
    environment: Mapping[str, str],
) -> None:
    os.setsid()
    with stdin, open(files[0], "ab") as output, open(files[1], "ab") as error_output:
        for number, mine in enumerate((stdin.fileno(), output.fileno(), error_output.fileno())):
            os.dup2(mine, number)
    sys.stdin = os.fdopen(0)  # `multiprocessing` has closed it
    os.chdir(cwd)
    os.environ.update(environment)
    sys.argv = [program, *arguments]
    runpy.run_module(program, run_name="__main__", alter_sys=True)
