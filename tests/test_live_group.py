"""Groups as a running cluster shows them, and the group that a strategy would get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_assignors.group import Topic
from kafka_assignors.wire import Subscription, encode_subscription
from kafka_assignors_ops.live_group import LiveGroup, LiveMember, UnknownOwnersError, as_group

ORDERS = {"orders": Topic("orders", 4, tuple(frozenset({rack}) for rack in "aabb"))}


def member(name: str, *owned: int, generation: int = -1, rack: str | None = None) -> LiveMember:
    """A member of a classic group that subscribes to orders."""
    joined = Subscription(3, ("orders",), generation=generation, rack=rack)
    one = LiveMember(name, name, "127.0.0.1", assigned={"orders": owned} if owned else {})
    return one.with_metadata(encode_subscription(joined))


def group(*members: LiveMember, state: str = "Stable", **fields: object) -> LiveGroup:
    return LiveGroup("g", "classic", state, "range", members=members, topics=ORDERS, **fields)  # type: ignore[arg-type]


def test_members_of_a_live_group_own_their_partitions_in_one_generation() -> None:
    hidden = LiveMember("h", "h", "127.0.0.1", assigned={})
    seen = as_group(group(member("a", 2, 0, generation=7, rack="a"), member("b", 1), member("c"), hidden))
    owned = {name: (dict(one.owned), one.generation) for name, one in seen.members.items()}
    assert owned == {"a": ({"orders": [0, 2]}, 8), "b": ({"orders": [1]}, 8), "c": ({}, -1), "h": ({}, -1)}
    assert seen.members["a"].rack == "a"
    assert seen.generation is None
    # A member whose subscription is hidden is taken to subscribe to everything.
    assert seen.members["h"].topics == {"orders"}


def test_a_member_whose_bytes_do_not_decode_subscribes_to_nothing() -> None:
    garbage = LiveMember("h", "h", "127.0.0.1", assigned={}).with_metadata(b"\xff")
    assert garbage.problem is not None
    assert garbage.topics is None
    assert as_group(group(member("a", 0), garbage)).members["h"].topics == frozenset()


def test_a_group_that_rebalances_owns_nothing_that_one_could_know() -> None:
    live = group(LiveMember("a", "a", "127.0.0.1"), state="PreparingRebalance")
    assert live.loads is None
    with pytest.raises(UnknownOwnersError, match="PreparingRebalance"):
        as_group(live)


def test_without_the_right_to_describe_a_topic_the_balance_is_not_known() -> None:
    live = replace(group(member("a", 0)), topics={}, hidden_topics=frozenset({"orders"}))
    assert live.loads == (1,)
    with pytest.raises(UnknownOwnersError, match="it needs Describe on Topic 'orders'"):
        as_group(live)
