"""Repeated actions of a consumer must not add objects: counts after rounds of repetitions, without times."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import gc
import itertools
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ROUNDS = 5
"""The first round fills caches and pools; growth counts only if each of the other rounds adds it."""


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
Sample = tuple[Counts, dict[str, int]]


def sample() -> Sample:
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


def added_by_each_round(samples: Sequence[Sample], repetitions: int) -> dict[str, int]:
    """The measures and types to which every round adds at least three objects for four repetitions."""
    names = {name for _, types in samples for name in types}

    def least(numbers: Sequence[int]) -> int:
        return min(after - before for before, after in itertools.pairwise(numbers))

    added = {name: least([types.get(name, 0) for _, types in samples]) for name in names}
    added |= {name: least([getattr(counts, name) for counts, _ in samples]) for name in MEASURES}
    return {name: number for name, number in sorted(added.items()) if number >= 0.75 * repetitions}
