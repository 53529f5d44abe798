"""Processes that fold groups: each a Python of its own, fed through pipes.

Nothing is imported or run again from the main program, and no lock is inherited from its threads. What a
strategy prints goes to stderr.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Any

from kafka_assignors.group import some_of
from kafka_assignors_spark.folds.group import FoldWork, Output, SortedRecord, fold_groups
from kafka_assignors_spark.result import ReplayError

Task = Sequence[SortedRecord]
"""All records of some groups."""

_START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from kafka_assignors_spark.local_workers import serve_tasks; serve_tasks()"
)


def fold_tasks(
    work: FoldWork, tasks: Sequence[Task], chunk: int, processes: int
) -> Iterator[tuple[Task, list[Output]]]:
    """Fold the tasks, in this process or in some others, in any order. `ReplayError` if one of them ends.

    A strategy of a user, which may end its process, never runs in this one.
    """
    of_a_user = any(not type(each).__module__.startswith("kafka_assignors.") for each in work.loaded.values())
    if not of_a_user and (processes <= 1 or len(tasks) <= 1):
        for task in tasks:
            yield task, list(fold_groups(task, work, chunk))
        return
    waiting: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Task, list[Output]] | Exception | None] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    workers = [_Worker(work, chunk, waiting, done) for _ in range(max(1, min(processes, len(tasks))))]
    try:
        for _ in tasks:
            got = done.get()
            if isinstance(got, Exception):
                raise got
            assert got is not None
            yield got
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process, and the thread that feeds it."""

    def __init__(self, work: FoldWork, chunk: int, waiting: Any, done: Any) -> None:
        self._waiting, self._done = waiting, done
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # this process handles Ctrl-C
        )
        self._first = (list(sys.path), work, chunk)
        self._thread = threading.Thread(target=self._feed, name="replay-worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()

    def _feed(self) -> None:
        task: Task = ()
        try:
            for each in self._first:
                self._send(each)
            while True:
                task = self._waiting.get_nowait()
                self._send(task)
                assert self._process.stdout is not None
                answer = pickle.load(self._process.stdout)
                if isinstance(answer, str):
                    raise ReplayError(answer)
                self._done.put((task, answer))
        except queue.Empty:
            return
        except (EOFError, OSError, pickle.UnpicklingError):
            self._done.put(ReplayError(self._why_ended(task)))
        except Exception as error:
            self._done.put(error)

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None
        pickle.dump(value, self._process.stdin, pickle.HIGHEST_PROTOCOL)
        self._process.stdin.flush()

    def _why_ended(self, task: Task) -> str:
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        groups = sorted({(record.group or b"").decode(errors="replace") for record in task})
        of = some_of([*map(repr, groups)], 3)
        return (
            f"a process that replayed group {of} ended with {how}: a strategy ended it, or there was too "
            "little memory"
        )


def serve_tasks() -> None:
    """What a worker does: read the work, then a task after the other until there are no more."""
    requests = sys.stdin.buffer
    answers: IO[bytes] = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work, chunk = pickle.load(requests), pickle.load(requests)
    while True:
        try:
            task = pickle.load(requests)
        except EOFError:
            return
        answer: object
        try:
            answer = list(fold_groups(task, work, chunk))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()
