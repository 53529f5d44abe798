"""Standby members: which one takes over, which ones keep partitions, and no unnecessary moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.announcements import Facts, encode_facts, facts_of
from kafka_assignors.criteria import MOVES_THEN_RACKS
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.strategies import RebalanceProtocol
from kafka_assignors_strategies import Standby
from kafka_assignors_strategies.rules import StandbyLast
from tests.any_group import announced_groups
from tests.exact_comparison import owning
from tests.exact_oracle import assert_best
from tests.exact_score import Partition, owners_of
from tests.reduced import claimed_group

PASSIVE = encode_facts(Facts(standby=True))
ORDERS = [Topic("orders", 6)]


def active(name: str, *topics: str, **fields: object) -> Member:
    return Member(name, frozenset(topics or ("orders",)), **fields)  # type: ignore[arg-type]


def standby(name: str, *topics: str, **fields: object) -> Member:
    return replace(active(name, *topics, **fields), data=PASSIVE)


def loads(assignment: Assignment) -> dict[str, int]:
    return {member_id: assignment.load(member_id) for member_id in sorted(assignment.members)}


class Life:
    """A group over several rebalances."""

    def __init__(self, strategy: Standby, topics: Sequence[Topic]) -> None:
        self.strategy, self.group = strategy, Group.of(topics, [], 0)
        self.owners: dict[Partition, str] = {}
        self.moved = 0
        """How many partitions changed their owner in the last rebalance."""

    def rebalance(self, *members: Member) -> dict[str, int]:
        known, before = self.group.members, self.owners
        group = replace(self.group, members={m.id: known.get(m.id, m) for m in members})
        target = lead(self.strategy, group, RebalanceProtocol.EAGER).target
        self.group, self.owners = owning(group, target), owners_of(group, target)
        self.moved = sum(owner != self.owners[partition] for partition, owner in before.items())
        return loads(target)


class TestWhoTakesOver:
    def test_a_standby_member_gets_only_topics_without_active_subscribers(self) -> None:
        topics = [*ORDERS, Topic("payments", 3)]
        group = Group.of(topics, [active("a"), standby("b", "orders", "payments")])
        taken = Standby().assign(group).members["b"]
        assert {topic: list(partitions) for topic, partitions in taken.items()} == {"payments": [0, 1, 2]}
        (finding,) = Standby().findings(group)
        assert finding == (
            "standby member 'b' takes over 'payments', to which fewer than 1 active members subscribe"
        )

    def test_the_lowest_instance_id_else_member_id_first(self) -> None:
        members = [standby("x", instance_id="pod-2"), standby("y", instance_id="pod-1"), standby("z")]
        assert loads(Standby().assign(Group.of(ORDERS, members))) == {"x": 0, "y": 6, "z": 0}
        assert loads(Standby().assign(Group.of(ORDERS, [standby("c"), standby("b")]))) == {"b": 6, "c": 0}

    def test_as_many_as_are_missing(self) -> None:
        members = [active("a"), standby("b"), standby("c"), standby("d")]
        of_three = Standby(active_at_least=3).assign(Group.of(ORDERS, members))
        assert loads(of_three) == {"a": 2, "b": 2, "c": 2, "d": 0}
        assert loads(Standby(active_at_least=9).assign(Group.of(ORDERS, members[:2]))) == {"a": 3, "b": 3}

    def test_a_standby_member_that_took_over_takes_over_more_before_another_does(self) -> None:
        topics = [*ORDERS, Topic("payments", 3)]
        life = Life(Standby(), topics)
        both = "orders", "payments"
        late = standby("b", *both), standby("c", *both)
        life.rebalance(active("a1", "payments"), standby("c", *both))
        assert life.rebalance(active("a1", "payments"), *late) == {"a1": 3, "b": 0, "c": 6}
        assert life.rebalance(*late) == {"b": 0, "c": 9}


class TestWhoKeeps:
    def test_a_standby_member_that_took_over_keeps_though_a_lower_id_stands_by_now(self) -> None:
        life = Life(Standby(), ORDERS)
        assert life.rebalance(standby("c")) == {"c": 6}
        assert life.rebalance(standby("b"), standby("c")) == {"b": 0, "c": 6}
        assert life.moved == 0

    def test_active_members_come_back_one_by_one_and_nothing_goes_back_to_a_standby_member(self) -> None:
        life = Life(Standby(active_at_least=2), ORDERS)
        waiting = standby("s1"), standby("s2"), standby("s3")
        at_first = life.rebalance(active("a1"), active("a2"), *waiting)
        assert at_first == {"a1": 3, "a2": 3, "s1": 0, "s2": 0, "s3": 0}
        assert life.rebalance(active("a2"), *waiting) == {"a2": 3, "s1": 3, "s2": 0, "s3": 0}
        assert life.moved == 3  # those of a1, which left
        assert life.rebalance(*waiting) == {"s1": 3, "s2": 3, "s3": 0}
        assert life.moved == 3
        assert life.rebalance(active("a1"), *waiting) == {"a1": 3, "s1": 3, "s2": 0, "s3": 0}
        assert life.moved == 3  # one of the two goes back to standby, the other keeps all its partitions
        assert life.rebalance(active("a1"), active("a2"), *waiting)["s1"] == 0
        assert life.moved == 3
        assert life.rebalance(active("a1"), active("a2"), active("a3"), *waiting)["a3"] == 2
        assert life.moved == 2


class TestHostileAndOdd:
    @pytest.mark.parametrize("number", [0, -1, True, "2", 1.5])
    def test_fewer_than_one_active_member_is_refused(self, number: object) -> None:
        with pytest.raises(ValueError, match="at least 1 member"):
            StandbyLast(number)  # type: ignore[arg-type]


class TestWhateverTheGroup:
    @given(announced_groups, st.integers(1, 3))
    def test_standby_members_have_of_each_topic_only_what_active_ones_lack(
        self, group: Group, at_least: int
    ) -> None:
        owners = owners_of(group, Standby(active_at_least=at_least).assign(group))  # checks that it is valid
        facts = facts_of(group).members
        for topic in group.topics:
            readers = [m.id for m in group.members.values() if topic in m.topics]
            missing = at_least - sum(not facts[id].standby for id in readers)
            taken_over = {owner for (name, _), owner in owners.items() if name == topic}
            assert sum(facts[id].standby for id in taken_over) <= max(0, missing)

    @given(announced_groups, st.integers(1, 3))
    def test_no_assignment_among_those_that_may_have_something_is_better(
        self, group: Group, at_least: int
    ) -> None:
        strategy = Standby(active_at_least=at_least)
        # If a standby member may not keep a partition that it owned, the partition has no other owner.
        left = claimed_group(strategy.problem(group))
        assert_best(left, strategy.assign(group), MOVES_THEN_RACKS)
