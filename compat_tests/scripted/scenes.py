"""The phases of a consumer, and scenes in which exactly one request of a phase gets the scripted answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compat_tests.scripted.broker import Answer, Code, Held, Late, Never, Request, ScriptedBroker
from compat_tests.scripted.model import MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, Group
from compat_tests.scripted.users import TOPIC, User
from compat_tests.support.hang_limit import hang_limit

PARTITIONS = 2
NOT_COORDINATOR, FENCED_INSTANCE_ID = 16, 82


@dataclass(frozen=True, slots=True)
class Scene:
    """One request in one phase. `in_partitions`: its errors are in the partitions of the response."""

    phase: str
    api: str
    act: Callable[[_Cell], Awaitable[None]]
    peer_leads: bool = False
    in_partitions: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.phase}: {self.api}{' (in its partitions)' if self.in_partitions else ''}"


@dataclass(frozen=True, slots=True)
class Observed:
    """The result of one cell.

    Attributes:
        labels: "raised" (once, by a call for records or by the call in flight), "fatal", "lost" (the
            listener was called, or the member forgot its id), "looked up", "rejoined".
        faults: behaviour that no answer may cause.
    """

    labels: frozenset[str]
    raised: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class _Cell:
    def __init__(self, user: User, scene: Scene, answer: Answer) -> None:
        self.group, self.user, self.scene, self.answer = user.group, user, scene, answer
        self.since = self.raised_before = self.listened_before = 0
        self.calls: list[str] = []

    def arm(
        self, *, when: Callable[[Request], bool] = lambda _: True, held: asyncio.Event | None = None
    ) -> None:
        """Give the answer to the scene's next request."""
        if held is not None:
            self.answer = Held(held, self.answer)
        self.since = len(self.group.requests)
        self.raised_before, self.listened_before = len(self.user.raised), len(self.user.listened)
        self.group.answer(self.scene.api, self.answer, when=when)

    async def hit(self) -> None:
        """Wait until a request got the answer."""
        await self.group.until(
            lambda: any(one.scripted is self.answer and one.answered for one in self.group.requests)
        )

    async def sent(self, api: str) -> None:
        """Wait until the next request of this API arrives."""
        since = len(self.group.requests)
        await self.group.until(lambda: self.group.sent(api, since=since))

    async def started(self) -> None:
        """Start the consumer, and wait for records."""
        await self.user.start()
        assert await self.user.consumes()

    async def call(self, method: str, *arguments: Any) -> None:
        self.calls.append(await self.user.call(method, *arguments))


async def _first_join(cell: _Cell) -> None:
    if cell.scene.api == "Metadata":
        cell.arm(when=lambda request: bool(request.body.topics))
    else:
        cell.arm()
    await cell.user.start()
    await cell.hit()


async def _rejoin(cell: _Cell) -> None:
    await cell.started()
    cell.arm()
    cell.group.begin_rebalance()
    await cell.hit()


def _while_held(held: str) -> Callable[[_Cell], Awaitable[None]]:
    """The request arrives while JoinGroup or SyncGroup is unanswered."""

    async def act(cell: _Cell) -> None:
        await cell.started()
        released = asyncio.Event()
        cell.group.answer(held, Held(released))
        cell.group.begin_rebalance()
        await cell.group.until(lambda: any(isinstance(one.scripted, Held) for one in cell.group.requests))
        cell.arm()
        calling: asyncio.Future[None] | None = None
        if cell.scene.api == "OffsetCommit":
            calling = asyncio.ensure_future(cell.call("commit", {cell.user.partition(TOPIC, 0): 5}))
        if cell.scene.api == "FindCoordinator":
            cell.group.answer("Heartbeat", Code(NOT_COORDINATOR))
        await cell.hit()
        if cell.scene.api == "Heartbeat":
            # A response to a heartbeat that is read after the response to the join counts no more.
            since = len(cell.group.requests)
            with contextlib.suppress(TimeoutError):
                await cell.group.until(
                    lambda: cell.user.raised or cell.group.sent("Heartbeat", since=since), limit_s=2.0
                )
        released.set()
        if calling is not None:
            await calling

    return act


