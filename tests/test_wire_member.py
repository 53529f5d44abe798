"""Whole members: how a leader reads the metadata that a member joins with."""

import pytest

from kafka_assignors import wire
from kafka_assignors.strategy import MemberContext
from tests.joining import Talkative

CONTEXT = MemberContext(frozenset({"orders", "audit"}), {"orders": [3, 1], "gone": []}, 7, "pod-0", "r1")


def named(name: str) -> Talkative:
    return Talkative(name, b"hello")


EARLIER = wire.encode_user_data(named("sticky"), MemberContext(frozenset({"orders"}), {"orders": [5]}, 4))


@pytest.mark.parametrize(
    ("strategy", "subscription", "claim"),
    [
        (
            "sticky",
            wire.Subscription(2, ("orders",), EARLIER, {"orders": [1]}, 6),
            ({"orders": (1,)}, 6, False),
        ),
        # Java's consumer learns its next generation from the JoinGroup response. If that rebalance is
        # aborted, it joins again with the new generation in the field; its user data are from its last
        # assignment.
        ("sticky", wire.Subscription(2, ("orders",), EARLIER, {}, 6), ({"orders": (5,)}, 4, True)),
        (
            "cooperative-sticky",
            wire.Subscription(1, ("orders",), b"\0\0\0\x05", {"orders": [1]}),
            ({"orders": (1,)}, 5, False),
        ),
        ("cooperative-sticky", wire.Subscription(2, ("orders",), b"", {"orders": []}, 6), ({}, 6, False)),
    ],
    ids=[
        "held partitions win over those in the user data",
        "a revoked claim keeps the generation it came with",
        "held partitions without a generation have that of the user data",
        "an owned topic without partitions is no claim",
    ],
)
def test_a_claim_is_what_is_held_or_else_in_the_user_data(
    strategy: str, subscription: wire.Subscription, claim: tuple[dict[str, tuple[int, ...]], int, bool]
) -> None:
    member = wire.decode_member(strategy, "m-1", wire.encode_subscription(subscription))
    assert (member.owned, member.generation, member.revoked) == claim


def test_a_subscription_cut_anywhere_names_the_member() -> None:
    data = wire.encode_member(named("cooperative-sticky"), CONTEXT, held=True)
    whole = wire.decode_subscription(data)
    end_of_user_data = len(wire.encode_subscription(wire.Subscription(0, whole.topics, whole.user_data)))
    for length in set(range(len(data))) - {end_of_user_data}:
        with pytest.raises(wire.ProtocolError, match="subscription of member 'm-1': ") as error:
            wire.decode_member("cooperative-sticky", "m-1", data[:length])
        assert 0 <= error.value.offset <= length


def test_an_error_in_the_user_data_counts_bytes_from_the_start_of_the_subscription() -> None:
    data = wire.encode_member(named("of-our-own"), CONTEXT, held=False)
    at = data.index(b"\xfeKAM") + 4
    with pytest.raises(wire.ProtocolError) as error:
        wire.decode_member("of-our-own", "m-1", data[:at] + b"\0\0" + data[at + 2 :])
    assert (error.value.field, error.value.offset) == ("user_data.version", at)
