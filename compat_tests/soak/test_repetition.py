"""What rounds of repetitions say of what is kept."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping

from compat_tests.soak.repetition import added_by_each_round, sample


class Kept:
    """A type of which the rest of the process has no objects."""


KEPT = f"{Kept.__module__}.{Kept.__qualname__}"


def rounds(*added: int) -> list[Mapping[str, int]]:
    kept: list[Kept] = []
    samples = []
    for number in added:
        kept += [Kept() for _ in range(number)]
        samples.append(sample())
    return samples


def test_an_object_that_each_repetition_keeps_is_reported() -> None:
    assert added_by_each_round(rounds(10, 10, 10), 10)[KEPT] == 10


def test_objects_that_a_single_round_adds_are_not_reported() -> None:
    assert KEPT not in added_by_each_round(rounds(0, 10, 0), 10)


def test_callbacks_descriptors_tasks_and_threads_are_counted() -> None:
    async def count() -> None:
        loop = asyncio.get_running_loop()
        future, over = loop.create_future(), threading.Event()
        before = sample()
        descriptor, task = os.open("/dev/null", os.O_RDONLY), loop.create_task(asyncio.sleep(60))
        for _ in range(2):
            future.add_done_callback(print)
        thread = threading.Thread(target=over.wait)
        thread.start()
        after = sample()
        os.close(descriptor)
        over.set()
        task.cancel()
        names = ("fds", "_asyncio.Task", "callbacks", "threading.Thread")
        assert [after[name] - before.get(name, 0) for name in names] == [1, 1, 2, 1]

    asyncio.run(count())