async def _stable(cell: _Cell) -> None:
    await cell.started()
    cell.arm()
    match cell.scene.api:
        case "OffsetCommit":
            await cell.call("commit", {cell.user.partition(TOPIC, 0): 5})
        case "OffsetFetch":
            await cell.call("committed", cell.user.partition(TOPIC, 0))
        case "ListOffsets":
            await cell.call("end_offsets", [cell.user.partition(TOPIC, 0)])
        case "FindCoordinator":
            cell.group.answer("Heartbeat", Code(NOT_COORDINATOR))
        case "LeaveGroup":
            await cell.call("unsubscribe")
    await cell.hit()
    if cell.scene.api == "LeaveGroup":
        await cell.call("subscribe")


async def _revoking(cell: _Cell) -> None:
    await cell.started()
    user, group = cell.user, cell.group
    user.held = {"revoked"}
    group.assigned = [(TOPIC, 1)]
    group.begin_rebalance()
    await user.entered.wait()
    cell.arm()
    if cell.scene.api == "OffsetCommit":
        user.commit_when = {"revoked"}
        user.released.set()
    if cell.scene.api == "FindCoordinator":
        group.answer("Heartbeat", Code(NOT_COORDINATOR))
    await cell.hit()
    user.released.set()


async def _lost(cell: _Cell) -> None:
    await cell.started()
    cell.user.held = {"lost"}
    cell.group.answer("Heartbeat", Code(UNKNOWN_MEMBER_ID))
    await cell.user.entered.wait()
    cell.arm()
    cell.user.released.set()
    await cell.hit()


async def _stalled(cell: _Cell) -> None:
    await cell.started()
    if cell.scene.api == "LeaveGroup":
        cell.arm()
    cell.user.polls.clear()
    await cell.sent("LeaveGroup")
    if cell.scene.api == "LeaveGroup":
        await cell.hit()
        cell.user.polls.set()
        return
    cell.arm()
    cell.user.polls.set()
    await cell.hit()


async def _closing(cell: _Cell) -> None:
    await cell.started()
    user, group = cell.user, cell.group
    released = asyncio.Event()
    api = cell.scene.api
    if api in ("JoinGroup", "SyncGroup"):
        cell.arm(held=released)
        group.begin_rebalance()
        await cell.sent(api)
    if api in ("OffsetCommit", "LeaveGroup"):
        user.commit_when = {"revoked"} if api == "OffsetCommit" else set()
        cell.arm()
        await user.close()
        return
    # The consumer is closing for as long as its listener runs.
    user.held = {"revoked", "lost"}
    closing = asyncio.ensure_future(user.close())
    await user.entered.wait()
    if api == "FindCoordinator":
        cell.arm()
        user.commit_when = {"revoked"}
        group.answer("Heartbeat", Code(NOT_COORDINATOR))
    elif api == "Heartbeat":
        cell.arm()
    released.set()
    await cell.hit()
    user.released.set()
    await closing


SCENES: tuple[Scene, ...] = (
    *(Scene("first join", api, _first_join) for api in ("FindCoordinator", "JoinGroup", "Metadata")),
    Scene("first join", "OffsetFetch", _first_join),
    Scene("first join", "OffsetFetch", _first_join, in_partitions=True),
    # kafka-python repeats the lookup of a partition missing from the response after `request_timeout_ms`.
    Scene("first join", "ListOffsets", _first_join, settings={"request_timeout_ms": 10_000}),
    Scene("first join", "SyncGroup", _first_join, peer_leads=True),
    Scene("rejoining", "JoinGroup", _rejoin),
    *(
        Scene("rejoining", api, _while_held("JoinGroup"))
        for api in ("Heartbeat", "OffsetCommit", "FindCoordinator")
    ),
    Scene("syncing as a follower", "SyncGroup", _rejoin, peer_leads=True),
    Scene("syncing as a follower", "Heartbeat", _while_held("SyncGroup"), peer_leads=True),
    Scene("syncing as the leader", "SyncGroup", _rejoin),
    *(
        Scene("stable", api, _stable)
        for api in (
            "Heartbeat",
            "OffsetCommit",
            "OffsetFetch",
            "ListOffsets",
            "FindCoordinator",
            "LeaveGroup",
        )
    ),
    Scene("stable", "Metadata", _stable, settings={"metadata_max_age_ms": 400}),
    *(
        Scene("revoking", api, _revoking, peer_leads=True)
        for api in ("Heartbeat", "OffsetCommit", "FindCoordinator")
    ),
    Scene("lost", "JoinGroup", _lost),
    Scene("lost", "SyncGroup", _lost, peer_leads=True),
    *(
        Scene("stalled", api, _stalled, settings={"max_poll_interval_ms": 2500})
        for api in ("LeaveGroup", "JoinGroup")
    ),
    *(
        Scene("closing", api, _closing)
        for api in ("OffsetCommit", "LeaveGroup", "Heartbeat", "FindCoordinator", "JoinGroup", "SyncGroup")
    ),
)


