"""Which member's claim on a partition counts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kafka_assignors.claims import NAMED_PARTITIONS, Claims, DroppedClaim, judge_claims
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.strategies import CooperativeSticky
from kafka_assignors.strategy import RebalanceProtocol

MILLION = 1_000_000


def member(member_id: str, owned: Sequence[int], generation: int = 3, topics: str = "orders") -> Member:
    return Member(member_id, frozenset(topics.split()), owned={"orders": owned}, generation=generation)


def judge(*members: Member, partitions: int = 6, generation: int | None = 4) -> Claims:
    return judge_claims(Group.of([Topic("orders", partitions)], members, generation))


def prior(claims: Claims) -> dict[str, list[int]]:
    return {member_id: list(topics["orders"]) for member_id, topics in claims.owners.items()}


def reasons(claims: Claims) -> dict[str, tuple[tuple[int, ...], str]]:
    return {claim.member_id: (claim.partitions, claim.reason) for claim in claims.dropped}


class TestClaimsThatCount:
    def test_a_newer_third_wins_over_two_that_cancel_out(self) -> None:
        claims = judge(member("a", [0]), member("b", [0]), member("c", [0], generation=4))
        assert prior(claims) == {"c": [0]}
        newer = (0,), "a member claims them in a later generation"
        assert reasons(claims) == {"a": newer, "b": newer}

    @pytest.mark.parametrize("owned", [[3, 1, 0], (3, 1, 0), range(3, -1, -2), range(0, 4, 3)])
    def test_claims_come_in_any_order_and_leave_ascending(self, owned: Sequence[int]) -> None:
        assert prior(judge(member("a", owned))) == {"a": sorted(owned)}
        both = Member("a", frozenset({"bills", "orders"}), owned={"bills": [0, 1], "orders": owned})
        claims = judge_claims(Group.of([Topic("bills", 2), Topic("orders", 6)], [both]))
        (of_a,) = claims.owners.values()
        assert (list(of_a["bills"]), list(of_a["orders"])) == ([0, 1], sorted(owned))


class TestClaimsThatAreDropped:
    def test_a_generation_the_group_has_not_reached_is_false_and_names_the_member(self) -> None:
        claims = judge(member("liar", [0, 1], generation=2**31 - 1), member("b", [0]))
        assert prior(claims) == {"b": [0]}
        assert claims.dropped == (
            DroppedClaim("liar", "orders", (0, 1), "generation 2147483647 is later than the group's, 4", 2),
        )

    @pytest.mark.parametrize("wrong", [-1, 6])
    def test_the_nearest_partition_that_does_not_exist(self, wrong: int) -> None:
        claims = judge(member("a", [0, wrong]))
        assert prior(claims) == {"a": [0]}
        assert reasons(claims) == {"a": ((wrong,), "the topic has 6 partitions")}

    def test_a_partition_named_twice_is_owned_once(self) -> None:
        claims = judge(member("a", [2, 2, 1, 2]))
        assert prior(claims) == {"a": [1, 2]}
        assert reasons(claims) == {"a": ((2,), "the member names them more than once")}

    def test_a_topic_without_metadata(self) -> None:
        claims = judge_claims(Group.of([], [member("a", [0])]))
        assert claims.owners == {}
        assert reasons(claims) == {"a": ((0,), "the topic is unknown")}

    def test_a_topic_the_member_no_longer_subscribes_to(self) -> None:
        claims = judge(member("a", [0], topics="payments"), member("b", []))
        assert prior(claims) == {}
        assert reasons(claims) == {"a": ((0,), "the member does not subscribe to the topic")}

    def test_an_empty_claim_is_nothing_to_speak_of(self) -> None:
        claims = judge(member("a", [], generation=99), member("b", [], topics="payments"))
        assert claims.dropped == ()
        assert claims.owners == {}


class TestFaultyMembers:
    @pytest.mark.parametrize(
        "owned",
        [range(6, 6 + MILLION), list(range(MILLION)), [0] * MILLION, range(-MILLION, 3)],
        ids=["far off", "a million", "a million times the same", "negative"],
    )
    def test_a_member_that_claims_millions_leaves_the_others_alone(self, owned: Sequence[int]) -> None:
        claims = judge(member("faulty", owned, generation=2), member("b", [0, 1]))
        assert prior(claims)["b"] == [0, 1]
        assert all(len(claim.partitions) <= NAMED_PARTITIONS for claim in claims.dropped)
        assert all(claim.member_id == "faulty" for claim in claims.dropped)

    def test_dropped_claims_do_not_depend_on_the_order_of_members(self) -> None:
        members = [member("a", [0, 9]), member("b", [0, 1]), member("c", [1, 1], 9), member("d", [5], -1)]
        assert judge(*members).dropped == judge(*reversed(members)).dropped


def pickled(group: Group) -> Group:
    copied: Group = pickle.loads(pickle.dumps(group))
    return copied


class TestOfAGroup:
    """`Group.claims` judges the claims on its first use."""

    def test_claims_are_judged_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Group] = []

        def judge(group: Group) -> Claims:
            asked.append(group)
            return judge_claims(group)

        monkeypatch.setattr("kafka_assignors.group.judge_claims", judge)
        group = Group.of([Topic("orders", 3)], [member("a", [0, 1])])
        lead(CooperativeSticky(), group, RebalanceProtocol.COOPERATIVE)
        assert group.claims is group.claims
        assert asked == [group]

    @pytest.mark.parametrize("of_another", [copy.copy, copy.deepcopy, replace, pickled])
    def test_claims_are_no_part_of_the_value_of_a_group(self, of_another: Callable[[Group], Group]) -> None:
        group = Group.of([Topic("orders", 3)], [member("a", [0, 1])])
        fresh = Group.of([Topic("orders", 3)], [member("a", [0, 1])])
        judged = group.claims
        other = of_another(group)
        assert group == fresh == other
        assert repr(group) == repr(fresh) == repr(other)
        assert other.claims == judged
