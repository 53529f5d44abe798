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
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from compat_tests.support.hang_limit import HANG_S

LONGEST_ORDER_BYTES = 100_000
"""The maximum for program, arguments and environment together: they have to fit into one message."""

_ROOT = Path(__file__).resolve().parents[2]
_LOOK_EVERY_S = 0.01
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
    """The part of `subprocess.Popen` that the tests need."""

    def __init__(self, nursery: Nursery, pid: int, stdin: IO[bytes]) -> None:
        self._nursery = nursery
        self.pid = pid
        self.stdin: IO[bytes] | None = stdin
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.exit_code(self.pid)
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
        self._lock = threading.Lock()
        self._exit_codes: dict[int, int] = {}

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
        read_end, write_end = os.pipe()
        stdin = open(write_end, "wb")  # noqa: SIM115  # its owner closes it
        try:
            with open(log, "ab") as output, open(errors or log, "ab") as error_output, self._lock:
                with contextlib.suppress(BrokenPipeError):
                    files = [read_end, output.fileno(), error_output.fileno()]
                    socket.send_fds(self._channel, [order], files)
                pid = self._pid_of_new()
        except BaseException:
            stdin.close()
            raise
        finally:
            os.close(read_end)
        return PreloadedProcess(self, pid, stdin)

    def exit_code(self, pid: int) -> int | None:
        """The exit code, in the form of `Popen.returncode`; None while the process runs."""
        with self._lock:
            while select.select([self._channel], [], [], 0)[0]:
                self._note(self._receive())
            return self._exit_codes.get(pid)

    def end(self) -> None:
        """End the nursery. The processes that it started go on."""
        self._channel.close()
        self._process.wait()

    def _pid_of_new(self) -> int:
        deadline = time.monotonic() + HANG_S
        while True:
            if not select.select([self._channel], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"no process was started within {HANG_S:g} s")
            message = self._receive()
            if "started" in message:
                pid = int(message["started"])
                self._exit_codes.pop(pid, None)  # of an earlier process with the same number
                return pid
            self._note(message)

    def _receive(self) -> dict[str, Any]:
        data = self._channel.recv(1000)
        if not data:
            raise RuntimeError(f"the nursery has ended with exit code {self._process.wait()}")
        message: dict[str, Any] = json.loads(data)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        self._exit_codes[message["ended"]] = message["exit_code"]


@functools.cache
def nursery() -> Nursery:
    """The nursery of this process."""
    return Nursery()


# ---- the process that forks


def _tend(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each order until the channel is closed.

    Returns in each new process with its order, and finally in the nursery with None.
    """
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Ctrl-C is meant for the process that gives the orders.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([channel.fileno(), woken], [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 1000)
            _tell_who_has_ended(channel)
        if channel.fileno() in ready:
            data, files, _, _ = socket.recv_fds(channel, LONGEST_ORDER_BYTES, 3)
            if not data:
                return None
            order: dict[str, Any] = json.loads(data)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.setsid()
                for standard, mine in enumerate(files):
                    os.dup2(mine, standard)
                for file in (*files, woken, wakes):
                    os.close(file)
                channel.close()
                return order
            for file in files:
                os.close(file)
            _tell(channel, started=pid)


def _tell_who_has_ended(channel: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            _tell(channel, ended=ended[0], exit_code=os.waitstatus_to_exitcode(ended[1]))


def _tell(channel: socket.socket, **message: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        channel.send(json.dumps(message).encode())


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
