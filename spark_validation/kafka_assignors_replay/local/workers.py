"""Processes that fold groups: each a Python of its own, fed through pipes.

A worker neither imports nor runs the main program again, and inherits no lock of its threads. What a strategy
prints goes to stderr.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import IO, Any, NamedTuple

from kafka_assignors.group import some_of
from kafka_assignors_replay.folds.group import (
    STATE_PLACE,
    FoldWork,
    Output,
    SortedRecord,
    fold_groups,
    sort_records,
)
from kafka_assignors_replay.local.buckets import Buckets, Row
from kafka_assignors_replay.result import ReplayError


class Task(NamedTuple):
    """A bucket of records: of whole groups, or of a giant, with the `part` of the work and its `state`."""

    buckets: Buckets[Any]
    bucket: Any
    part: int = 0
    state: bytes | None = None

    def records(self) -> list[SortedRecord]:
        return _records(self.buckets.rows(self.bucket), self.part, self.state)


def _records(rows: Iterable[Row], part: int, state: bytes | None) -> list[SortedRecord]:
    records = [SortedRecord._make(row) for row in rows]
    if part:
        records = [record._replace(part=part) for record in records]
    if state is not None:
        place = STATE_PLACE, STATE_PLACE, None, 0
        records.append(SortedRecord(records[0].group, part, *place, state))
    return sort_records(records)


_OBJECTS = 20_000
"""Python looks for reference cycles after this many new objects."""

_START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from kafka_assignors_replay.local.workers import serve_tasks; serve_tasks()"
)


def fold_tasks(work: FoldWork, tasks: Sequence[Task], chunk: int, processes: int) -> Iterator[list[Output]]:
    """Fold the tasks, in this process or in others, in any order. `ReplayError` if another process ends.

    A user's strategy may end its process, so it never runs in this one.
    """
    of_a_user = any(not type(each).__module__.startswith("kafka_assignors.") for each in work.loaded.values())
    if not of_a_user and (processes <= 1 or len(tasks) <= 1):
        for task in tasks:
            yield list(fold_groups(task.records(), work, chunk))
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

    def __init__(
        self,
        work: FoldWork,
        chunk: int,
        waiting: queue.SimpleQueue[Task],
        done: queue.SimpleQueue[list[Output] | Exception],
    ) -> None:
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
                self._send((task.buckets.count(task.bucket), task.part, task.state))
                for text in task.buckets.texts(task.bucket):
                    self._write(text)
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
        self._write(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def _write(self, text: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def _why_ended(self, task: Task | None) -> str:
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        records = task.records() if task is not None else ()
        groups = sorted({(record.group or b"").decode(errors="replace") for record in records})
        of = some_of([*map(repr, groups)], 3)
        return (
            f"a process that replayed group {of} ended with {how}: a strategy ended it, or there was too "
            "little memory"
        )


def serve_tasks() -> None:
    """The main function of a worker: read the work, then fold tasks until there are no more."""
    requests = sys.stdin.buffer
    answers: IO[bytes] = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work, chunk = pickle.load(requests), pickle.load(requests)
    # Folds make few reference cycles, and the modules need no search for cycles.
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    while True:
        try:
            texts, part, state = pickle.load(requests)
        except EOFError:
            return
        rows = chain.from_iterable(pickle.load(requests) for _ in range(texts))
        records = _records(rows, part, state)
        answer: object
        try:
            answer = list(fold_groups(records, work, chunk))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()
