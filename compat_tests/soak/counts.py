"""The counts of a process at one moment: futures and their callbacks, tasks, threads, descriptors."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import gc
import os
import sys
import threading
from dataclasses import dataclass
from typing import Any

__all__ = ["MEASURES", "Counts", "count"]


@dataclass(frozen=True, slots=True)
class Counts:
    """A sample of one process, after a full collection of garbage.

    Attributes:
        callbacks: of all futures that are not done.
        most_callbacks: the most callbacks of a single future.
        futures: futures of asyncio (without tasks), of `concurrent.futures` and of kafka-python.
    """

    callbacks: int
    most_callbacks: int
    futures: int
    tasks: int
    threads: int
    fds: int


MEASURES = tuple(Counts.__dataclass_fields__)


def count() -> tuple[Counts, dict[str, int]]:
    """The counts of this process, and the number of objects of each type."""
    gc.collect()
    objects = gc.get_objects()
    types = collections.Counter(map(type, objects))
    kinds = _future_types(types)
    futures = [each for each in objects if type(each) in kinds]
    del objects
    callbacks = [_callbacks(each) for each in futures]
    tasks = sum(isinstance(each, asyncio.Task) for each in futures)
    counts = Counts(
        callbacks=sum(callbacks),
        most_callbacks=max(callbacks, default=0),
        futures=len(futures) - tasks,
        tasks=tasks,
        threads=threading.active_count(),
        fds=len(os.listdir("/proc/self/fd")) - 1,  # The listing itself opens one.
    )
    named: collections.Counter[str] = collections.Counter()
    for each, number in types.items():
        named[f"{each.__module__}.{each.__qualname__}"] += number
    return counts, dict(named)


def _future_types(types: collections.Counter[type]) -> set[type]:
    bases: tuple[type, ...] = (asyncio.Future, concurrent.futures.Future)
    kafka_future = sys.modules.get("kafka.future")
    if kafka_future is not None:
        bases = (*bases, kafka_future.Future)
    return {each for each in types if issubclass(each, bases)}


def _callbacks(future: Any) -> int:
    lists = ("_callbacks", "_errbacks", "_done_callbacks")
    return sum(len(getattr(future, name, None) or ()) for name in lists)
