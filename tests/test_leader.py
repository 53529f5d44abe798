"""The assignments that a leader sends: valid, and without partitions that another member still holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kafka_assignors.group import Assignment, Group, Member, Topic, TopicPartitions
from kafka_assignors.leader import InvalidAssignmentError, check_assignment, lead
from kafka_assignors.strategy import RebalanceProtocol, Strategy

COOPERATIVE, EAGER = RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER
ORDERS = frozenset({"orders"})


@dataclass(frozen=True)
class Always(Strategy):
    """A strategy that returns a fixed answer."""

    answer: object
    name: str = "always"
    protocols: tuple[RebalanceProtocol, ...] = (COOPERATIVE, EAGER)

    def assign(self, group: Group) -> Assignment:
        return self.answer  # type: ignore[return-value]


def orders(partitions: int, *members: Member, generation: int | None = None) -> Group:
    return Group.of([Topic("orders", partitions)], members, generation)


def member(member_id: str, *owned: int, generation: int = 3, revoked: bool = False) -> Member:
    claim: TopicPartitions = {"orders": list(owned)} if owned else {}
    return Member(member_id, ORDERS, owned=claim, generation=generation, revoked=revoked)


def of_orders(**shares: list[int]) -> Assignment:
    return Assignment({m: {"orders": partitions} if partitions else {} for m, partitions in shares.items()})


class TestWithholding:
    def test_a_partition_waits_until_its_owner_has_revoked_it(self) -> None:
        led = lead(Always(of_orders(a=[0], b=[1])), orders(2, member("a", 0, 1), member("b")), COOPERATIVE)
        assert led.assignment == of_orders(a=[0], b=[])
        assert led.target == of_orders(a=[0], b=[1])
        assert led.withheld == {"b": {"orders": [1]}}

    def test_a_range_of_partitions_is_split_like_a_list(self) -> None:
        answer = Assignment({"a": {}, "b": {"orders": range(3)}})
        led = lead(Always(answer), orders(3, member("a", 1), member("b")), COOPERATIVE)
        assert led.assignment == of_orders(a=[], b=[0, 2])

    @pytest.mark.parametrize(("generation", "why"), [(3, "tied"), (2, "older"), (99, "not reached")])
    def test_a_claim_that_does_not_count_still_makes_others_wait(self, generation: int, why: str) -> None:
        group = orders(1, member("a", 0, generation=generation), member("b", 0), generation=5)
        led = lead(Always(of_orders(a=[0], b=[])), group, COOPERATIVE)
        assert led.assignment == of_orders(a=[], b=[]), why

    def test_a_member_does_not_wait_for_itself_even_if_its_claim_does_not_count(self) -> None:
        group = orders(1, member("a", 0, generation=99), member("b"), generation=5)
        assert lead(Always(of_orders(a=[0], b=[])), group, COOPERATIVE).assignment == of_orders(a=[0], b=[])

    def test_no_member_waits_for_partitions_that_an_eager_member_has_revoked(self) -> None:
        group = orders(1, member("a", 0, revoked=True), member("b"))
        assert not lead(Always(of_orders(a=[], b=[0])), group, COOPERATIVE).withheld

    def test_an_eager_member_waits_for_what_another_holds_even_if_the_eager_one_owned_it_last(self) -> None:
        group = orders(1, member("a", 0, generation=4, revoked=True), member("b", 0, generation=3))
        led = lead(Always(of_orders(a=[0], b=[])), group, COOPERATIVE)
        assert led.withheld == {"a": {"orders": [0]}}

    def test_an_eager_group_withholds_nothing(self) -> None:
        led = lead(Always(of_orders(a=[], b=[0])), orders(1, member("a", 0), member("b")), EAGER)
        assert led.assignment is led.target


class TestCheck:
    @pytest.mark.parametrize(
        ("answer", "complaint"),
        [
            (None, "returned NoneType instead of an Assignment"),
            (Assignment(None), "its members are None, not a mapping"),  # type: ignore[arg-type]
            (Assignment({"a": [0, 1, 2], "b": {}}), "gave member 'a' a list, not a mapping of topics"),  # type: ignore[dict-item]
            (of_orders(a=(p for p in (0, 1, 2)), b=[]), "gave member 'a' a generator, not a sequence"),  # type: ignore[arg-type]
            (of_orders(a=[0, 1, 2]), "has no entry for member 'b'"),
            (of_orders(a=[0, 1, 2], b=[], c=[]), "'c', who is not a member"),
            (Assignment({"a": {"orders": [0, 1, 2]}, "b": {}, None: {}, 7: {}}), "assigned to 7, who is not"),  # type: ignore[dict-item]
            (Assignment({"a": {"orders": [0, 1, 2], 1: [0], "x": []}, "b": {}}), "of 'x', to which it"),  # type: ignore[dict-item]
            (
                Assignment({"a": {"orders": [0, 1, 2]}, "b": {"orders": None}}),  # type: ignore[dict-item]
                "gave member 'b' a NoneType, not a sequence",
            ),
            (of_orders(a=[0, 1, 2.0], b=[]), "something of 'orders' that is not a partition number"),  # type: ignore[list-item]
            (of_orders(a=[0, 1], b=[1, 2]), "partition 1 of 'orders' to both 'a' and 'b'"),
            (of_orders(a=[0, 0], b=[1, 2]), "partition 0 of 'orders' to 'a' twice"),
            (
                of_orders(a=[0], b=[2]),
                "left 1 of the 3 partitions of 'orders' without an owner, the first being 1",
            ),
            (of_orders(a=[0, 1], b=[3]), "partition 3 of 'orders', which has 3 partitions"),
            (of_orders(a=[0, 1, 2], b=[-1]), "partition -1 of 'orders'"),
            (of_orders(a=[1, 2], b=[-1]), "partition -1 of 'orders'"),
            (of_orders(a=[0, 1], b=["2"]), "something of 'orders' that is not a partition number"),  # type: ignore[list-item]
            (of_orders(a=[0, 1], b=[2**40]), "something of 'orders' that is not a partition number"),
            (
                Assignment({"a": {"orders": [0, 1, 2]}, "b": {"x": [0]}}),
                "of 'x', to which it does not subscribe",
            ),
        ],
    )
    def test_a_broken_answer_never_leaves_the_leader(self, answer: object, complaint: str) -> None:
        with pytest.raises(InvalidAssignmentError) as caught:
            lead(Always(answer), orders(3, member("a"), member("b")), EAGER)
        assert complaint in str(caught.value)
        assert str(caught.value).startswith("strategy 'always': ")

    def test_what_is_checked_is_what_is_sent(self) -> None:
        class Fickle(list[int]):
            """Has partition 0 when it is read first, and partition 1 after that."""

            def __iter__(self) -> Iterator[int]:
                number, self[0] = self[0], 1
                return iter((number,))

        led = lead(Always(of_orders(a=Fickle([0]), b=[1])), orders(2, member("a"), member("b")), EAGER)
        assert led.assignment == of_orders(a=[0], b=[1])

    def test_what_stands_for_an_int_is_sent_as_one(self) -> None:
        """As a strategy returns them that computes with numpy; JSON has no such numbers."""

        class Number:
            def __init__(self, value: int) -> None:
                self._value = value

            def __index__(self) -> int:
                return self._value

        numbers: Any = {"a": (Number(2),), "b": [False, True]}
        group = orders(3, member("a"), member("b"))
        for protocol in (EAGER, COOPERATIVE):
            led = lead(Always(of_orders(**numbers)), group, protocol)
            assert json.dumps(led.assignment.members) == '{"a": {"orders": [2]}, "b": {"orders": [0, 1]}}'

    def test_topics_without_metadata_have_nothing_to_give(self) -> None:
        subscribed = Member("a", frozenset({"orders", "unknown"}))
        group = Group.of([Topic("orders", 1)], [subscribed])
        check_assignment(group, of_orders(a=[0]))
        with pytest.raises(InvalidAssignmentError, match="'unknown', which has no metadata"):
            check_assignment(group, Assignment({"a": {"orders": [0], "unknown": [0]}}))

    def test_the_first_of_many_wrong_topics_is_named_for_every_hash_seed(self) -> None:
        topics = [Topic(name, 1) for name in "edcba"]
        group = Group.of(topics, [Member("a", frozenset("abcde"))])
        with pytest.raises(InvalidAssignmentError, match="of 'a'"):
            check_assignment(group, Assignment({"a": {}}))
