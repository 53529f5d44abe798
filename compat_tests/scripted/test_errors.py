"""Every answer to every request of a member, in every phase, has the outcome in the table."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from compat_tests.scripted.broker import Code, ScriptedBroker
from compat_tests.scripted.expected import Cell, allowed, cells, kinds_of, sample
from compat_tests.scripted.model import Group
from compat_tests.scripted.scenes import BASELINE, SCENES, Observed, play
from compat_tests.scripted.users import CLIENTS, TOPIC, consuming
from compat_tests.support.hang_limit import wait_for
from kafka_assignors.group import Assignment
from kafka_assignors.group import Group as Members
from kafka_assignors.solver import solve
from kafka_assignors.strategies import CooperativeSticky
from kafka_assignors_aiokafka import assignor as for_aiokafka
from kafka_assignors_kafka_python import assignor as for_kafka_python

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


# ---- joins that fail while the user makes other calls than those for records

UNKNOWN_SERVER_ERROR, GROUP_AUTHORIZATION_FAILED = -1, 30


@dataclass(frozen=True)
class Faulty(CooperativeSticky):
    """Raises its faults, one at a time."""

    name = "faulty"
    faults: list[Exception] = field(default_factory=list)

    def assign(self, group: Members) -> Assignment:
        if self.faults:
            raise self.faults.pop()
        return solve(group, group.claims, self.criteria)


def undecodable(group: Group, _: object) -> None:
    assigned = group._of_peer
    answers = [b"\xff"]
    group.peer_leads = True
    group._of_peer = lambda: answers.pop() if answers else assigned()  # type: ignore[method-assign]


FAILURES: dict[str, Callable[[Group, list[Exception]], None]] = {
    "JoinGroup is refused": lambda group, _: group.answer("JoinGroup", Code(GROUP_AUTHORIZATION_FAILED)),
    "SyncGroup is refused": lambda group, _: group.answer("SyncGroup", Code(UNKNOWN_SERVER_ERROR)),
    "the assignment does not decode": undecodable,
    "the strategy fails once": lambda _, faults: faults.append(ZeroDivisionError()),
    "the strategy fails for ever": lambda _, faults: faults.extend([ZeroDivisionError()] * 1000),
}
LATE = {"request_timeout_ms": 500_000, "session_timeout_ms": 400_000, "max_poll_interval_ms": 1_200_000}
"""A call that waits for one of them hangs."""


async def call_after(failure: str, client: str, method: str) -> None:
    """Call a method between two polls when a join has failed; the listener commits what is revoked."""
    strategy, is_for_ever = Faulty(), failure == "the strategy fails for ever"
    offered = [(for_aiokafka if client == "aiokafka" else for_kafka_python)(strategy)]
    automatic = {"enable_auto_commit": True, "auto_commit_interval_ms": 1_000_000}
    async with consuming(client, partition_assignment_strategy=offered, **automatic, **LATE) as (user, group):
        await user.rest()
        user.commit_when = {"revoked"}
        since = len(group.requests)
        FAILURES[failure](group, strategy.faults)
        group.begin_rebalance()
        await group.until(lambda: group.sent("JoinGroup", since=since))
        joined = len(group.requests)
        await group.until(lambda: len(group.sent("Heartbeat", since=joined)) > 1)
        if method == "close":
            await user.close()
        else:
            arguments = [{user.partition(TOPIC, 0): 5}] if method == "commit" else []
            fails = method == "commit" and is_for_ever
            assert await user.call(method, *arguments) == ("CommitFailedError" if fails else "ok")
        assert len(group.sent("JoinGroup", since=since)) <= (1 if method == "group_metadata" else 3)
        if method in ("commit", "group_metadata"):
            user.polls.set()
            await group.until(lambda: user.raised)
            assert await user.consumes(40) is not is_for_ever
            assert is_for_ever or len(user.raised) == 1
        else:
            await group.until(lambda: group.sent("LeaveGroup"))
            if client == "kafka-python" and not is_for_ever:
                assert set(user.commits) == {"ok"}
                assert len(group.committed) == 4


@pytest.mark.parametrize(
    ("client", "method"),
    [
        *(("kafka-python", method) for method in ("group_metadata", "commit", "unsubscribe", "close")),
        *(("aiokafka", method) for method in ("commit", "close")),
    ],
)
def test_a_join_that_fails_between_two_polls_keeps_no_call_waiting_for_the_next(
    client: str, method: str
) -> None:
    """The error waits for the next poll, and the user, on the same thread, for the call."""

    async def run() -> None:
        await asyncio.gather(*(call_after(failure, client, method) for failure in FAILURES))

    asyncio.run(run())
