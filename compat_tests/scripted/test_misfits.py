"""A member whose leader assigns what it should not."""

from __future__ import annotations

import math

import pytest

from compat_tests.scripted.model import Group
from compat_tests.scripted.users import TOPIC, User, each_client

ORDERS = [(TOPIC, number) for number in range(4)]


def misfits(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage().partition(" to this member")[0]
        for record in caplog.records
        if "the leader 'peer' assigned" in record.getMessage()
    ]


@each_client(
    of_group={
        "topics": {TOPIC: 4, "payments": 2},
        "peer_leads": True,
        "assigned": [*ORDERS, ("payments", 0)],
    },
    consumes=0,
)
async def test_a_topic_that_was_not_subscribed_costs_neither_the_others_nor_a_storm_of_joins(
    user: User, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    begun = user.loop.time()
    await user.start()
    # Twelve heartbeats take three seconds or more. The member rejoins after one second, then two.
    await group.until(lambda: len(group.sent("Heartbeat")) >= 12)
    pauses = math.log2(1 + user.loop.time() - begun)
    joins = len(group.sent("JoinGroup"))
    # The first join takes two requests: the coordinator gives a member id.
    assert 2 <= joins <= 2 + pauses
    assert {*misfits(caplog)} == {"group 'group': the leader 'peer' assigned partitions of 1 topics"}

    group.assigned = ORDERS
    await group.until(lambda: len(group.sent("JoinGroup")) > joins)
    before, warned = len(group.requests), misfits(caplog)
    await group.until(lambda: len(group.sent("Heartbeat", since=before)) >= 12)
    assert not group.sent("JoinGroup", since=before)
    assert misfits(caplog) == warned
    assert await user.consumes()
    assert user.raised == []


@each_client(of_group={"peer_leads": True}, consumes=0)
async def test_an_assignment_that_does_not_decode_is_an_error_that_names_the_leader(
    user: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as once:
        once.setattr(group, "_of_peer", lambda: b"\0\1\0\0\0\7")
        await user.start()
        await group.until(lambda: user.raised)
    assert "what the leader 'peer' assigned to this member" in str(user.raised[0])
    assert await user.consumes()
