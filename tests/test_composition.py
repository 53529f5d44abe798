"""Strategies composed of rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from kafka_assignors.announcements import Facts, Supposed, encode_facts, facts_of
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies import CooperativeSticky, MemberContext, RackAwareSticky
from kafka_assignors_strategies import CoPartitioned
from kafka_assignors_strategies.composed import Composed, RuleOrderError
from kafka_assignors_strategies.rules import (
    FewestMoves,
    FewestRackMisses,
    KeepTogether,
    LevelByWeight,
    LevelPartitions,
    Piece,
    Problem,
    ShareByRelease,
)
from tests.any_group import groups
from tests.exact_score import owners_of
from tests.reduced import assert_best_of_the_rest


class TestPlainRules:
    @given(groups)
    def test_balance_and_wishes_alone_are_the_strategies_that_exist(self, group: Group) -> None:
        sticky = Composed("acme", (LevelPartitions(), FewestMoves(), FewestRackMisses()))
        assert sticky.assign(group) == CooperativeSticky().assign(group)
        racks_first = Composed("acme", (LevelPartitions(), FewestRackMisses(), FewestMoves()))
        assert racks_first.assign(group) == RackAwareSticky().assign(group)
        # If movement comes first, a replica in another rack moves no partition, so no member rejoins for it.
        assert racks_first.follows_racks()
        assert not sticky.follows_racks()


class TestOrder:
    @pytest.mark.parametrize(
        ("rules", "problem"),
        [
            ((), "one rule must say what to balance: there is none"),
            ((FewestMoves(),), "there is none"),
            ((FewestMoves(), LevelPartitions()), "rule 'balance' comes after 'movement'"),
            ((LevelPartitions(), KeepTogether([["a", "b"]])), "rule 'together' comes after 'balance'"),
            ((LevelPartitions(), FewestMoves(), FewestMoves()), "rule 'movement' comes 2 times"),
            ((LevelPartitions,), "is not a rule"),
            ((LevelByWeight(), FewestRackMisses()), "'racks' beside it has nothing to say"),
            (
                (ShareByRelease(), LevelByWeight()),
                "rule 'rollout' counts partitions and 'weights' weighs them",
            ),
            ((LevelByWeight(), LevelPartitions()), "'weights' and 'balance' are too many"),
            (("balance",), "'balance' is not a rule"),
        ],
    )
    def test_rules_that_contradict_each_other_are_refused_by_the_constructor(
        self, rules: Any, problem: str
    ) -> None:
        with pytest.raises(RuleOrderError) as raised:
            Composed("acme", rules)
        assert problem in str(raised.value)

    @pytest.mark.parametrize("name", ["sticky", "range", "cooperative-sticky", "", "a b", "a" * 101, "é"])
    def test_a_name_of_other_clients_or_with_invalid_characters_is_refused(self, name: str) -> None:
        with pytest.raises(RuleOrderError):
            Composed(name, (LevelPartitions(),))

    @pytest.mark.parametrize("sets", [[], [["a"]], [["a", "a"]], [["a", "b"], ["b", "c"]]])
    def test_sets_that_are_none_are_refused(self, sets: Any) -> None:
        with pytest.raises(ValueError, match="topics that stay together"):
            KeepTogether(sets)

    def test_a_set_that_is_a_word_is_refused(self) -> None:
        with pytest.raises(TypeError, match="sets of topic names"):
            KeepTogether(["ab"])


class TestTogether:
    strategy = CoPartitioned([["a", "b"]])
    of_any_group = CoPartitioned([["topic-0", "topic-1"]])

    @given(groups)
    def test_same_numbers_are_on_one_member_and_everything_is_assigned(self, group: Group) -> None:
        assignment = self.of_any_group.assign(group)
        owner = owners_of(group, assignment)  # Checks that the assignment is valid.
        both = {"topic-0", "topic-1"}
        if both <= group.topics.keys() and any(both <= member.topics for member in group.members.values()):
            for partition in range(min(group.topics[name].partitions for name in both)):
                assert owner["topic-0", partition] == owner["topic-1", partition]

    def test_a_topic_that_is_not_there_is_named(self) -> None:
        group = Group.of([Topic("a", 1)], [Member("m", frozenset("a"))])
        (finding,) = CoPartitioned([["a", "bb"]]).findings(group)
        assert finding.startswith(
            "topic 'bb' is to stay together with others, and the group does not read it"
        )

    @given(groups)
    def test_nothing_is_better_among_the_assignments_that_keep_the_rule(self, group: Group) -> None:
        assert_best_of_the_rest(self.of_any_group, group)

    def test_tasks_are_balanced_and_the_log_says_what_does_not_fit(self) -> None:
        group = Group.of(
            [Topic("a", 6), Topic("b", 4), Topic("c", 2)],
            [
                Member("m1", frozenset("abc"), owned={"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}, generation=3),
                Member("m2", frozenset("abc")),
                Member("m3", frozenset("a")),
            ],
        )
        assignment = self.strategy.assign(group)
        assert assignment.members["m1"] == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}
        assert assignment.members["m2"] == {"a": [4, 5], "c": [0, 1]}
        assert assignment.members["m3"] == {}
        assert [*self.strategy.findings(group)] == [
            "member 'm3' subscribes to some of the topics 'a', 'b' only, which stay together, and gets "
            "nothing of them (1 such members)",
            "topics that stay together differ in partitions: 'a' 6, 'b' 4",
        ]


class TestWeights:
    def test_tasks_weigh_what_their_partitions_weigh_together(self) -> None:
        strategy = Composed("acme", (KeepTogether([["a", "b"]]), LevelByWeight(threshold=0)))
        group = Group.of(
            [Topic("a", 3, weights=(1, 1, 8)), Topic("b", 3, weights=(4, 4, 2))],
            [Member("m1", frozenset("ab")), Member("m2", frozenset("ab"))],
        )
        shares = sorted(str(dict(held)) for held in strategy.assign(group).members.values())
        assert shares == ["{'a': [0, 1], 'b': [0, 1]}", "{'a': [2], 'b': [2]}"]


class TestProblem:
    def test_a_unit_is_near_a_rack_that_is_near_all_of_it_and_weighs_what_all_of_it_weighs(self) -> None:
        group = Group.of(
            [
                Topic("a", 2, (frozenset({"r1", "r2"}), frozenset({"r1"})), weights=(5, None)),
                Topic("b", 2, (frozenset({"r2"}), frozenset()), weights=(7, None)),
            ],
            [Member("m", frozenset("ab"))],
        )
        units = [(("a", 0), ("b", 0)), (("a", 1), ("b", 1))]
        made = Problem(group, facts_of(group)).replace_topics("ab", [Piece("a/both", units, frozenset("m"))])
        both = made.group.topics["a/both"]
        assert both.replica_racks == (frozenset({"r2"}), frozenset({"r1"}))
        assert both.weights == (12, None)


class TestWhatMembersAnnounce:
    def test_members_with_other_rules_are_named(self) -> None:
        ours, others = CoPartitioned([["a", "b"]]), CoPartitioned([["a", "c"]])
        data = {"m1": ours, "m2": others, "m3": others}
        context = MemberContext(frozenset("ab"))
        group = Group.of(
            [Topic("a", 1), Topic("b", 1)],
            [Member(id, frozenset("ab"), data=each.member_data(context)) for id, each in data.items()],
        )
        (finding,) = ours.findings(group)
        assert finding.startswith(
            "member 'm2' runs other rules under the name 'co-partitioned' (2 such members)"
        )

    def test_the_digest_does_not_depend_on_the_order_of_topics(self) -> None:
        ordered, other = CoPartitioned([["b", "a"], ["d", "c"]]), CoPartitioned([{"c", "d"}, {"a", "b"}])
        assert ordered.digest() == other.digest()


class TestSupposed:
    def test_assumed_facts_apply_to_members_that_announce_nothing(self) -> None:
        supposes = (Supposed("pod-1*", Facts(capacity=2)), Supposed("*", Facts(release="v1")))
        strategy = Composed("acme", (LevelPartitions(),), supposes=supposes)
        members = [
            Member("m1", frozenset("a"), instance_id="pod-17"),
            Member("m2", frozenset("a"), instance_id="pod-2"),
            Member("pod-1-3f", frozenset("a")),
            Member("pod-1-4a", frozenset("a"), data=encode_facts(Facts(capacity=7))),
            Member("pod-1-5c", frozenset("a"), data=encode_facts(Facts(rules="ab"))),
        ]
        group = Group.of([Topic("a", 1)], members)
        assert strategy.problem(group).facts.members == {
            "m1": Facts(capacity=2),
            "m2": Facts(release="v1"),
            "pod-1-3f": Facts(capacity=2),
            "pod-1-4a": Facts(capacity=7),
            "pod-1-5c": Facts(capacity=2, rules="ab"),
        }
        assert strategy.digest() != Composed("acme", (LevelPartitions(),)).digest()
