"""A member whose leader assigns what it should not."""

from __future__ import annotations

import asyncio
import math
import tracemalloc
from collections.abc import Awaitable, Callable

import pytest

from compat_tests.scripted.broker import ScriptedBroker
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import CLIENTS, TOPIC, User
from compat_tests.support.hang_limit import hang_limit
from kafka_assignors.wire import ConsumerAssignment, encode_assignment

ORDERS = [(TOPIC, number) for number in range(4)]
BOTH_CLIENTS = pytest.mark.parametrize("client", CLIENTS)

Scene = Callable[[User, Group], Awaitable[None]]


def play(client: str, scene: Scene) -> None:
    """Play a scene with a follower in a group that a scripted member leads."""

    async def run() -> None:
        async with ScriptedBroker() as broker:
            group = broker.group("misfits", {TOPIC: 4, "payments": 2}, peer_leads=True)
            user = User(broker, group, client)
            async with hang_limit():
                try:
                    await scene(user, group)
                finally:
                    await user.close()
            assert broker.unexpected == []
            assert user.raised == []

    asyncio.run(run())


def misfits(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage().partition(" to this member")[0]
        for record in caplog.records
        if "the leader 'peer' assigned" in record.getMessage()
    ]


@BOTH_CLIENTS
def test_a_topic_that_was_not_subscribed_costs_neither_the_others_nor_a_storm_of_joins(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(user: User, group: Group) -> None:
        begun = asyncio.get_running_loop().time()
        group.assigned = [*ORDERS, ("payments", 0)]
        await user.start()
        assert await user.consumes()
        # Twelve heartbeats take three seconds or more. The member rejoins after one second, then after two.
        await group.until(lambda: len(group.sent("Heartbeat")) >= 12)
        pauses = math.log2(1 + asyncio.get_running_loop().time() - begun)
        joins = len(group.sent("JoinGroup"))
        # The first join takes two requests: the coordinator gives a member id.
        assert 2 <= joins <= 2 + pauses
        assert misfits(caplog) == [
            "group 'misfits': the leader 'peer' assigned partitions of 1 topics"
        ] * len(misfits(caplog))
        assert misfits(caplog)

        group.assigned = ORDERS
        await group.until(lambda: len(group.sent("JoinGroup")) > joins)
        before, warned = len(group.requests), len(misfits(caplog))
        await group.until(lambda: len(group.sent("Heartbeat", since=before)) >= 12)
        assert not group.sent("JoinGroup", since=before)
        assert len(misfits(caplog)) == warned
        assert await user.consumes()

    play(client, scene)


@BOTH_CLIENTS
def test_a_million_partitions_are_bounded_by_what_the_metadata_show(
    client: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encode_assignment(ConsumerAssignment(0, {TOPIC: range(-5, 1_000_000)}))

    async def scene(user: User, group: Group) -> None:
        monkeypatch.setattr(group, "_of_peer", lambda: data)
        tracemalloc.start()
        try:
            await user.start()
            assert await user.consumes()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        owned = await user.client.call("assignment")
        assert {number for _, number in owned} == {*range(1004)}
        assert misfits(caplog)[0] == "group 'misfits': the leader 'peer' assigned 999001 partitions"
        assert peak < 300 * 2**20

    play(client, scene)


@BOTH_CLIENTS
def test_an_assignment_that_does_not_decode_is_an_error_that_names_the_leader(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(user: User, group: Group) -> None:
        with monkeypatch.context() as once:
            once.setattr(group, "_of_peer", lambda: b"\0\1\0\0\0\7")
            await user.start()
            await group.until(lambda: user.raised)
        assert "what the leader 'peer' assigned to this member" in str(user.raised[0])
        assert await user.consumes()
        user.raised.clear()

    play(client, scene)
