"""Connections of the coordinator that fall silent, though no socket is closed; another connection works.

One of these connections may end when another broker already coordinates the group.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from compat_tests.scripted.broker import VERSIONS, Answer, Closed, Code, Held, Late, Never, Request
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import TOPIC, User, each_client
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.rebalance import lease

NOT_COORDINATOR = 16
SESSION_S = 12
"""A third of it is waited for, and a busy machine may stall for the rest."""


def is_new(group: Group) -> Callable[[Request], bool]:
    """Whether a request comes on a connection that is opened after this call."""
    known = max(one.connection for one in group.requests)
    return lambda request: request.connection > known


def silence(group: Group) -> None:
    """Answer nothing on the open connections any more."""
    opened_later = is_new(group)
    for api in VERSIONS:
        group.answer(api, Never(), times=math.inf, when=lambda request: not opened_later(request))


async def join_unanswered(group: Group, answer: Answer) -> Request:
    """Make the consumer join again; its request gets this answer."""
    since = len(group.requests)
    group.answer("JoinGroup", answer)
    group.begin_rebalance()
    await group.until(lambda: group.sent("JoinGroup", since=since))
    return group.sent("JoinGroup", since=since)[0]


async def move_coordinator(group: Group) -> None:
    """Another broker coordinates the group, and has accepted a heartbeat."""
    group.rebalancing, group.coordinator, since = False, 1, len(group.requests)
    group.answer("Heartbeat", Code(NOT_COORDINATOR))
    await group.until(lambda: is_answered(group, since))


def is_answered(group: Group, since: int) -> bool:
    return any(one.error_code == 0 for one in group.sent("Heartbeat", since=since))


async def keeps_its_lease(user: User, group: Group, since: int) -> None:
    """Wait for the response to a heartbeat; until then the member may deliver."""
    had_lease: list[bool] = []

    def is_answered_again() -> bool:
        had_lease.append(user.client.consumer._coordinator.member.has_lease(lease.clock()))
        return is_answered(group, since)

    await group.until(is_answered_again)
    assert all(had_lease)
    assert "lost" not in user.listened


@each_client(session_timeout_ms=SESSION_S * 1000)
async def test_the_lease_goes_on_when_heartbeats_have_no_answer_on_one_connection(
    user: User, group: Group
) -> None:
    since = len(group.requests)
    group.answer("Heartbeat", Never())
    await keeps_its_lease(user, group, since)


@each_client(session_timeout_ms=SESSION_S * 1000)
async def test_the_lease_goes_on_when_all_connections_are_silent_and_new_ones_are_not(
    user: User, group: Group
) -> None:
    since = len(group.requests)
    silence(group)
    await keeps_its_lease(user, group, since)
    assert await user.consumes(4)


@each_client(
    session_timeout_ms=6000,
    request_timeout_ms=int(2000 * HANG_S),
    connections_max_idle_ms=int(3000 * HANG_S),
)
async def test_a_lookup_of_the_coordinator_without_an_answer_is_tried_again(user: User, group: Group) -> None:
    since = len(group.requests)
    silence(group)
    group.answer("FindCoordinator", Never(), when=is_new(group))
    await group.until(lambda: is_answered(group, since))
    assert len(group.sent("FindCoordinator", since=since)) >= 2


@each_client(session_timeout_ms=SESSION_S * 1000, request_timeout_ms=2000)
async def test_a_join_is_waited_for_as_long_as_the_slowest_member_may_take(user: User, group: Group) -> None:
    since = len(group.requests)
    late = {"JoinGroup": Late(3.0), "SyncGroup": Late(3.0)}
    for api, answer in late.items():
        group.answer(api, answer)
    group.begin_rebalance()
    await group.until(lambda: any(one.scripted is answer and one.answered for one in group.requests))
    answered = len(group.requests)
    await group.until(lambda: is_answered(group, answered))
    assert [len(group.sent(api, since=since)) for api in late] == [1, 1]


@each_client()
async def test_records_and_commits_flow_while_a_join_has_no_answer(user: User, group: Group) -> None:
    released = asyncio.Event()
    join = await join_unanswered(group, Held(released))
    assert await user.consumes(40)
    assert await user.call("commit", {user.partition(TOPIC, 0): 5}) == "ok"
    assert group.committed[TOPIC, 0] == 5
    assert not join.answered
    released.set()


@each_client(session_timeout_ms=SESSION_S * 1000)
async def test_a_join_without_an_answer_is_given_up_when_the_membership_is_gone(
    user: User, group: Group
) -> None:
    await join_unanswered(group, Never())
    group.rebalancing = False
    group.remove_member()
    await group.until(lambda: "lost" in user.listened)
    await group.until(lambda: user.told[-1] == ("assigned", [0, 1, 2, 3]))


@each_client(session_timeout_ms=SESSION_S * 1000, group_instance_id="pod-1")
async def test_a_join_without_an_answer_is_given_up_when_a_static_member_unsubscribes(
    user: User, group: Group
) -> None:
    await join_unanswered(group, Never())
    assert await user.call("unsubscribe") == "ok"
    assert await user.call("subscribe") == "ok"
    await group.until(lambda: user.listened == ["assigned", "revoked", "assigned"])


@each_client(session_timeout_ms=SESSION_S * 1000, of_group={"nodes": 2})
async def test_a_join_that_is_given_up_ends_on_the_broker_that_it_was_sent_to(
    user: User, group: Group
) -> None:
    join = await join_unanswered(group, Never())
    await move_coordinator(group)
    group.remove_member()
    await group.until(lambda: user.listened == ["assigned", "lost", "assigned"])
    await group.until(lambda: not user.broker.is_open(join.connection))


@each_client(session_timeout_ms=SESSION_S * 1000, of_group={"nodes": 2})
async def test_a_join_that_fails_on_an_old_coordinator_does_not_make_the_new_one_unknown(
    user: User, group: Group
) -> None:
    failing = asyncio.Event()
    await join_unanswered(group, Held(failing, then=Closed()))
    await move_coordinator(group)
    failing_at = len(group.requests)
    failing.set()
    await group.until(lambda: group.sent("SyncGroup", since=failing_at))
    assert not group.sent("FindCoordinator", since=failing_at)
