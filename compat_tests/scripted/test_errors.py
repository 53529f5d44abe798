"""Every answer to every request of a member, in every phase, has the outcome in the table."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

import pytest

from compat_tests.scripted.broker import ScriptedBroker
from compat_tests.scripted.expected import Cell, allowed, cells, kinds_of, sample
from compat_tests.scripted.scenes import BASELINE, SCENES, Observed, play
from compat_tests.scripted.users import CLIENTS
from compat_tests.support.hang_limit import wait_for

AT_ONCE = {"aiokafka": 60, "kafka-python": 30}
"""The number of concurrent consumers."""

PHASES = tuple(dict.fromkeys(scene.phase for scene in SCENES))


def wrong(chosen: Iterable[Cell]) -> list[str]:
    """A line for each cell whose outcome differs from the table."""
    return asyncio.run(_wrong(list(chosen)))


async def _wrong(chosen: list[Cell]) -> list[str]:
    lines: list[str] = []
    places = {client: asyncio.Semaphore(at_once) for client, at_once in AT_ONCE.items()}

    async def judge(number: int, cell: Cell) -> None:
        async with places[cell.client]:
            observed = await play(broker, cell.scene, cell.client, f"cell-{number}", cell.answer)
        if line := _wrong_with(cell, observed):
            lines.append(line)

    async with ScriptedBroker() as broker:
        await asyncio.gather(*(judge(number, cell) for number, cell in enumerate(chosen)))
        lines += broker.unexpected
    # The last task of a client may still need a turn of the event loop.
    for _ in range(10):
        await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return [*lines, *(f"left: {task!r}" for task in tasks)]


def _wrong_with(cell: Cell, observed: Observed) -> str:
    expected = allowed(cell)
    if observed.labels in expected and not observed.faults:
        return ""
    return (
        f"{cell.name}: {sorted(observed.labels)}, expected {sorted(expected.must)} and perhaps "
        f"{sorted(expected.may)}; raised {observed.raised}, calls {observed.calls}, {observed.faults}"
    )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("client", CLIENTS)
def test_some_answers_of_every_kind_come_to_what_the_table_says(client: str) -> None:
    before = set(threading.enumerate())
    chosen = [cell for cell in sample() if cell.client == client]
    # The usual responses are tested too: they have no other outcome than the scene's own.
    usual = [Cell(client, scene, "late", BASELINE) for scene in SCENES]
    assert wrong([*usual, *chosen]) == []
    wait_for("the end of the consumers' threads", lambda: set(threading.enumerate()) <= before)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_answer_comes_to_what_the_table_says(client: str, phase: str) -> None:
    assert wrong(cell for cell in cells() if (cell.client, cell.scene.phase) == (client, phase)) == []


def test_the_sample_has_every_request_phase_outcome_and_broken_answer() -> None:
    assert set().union(*map(kinds_of, sample())) == set().union(*map(kinds_of, cells()))
