"""Starts member programs in processes that have already loaded their client.

    process = nursery().start("compat_tests.aiokafka.member", [spec.to_json()], log, folder)

Loading a client takes half a second of CPU. The tests start hundreds of members, so loading would be half of
their work. A *nursery* is a process that loads the clients once and forks for each member. A forked process
has its own session, standard files, arguments and exit code, as if it were started directly. It shares only
the hash seed with the nursery.

The nursery ends when the process that started it ends. The forked processes go on.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

LONGEST_ORDER_BYTES = 100_000
"""The maximum for program, arguments and environment together: they have to fit into one message."""

_ROOT = Path(__file__).resolve().parents[2]
_LOOK_EVERY_S = 0.01
_NUMBER_BYTES = 4
_PRELOADED = (
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
    "pydantic",
    "zoneinfo",
    "kafka_assignors_ops.lint.rules",
    "kafka_assignors_ops.watch.watcher",
)
"""Modules to load, if they are installed."""


class PreloadedProcess:
    """The part of `subprocess.Popen` that the tests need. Threads may share it."""

    def __init__(self, status: int, stdin: IO[bytes]) -> None:
        """`status`: a pipe on which the nursery tells the process id and, at the end, the exit code."""
        self._status = status
        self._lock = threading.Lock()
        self.stdin: IO[bytes] | None = stdin
        self.returncode: int | None = None
        pid = self._told()
        assert pid is not None  # The pipe blocks until the nursery has forked.
        self.pid = pid
        os.set_blocking(status, False)

    def _told(self) -> int | None:
        try:
            told = os.read(self._status, _NUMBER_BYTES)
        except BlockingIOError:
            return None
        if not told:
            raise RuntimeError("the nursery has ended")
        return int.from_bytes(told, "big", signed=True)

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None and (code := self._told()) is not None:
                self.returncode = code
                os.close(self._status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; raises `subprocess.TimeoutExpired` if it does not end within `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if timeout is not None and deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(_LOOK_EVERY_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # As with `Popen`, the process may have ended since.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The owner's side of a nursery. Threads may share it."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd=_ROOT,
            )

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        log: Path,
        cwd: Path,
        *,
        errors: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> PreloadedProcess:
        """Run a module as a program, with a pipe as its input, and append its output to `log`.

        Standard error goes to `errors`, by default to `log` too. `environment` adds to the variables that
        the nursery was started with; what the preloaded modules read when they were loaded stays.
        """
        order = json.dumps(
            {
                "program": program,
                "arguments": list(arguments),
                "cwd": str(cwd),
                "environment": dict(environment or {}),
            }
        ).encode()
        if len(order) > LONGEST_ORDER_BYTES:
            raise ValueError(f"{program} with {len(order)} bytes of arguments: {LONGEST_ORDER_BYTES} fit")
        input_end, stdin = os.pipe()
        status, status_end = os.pipe()
        with open(log, "ab") as output, open(errors or log, "ab") as error_output:
            files = [input_end, output.fileno(), error_output.fileno(), status_end]
            socket.send_fds(self._channel, [order], files)
        os.close(input_end)
        os.close(status_end)
        return PreloadedProcess(status, open(stdin, "wb"))  # its owner closes it


def nursery() -> Nursery:
    """The nursery of this process."""
    with _starting:
        return _nursery()


_starting = threading.Lock()
"""Threads that start their first members at the same time would each make a nursery, and all but one would
end when nothing refers to them any more."""


@functools.cache
def _nursery() -> Nursery:
    return Nursery()


# ---- the process that forks


def _tend(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each order until the channel is closed.

    Returns in each new process with its order, and finally in the nursery with None.
    """
    running: dict[int, int] = {}
    """The pipe for the status of each process."""

    def tell_who_has_ended(*_: object) -> None:
        for pid, status in list(running.items()):
            # A signal may interrupt this call, and the other one find out first.
            with contextlib.suppress(ChildProcessError):
                ended, code = os.waitpid(pid, os.WNOHANG)
                if ended:
                    del running[pid]
                    _tell(status, os.waitstatus_to_exitcode(code))
                    os.close(status)

    signal.signal(signal.SIGCHLD, tell_who_has_ended)
    # Ctrl-C is meant for the process that gives the orders.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        data, files, _, _ = socket.recv_fds(channel, LONGEST_ORDER_BYTES, 4)
        if not data:
            return None
        *standard, status = files
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.setsid()
            for number, mine in enumerate(standard):
                os.dup2(mine, number)
            for file in (*files, *running.values()):
                os.close(file)
            channel.close()
            order: dict[str, Any] = json.loads(data)
            return order
        for file in standard:
            os.close(file)
        _tell(status, pid)
        running[pid] = status
        tell_who_has_ended()  # It may have ended before it was in `running`.


def _tell(status: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(status, number.to_bytes(_NUMBER_BYTES, "big", signed=True))


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    for module in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    order = _tend(channel)
    if order is not None:
        os.chdir(order["cwd"])
        os.environ.update(order["environment"])
        sys.argv = [order["program"], *order["arguments"]]
        runpy.run_module(order["program"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
