"""Repeated actions of a consumer must not add objects: counts after rounds of repetitions, without times."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import gc
import itertools
import os
from collections.abc import Mapping, Sequence

from kafka.future import Future

ROUNDS = 5
"""The first round fills caches and pools; growth counts only if each of the other rounds adds it."""

_FUTURES = (asyncio.Future, concurrent.futures.Future, Future)
_CALLBACKS = ("_callbacks", "_errbacks", "_done_callbacks")


def sample() -> Mapping[str, int]:
    """The objects of each type in this process after a full collection of garbage, tasks and threads too.

    Also the callbacks of futures, which may be one object many times, and the open descriptors.
    """
    gc.collect()
    objects = gc.get_objects()
    types = collections.Counter(map(type, objects))
    futures = [each for each in objects if issubclass(type(each), _FUTURES)]
    del objects
    counts: collections.Counter[str] = collections.Counter()
    for each, number in types.items():
        counts[f"{each.__module__}.{each.__qualname__}"] += number
    counts["callbacks"] = sum(len(getattr(one, name, None) or ()) for one in futures for name in _CALLBACKS)
    counts["fds"] = len(os.listdir("/proc/self/fd")) - 1  # The listing itself opens one.
    return counts


def added_by_each_round(samples: Sequence[Mapping[str, int]], repetitions: int) -> dict[str, int]:
    """What every round adds at least three of for four repetitions."""
    added = {
        name: min(after.get(name, 0) - before.get(name, 0) for before, after in itertools.pairwise(samples))
        for name in sorted(set().union(*samples))
    }
    return {name: number for name, number in added.items() if number >= 0.75 * repetitions}
