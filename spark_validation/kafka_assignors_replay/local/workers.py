"""Processes that fold files of records: each a Python of its own, at the other end of a connection.

A worker neither imports nor runs the main program again, as the processes of `multiprocessing` do, and
inherits no lock of its threads. What a strategy prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import cast

from kafka_assignors.group import some_of
from kafka_assignors_replay.engine import OnTasks
from kafka_assignors_replay.folds.group import FoldWork, Output, fold_groups
from kafka_assignors_replay.local.files import groups_in, sorted_records
from kafka_assignors_replay.result import ReplayError

_OBJECTS = 20_000
"""Python looks for reference cycles after this many new objects."""

_START = (
    "import sys; from multiprocessing.connection import Connection; link = Connection(int(sys.argv[1])); "
    "sys.path[:] = link.recv(); from kafka_assignors_replay.local import workers; workers.serve_files(link)"
)


def fold_files(work: FoldWork, files: Sequence[str], processes: int, on_tasks: OnTasks) -> Iterator[Output]:
    """Fold the files, in this process or in others, in any order. `ReplayError` if another process ends.

    A user's strategy may end its process, so it never runs in this one.
    """
    on_tasks(0, len(files))
    of_a_user = any(not type(each).__module__.startswith("kafka_assignors.") for each in work.loaded.values())
    if not of_a_user and (processes <= 1 or len(files) <= 1):
        for file in files:
            yield from fold_groups(sorted_records(file), work)
        return
    waiting = deque(files)
    with contextlib.ExitStack() as workers:
        by_link = {}
        for _ in range(max(1, min(processes, len(files)))):
            worker = _Worker(work)
            workers.callback(worker.stop)
            worker.begin(waiting.popleft())
            by_link[worker.link] = worker
        while by_link:
            for link in wait([*by_link]):
                worker = by_link[cast(Connection, link)]
                output = worker.receive()
                if output is not None:
                    yield output
                elif waiting:
                    worker.begin(waiting.popleft())
                else:
                    del by_link[worker.link]
                if output is None:
                    on_tasks(len(files) - len(waiting) - len(by_link), len(files))


class _Worker:
    """A process: it gets the work and then files, and answers each with outputs, and None at its end."""

    def __init__(self, work: FoldWork) -> None:
        self.link, theirs = Pipe()
        self._file = ""
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # this process handles Ctrl-C
                stdin=subprocess.DEVNULL,
            )
        for each in (list(sys.path), work):
            self._send(each)

    def begin(self, file: str) -> None:
        self._file = file
        self._send(file)

    def receive(self) -> Output | None:
        try:
            answer = self.link.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if isinstance(answer, str):
            raise ReplayError(answer)
        return cast("Output | None", answer)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self.link.close()

    def _send(self, value: object) -> None:
        with contextlib.suppress(OSError):  # the process has ended, which `receive` reports
            self.link.send(value)

    def _ended(self) -> ReplayError:
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        groups = sorted((group or b"").decode(errors="replace") for group in groups_in(self._file))
        return ReplayError(
            f"a process that replayed group {some_of([*map(repr, groups)], 3)} ended with {how}: a strategy "
            "ended it, or there was too little memory"
        )


def serve_files(link: Connection) -> None:
    """The main function of a worker: read the work, then fold files until there are no more."""
    os.dup2(2, 1)
    work: FoldWork = link.recv()
    # Folds make few reference cycles, and the modules need no search for cycles.
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    while True:
        try:
            file: str = link.recv()
        except EOFError:
            return
        try:
            for output in fold_groups(sorted_records(file), work):
                link.send(output)
            link.send(None)
        except Exception as error:
            link.send(f"{type(error).__name__}: {error}")
