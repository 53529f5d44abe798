"""The solver in cases that can be solved by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kafka_assignors.criteria import FEWEST_MOVES, MOVES_THEN_RACKS, RACKS_THEN_MOVES, Criteria, Scale
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.solver import solve
from kafka_assignors.strategies import CooperativeSticky, RackAwareSticky, Sticky
from kafka_assignors.strategy import RebalanceProtocol, Strategy
from tests.exact_comparison import Plain, plain


def member(
    member_id: str, topics: str, owned: Mapping[str, Sequence[int]] | None = None, *, rack: str | None = None
) -> Member:
    return Member(member_id, frozenset(topics.split()), rack=rack, owned=owned or {}, generation=1)


def assign(topics: Sequence[Topic], *members: Member, criteria: Criteria = MOVES_THEN_RACKS) -> Plain:
    group = Group.of(topics, members)
    return plain(solve(group, group.claims, criteria=criteria))


def in_racks(name: str, *racks: str) -> Topic:
    """A topic with a partition for each string; its letters are the racks of the replicas."""
    return Topic(name, len(racks), tuple(frozenset(letters) for letters in racks))


class TestNothingToAssign:
    def test_members_without_subscriptions(self) -> None:
        assert assign([Topic("a", 3)], member("m", ""), member("n", "a")) == {"m": {}, "n": {"a": [0, 1, 2]}}

    def test_a_topic_without_metadata_does_not_set_its_subscribers_apart(self) -> None:
        assert assign([Topic("a", 2)], member("m", "a gone"), member("n", "a")) == {
            "m": {"a": [0]},
            "n": {"a": [1]},
        }


class TestMovement:
    def test_a_new_member_gets_its_share_and_nothing_else_moves(self) -> None:
        topics = [Topic("a", 9)]
        assigned = assign(
            topics,
            member("m", "a", {"a": [0, 1, 2, 3, 4]}),
            member("n", "a", {"a": [5, 6, 7, 8]}),
            member("o", "a"),
        )
        assert assigned == {"m": {"a": [0, 1, 2]}, "n": {"a": [5, 6, 7]}, "o": {"a": [3, 4, 8]}}

    def test_partitions_of_a_departed_member_are_shared_out_and_no_others_move(self) -> None:
        assigned = assign([Topic("a", 6)], member("m", "a", {"a": [0, 1]}), member("n", "a", {"a": [2, 3]}))
        assert assigned == {"m": {"a": [0, 1, 4]}, "n": {"a": [2, 3, 5]}}

    def test_of_unlike_members_the_one_that_owns_most_beyond_its_load_keeps_one_more(self) -> None:
        # The second partition of m costs as much as the first of n, so either may have one more.
        members = member("m", "a", {"a": [1]}), member("n", "a", {"a": [0]})
        group = Group.of([Topic("a", 2)], members)
        assigned = solve(group, group.claims, scale=Scale(capacities={"m": 3}))
        assert plain(assigned) == {"m": {"a": [1]}, "n": {"a": [0]}}

    def test_unchanged_members_keep_the_sequences_they_came_with(self) -> None:
        owned = {"a": (1, 2), "b": [0]}
        group = Group.of(
            [Topic("a", 3), Topic("b", 1)], [member("m", "a b", owned), member("n", "a b", {"a": [0]})]
        )
        assert solve(group, group.claims).members["m"]["b"] is owned["b"]


class TestRacks:
    def test_a_fresh_group_consumes_within_its_racks(self) -> None:
        topic = in_racks("a", "x", "y", "x", "y")
        assigned = assign([topic], member("m", "a", rack="y"), member("n", "a", rack="x"))
        assert assigned == {"m": {"a": [1, 3]}, "n": {"a": [0, 2]}}

    def test_a_member_without_a_rack_matches_everything(self) -> None:
        topic = in_racks("a", "x", "y", "x", "y")
        assigned = assign([topic], member("m", "a"), member("n", "a", rack="x"))
        assert assigned["n"] == {"a": [0, 2]}

    def test_partitions_whose_racks_are_unknown_match_every_member(self) -> None:
        topic = in_racks("a", "", "x", "", "x")
        assigned = assign([topic], member("m", "a", rack="x"), member("n", "a", rack="y"))
        assert assigned == {"m": {"a": [1, 3]}, "n": {"a": [0, 2]}}

    @pytest.mark.parametrize(
        ("criteria", "of_m"), [(FEWEST_MOVES, [0, 1]), (MOVES_THEN_RACKS, [0, 1]), (RACKS_THEN_MOVES, [2, 3])]
    )
    def test_the_order_of_wishes_decides_whether_partitions_move_into_their_rack(
        self, criteria: Criteria, of_m: list[int]
    ) -> None:
        topic = in_racks("a", "y", "y", "x", "x")
        members = member("m", "a", {"a": [0, 1]}, rack="x"), member("n", "a", {"a": [2, 3]}, rack="y")
        assert assign([topic], *members, criteria=criteria)["m"] == {"a": of_m}

    def test_the_only_partition_of_a_group_moves_into_its_rack_if_racks_come_first(self) -> None:
        members = member("m", "a", {"a": [0]}, rack="x"), member("n", "a", rack="y")
        assert assign([in_racks("a", "y")], *members, criteria=RACKS_THEN_MOVES)["n"] == {"a": [0]}
        assert assign([in_racks("a", "y")], *members, criteria=MOVES_THEN_RACKS)["m"] == {"a": [0]}

    def test_of_the_partitions_that_must_move_those_move_that_gain_a_rack(self) -> None:
        topic = in_racks("a", "x", "y", "x", "x")
        assigned = assign(
            [topic], member("m", "a", {"a": [0, 1, 2, 3]}, rack="x"), member("n", "a", rack="y")
        )
        assert 1 in assigned["n"]["a"]

    def test_a_member_that_releases_one_partition_may_get_another_that_would_miss_elsewhere(self) -> None:
        topics = [in_racks("far", "b"), Topic("kept", 1), Topic("released", 1), Topic("other", 1)]
        members = (
            member("m", "far kept released", {"kept": [0], "released": [0]}),
            member("n", "released"),
            member("o", "far other", rack="d"),
        )
        assert assign(topics, *members) == {
            "m": {"far": [0], "kept": [0]},
            "n": {"released": [0]},
            "o": {"other": [0]},
        }


class TestSpread:
    def test_every_topic_of_a_fresh_group_is_spread_within_one(self) -> None:
        topics = [Topic(f"t{n}", 4 + n) for n in range(8)]
        names = " ".join(topic.name for topic in topics)
        assigned = assign(topics, *(member(f"m{n}", names) for n in range(5)))
        for topic in topics:
            counts = [len(by_topic.get(topic.name, ())) for by_topic in assigned.values()]
            assert max(counts) - min(counts) <= 1

    def test_each_topic_is_even_after_a_member_gives_partitions_up(self) -> None:
        topics = [Topic("a", 2), Topic("b", 6)]
        owned = {"a": [0, 1], "b": [0, 1, 2, 3, 4, 5]}
        assigned = assign(topics, member("m", "a b", owned), member("n", "a b"))
        assert assigned == {"m": {"a": [0], "b": [0, 1, 2]}, "n": {"a": [1], "b": [3, 4, 5]}}

    def test_a_new_member_gets_a_little_of_many_topics(self) -> None:
        topics = [Topic(f"t{n}", 9) for n in range(9)]
        names = " ".join(topic.name for topic in topics)
        owners = (member(f"m{n}", names, {topic.name: [n] for topic in topics}) for n in range(9))
        assigned = assign(topics, *owners, member("new", names))
        assert {topic: len(partitions) for topic, partitions in assigned["new"].items()} == {
            f"t{n}": 1 for n in range(8)
        }


class TestTies:
    def test_the_lower_member_id_gets_one_more(self) -> None:
        assert assign([Topic("a", 3)], member("n", "a"), member("m", "a")) == {
            "m": {"a": [0, 1]},
            "n": {"a": [2]},
        }

    def test_the_lower_member_id_gets_one_more_also_of_members_that_own_as_many(self) -> None:
        members = (member("m", "a c", {"a": [0]}), member("n", "a b c"), member("o", "b c", {"b": [0]}))
        assert assign([Topic("a", 2), Topic("b", 1), Topic("c", 1)], *members) == {
            "m": {"a": [0], "c": [0]},
            "n": {"a": [1]},
            "o": {"b": [0]},
        }

    def test_the_lower_member_id_keeps_one_more(self) -> None:
        members = member("m", "b", {"b": [0, 1]}), member("n", "a", {"a": [0, 1]}), member("o", "a b")
        assert assign([Topic("a", 2), Topic("b", 2)], *members) == {
            "m": {"b": [0, 1]},
            "n": {"a": [0]},
            "o": {"a": [1]},
        }

    def test_an_instance_id_counts_instead_of_the_member_id(self) -> None:
        group = Group.of(
            [Topic("a", 1)], [Member("m", frozenset("a"), instance_id="z"), Member("y", frozenset("a"))]
        )
        assert plain(solve(group, group.claims)) == {"m": {}, "y": {"a": [0]}}


class TestStrategies:
    @pytest.mark.parametrize(
        ("strategy", "name", "protocols"),
        [
            (Sticky(), "sticky", (RebalanceProtocol.EAGER,)),
            (
                CooperativeSticky(),
                "cooperative-sticky",
                (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER),
            ),
        ],
    )
    def test_names_and_protocols_are_those_of_java(
        self, strategy: Strategy, name: str, protocols: tuple[RebalanceProtocol, ...]
    ) -> None:
        assert (strategy.name, strategy.protocols) == (name, protocols)

    @pytest.mark.parametrize("strategy", [Sticky(), CooperativeSticky()])
    def test_sticky_strategies_prefer_few_moves_to_racks(self, strategy: Strategy) -> None:
        members = member("m", "a", {"a": [0]}, rack="x"), member("n", "a", {"a": [1]}, rack="y")
        group = Group.of([in_racks("a", "y", "x")], members)
        assert plain(strategy.assign(group)) == {"m": {"a": [0]}, "n": {"a": [1]}}

    def test_the_rack_aware_one_moves_what_can_be_read_nearer(self) -> None:
        members = member("m", "a", {"a": [0, 2]}, rack="x"), member("n", "a", {"a": [1, 3]}, rack="y")
        group = Group.of([in_racks("a", "y", "x", "x", "y")], members)
        assert plain(RackAwareSticky().assign(group)) == {"m": {"a": [1, 2]}, "n": {"a": [0, 3]}}

    def test_the_rack_aware_one_runs_under_both_protocols_by_one_name(self) -> None:
        assert (RackAwareSticky.name, RackAwareSticky.protocols) == (
            "rack-aware-sticky",
            (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER),
        )
