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
from typing import IO, Any, NamedTuple

from kafka_assignors.group import some_of
from kafka_assignors_spark.folds.group import (
    STATE_PLACE,
    FoldWork,
    Output,
    SortedRecord,
    fold_groups,
    sort_records,
)
from kafka_assignors_spark.local_buckets import Buckets, rows_in
from kafka_assignors_spark.result import ReplayError


class Load(NamedTuple):
    """What of a task goes to a worker."""

    texts: list[bytes]
    part: int
    state: bytes | None

    def records(self) -> list[SortedRecord]:
        found = [SortedRecord._make(row) for row in rows_in(self.texts)]
        if self.part:
            found = [record._replace(part=self.part) for record in found]
        if self.state is not None:
            place = STATE_PLACE, STATE_PLACE, None, 0
            found.append(SortedRecord(found[0].group, self.part, *place, self.state))
        return sort_records(found)


class Task(NamedTuple):
    """A bucket of records: of whole groups, or with a `part` for this part of a giant, and the state of it.
    The records are read when the task begins."""

    buckets: Buckets[Any]
    bucket: Any
    part: int = 0
    state: bytes | None = None

    def load(self) -> Load:
        return Load(self.buckets.texts(self.bucket), self.part, self.state)


_START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from kafka_assignors_spark.local_workers import serve_tasks; serve_tasks()"
)


def fold_tasks(work: FoldWork, tasks: Sequence[Task], chunk: int, processes: int) -> Iterator[list[Output]]:
    """Fold the tasks, in this process or in some others, in any order. `ReplayError` if one of them ends.

    A strategy of a user, which may end its process, never runs in this one.
    """
    of_a_user = any(not type(each).__module__.startswith("kafka_assignors.") for each in work.loaded.values())
    if not of_a_user and (processes <= 1 or len(tasks) <= 1):
        for task in tasks:
            yield list(fold_groups(task.load().records(), work, chunk))
        return
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    done: queue.SimpleQueue[list[Output] | Exception] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    workers = [_Worker(work, chunk, waiting, done) for _ in range(max(1, min(processes, len(tasks))))]
    try:
        for _ in tasks:
            got = done.get()
            if isinstance(got, Exception):
                raise got
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
        task: Task | None = None
        try:
            for each in self._first:
                self._send(each)
            while True:
                task = self._waiting.get_nowait()
                self._send(task.load())
                assert self._process.stdout is not None
                answer = pickle.load(self._process.stdout)
                if isinstance(answer, str):
                    raise ReplayError(answer)
                self._done.put(answer)
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

    def _why_ended(self, task: Task | None) -> str:
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        records = task.load().records() if task is not None else ()
        groups = sorted({(record.group or b"").decode(errors="replace") for record in records})
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
            load: Load = pickle.load(requests)
        except EOFError:
            return
        answer: object
        try:
            answer = list(fold_groups(load.records(), work, chunk))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()