async def play(broker: ScriptedBroker, scene: Scene, client: str, name: str, answer: Answer) -> Observed:
    """Reach the phase, give the answer, and observe the consumer until it is closed."""
    group = broker.group(name, {TOPIC: PARTITIONS}, peer_leads=scene.peer_leads, fetch_wait_s=0.1)
    # A short timeout ends the wait for a response that never comes. In all other cells the timeouts are too
    # long to matter, even if the process gets no processor time for minutes.
    short = isinstance(answer, Never)
    timeouts = {
        "session_timeout_ms": 6000 if short else 400_000,
        "request_timeout_ms": 4000 if short else 500_000,
        "max_poll_interval_ms": 12_000 if short else 1_200_000,
    }
    user = User(broker, group, client, **{**timeouts, **scene.settings})
    cell = _Cell(user, scene, answer)
    faults: list[str] = []
    try:
        async with hang_limit():
            await scene.act(cell)
    except Exception as error:
        faults.append(f"the scene did not come about: {error!r}")
    labels: set[str] = set()
    try:
        if not user.is_closed and not faults and not await _comes_to_rest(user, group):
            labels.add("fatal")
    except TimeoutError:
        faults.append("it does not consume again")
    raised = tuple(type(error).__name__ for error in user.raised[cell.raised_before :])
    labels |= _labels(cell, raised)
    try:
        async with hang_limit():
            await user.close()
            await group.until(lambda: not broker.connections(name))
    except TimeoutError:
        faults.append(f"close hangs, or leaves {broker.connections(name)} connections")
    except Exception as error:
        faults.append(f"close raised {error!r}")
    if group.has_member and not _may_stay(cell):
        faults.append("close did not leave the group")
    if left := user.client.leftovers():
        faults.append(f"close left {left}")
    if "fatal" not in labels and len(raised) > 1:
        faults.append(f"raised {len(raised)} times")
    return Observed(frozenset(labels), raised, (*cell.calls, *user.commits), tuple(faults))


_NOT_A_MEMBER = (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID)


def _may_stay(cell: _Cell) -> bool:
    """Whether the coordinator has a reason to still have the member.

    LeaveGroup was refused or lost, and no consumer repeats it. Or the coordinator has answered that the
    member is unknown or fenced. Or the consumer closes while it gets no response. Or the member left with its
    present id before it read a response with a new one, which the coordinator drops after a session timeout.
    """
    said = cell.answer.then if isinstance(cell.answer, Held) else cell.answer
    code = said.error_code if isinstance(said, Code) else 0
    is_closing = cell.scene.phase == "closing"
    leaves = [one for one in cell.group.requests if one.api == "LeaveGroup"]
    return (
        any(one.scripted is not None for one in leaves)
        or code in _NOT_A_MEMBER
        or (is_closing and isinstance(said, Never))
        or (is_closing and code == MEMBER_ID_REQUIRED and bool(leaves))
    )


async def _comes_to_rest(user: User, group: Group) -> bool:
    """Wait until the user gets records and the last two group requests are accepted heartbeats."""

    def is_quiet() -> bool:
        last = [one for one in group.requests if one.api not in ("Fetch", "Metadata", "ApiVersions")][-2:]
        return len(last) == 2 and all(one.api == "Heartbeat" and one.error_code == 0 for one in last)

    await group.until(lambda: is_quiet() or user.is_fatal)
    return await user.consumes()


def _labels(cell: _Cell, raised: tuple[str, ...]) -> set[str]:
    group, user = cell.group, cell.user
    labels = set()
    if raised or any(outcome != "ok" for outcome in (*cell.calls, *user.commits)):
        labels.add("raised")
    joins = group.sent("JoinGroup", since=cell.since)
    ids = [one.body.member_id for one in group.sent("JoinGroup")]
    forgot = any(before and not after for before, after in itertools.pairwise(ids))
    if "lost" in user.listened[cell.listened_before :] or forgot:
        labels.add("lost")
    if joins:
        labels.add("rejoined")
    if group.sent("FindCoordinator", since=cell.since):
        labels.add("looked up")
    return labels


BASELINE = Late(0.0)
"""The usual response."""
