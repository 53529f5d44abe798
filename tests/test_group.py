"""The public values of a group, as users construct them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Set
from dataclasses import replace
from functools import partial

import pytest

from kafka_assignors import Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.strategies import RebalanceProtocol, Sticky

NAMES = ("orders", "payments")


@pytest.mark.parametrize(
    "topics",
    [frozenset(NAMES), set(NAMES), list(NAMES), (*NAMES, "orders"), dict.fromkeys(NAMES).keys()],
    ids=lambda topics: type(topics).__name__,
)
def test_topics_of_a_member_may_be_any_set_list_or_tuple(
    topics: Set[str] | list[str] | tuple[str, ...],
) -> None:
    member = Member("a", topics)
    assert type(member.topics) is frozenset
    assert member == Member("a", frozenset(NAMES))
    led = lead(Sticky(), Group.of([Topic("orders", 2)], [member]), RebalanceProtocol.EAGER)
    assert led.assignment.load("a") == 2


@pytest.mark.parametrize(
    "make", [partial(Member, "a"), lambda topics: replace(Member("a", NAMES), topics=topics)]
)
def test_a_str_as_topics_is_refused_and_the_member_is_named(make: Callable[[str], Member]) -> None:
    message = "^the topics of member 'a' are the str 'orders': give a set, list or tuple of topic names$"
    with pytest.raises(TypeError, match=message):
        make("orders")


def test_members_are_copied_pickled_and_replaced_with_all_their_fields() -> None:
    member = Member("a", NAMES, "pod-0", "eu-1a", {"orders": [0]}, 7, True, b"data")
    for same in (copy.copy(member), copy.deepcopy(member), pickle.loads(pickle.dumps(member))):
        assert same == member
    assert replace(member, rack=None) == Member("a", NAMES, "pod-0", None, {"orders": [0]}, 7, True, b"data")


def test_members_without_owned_partitions_share_no_mapping() -> None:
    assert Member("a", NAMES).owned == {}
    assert Member("a", NAMES).owned is not Member("b", NAMES).owned
