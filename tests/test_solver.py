"""Properties of every assignment of the solver, for arbitrary groups, and its rules in small ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.criteria import (
    FEWEST_MOVES,
    MOVES_THEN_RACKS,
    PLAIN,
    RACKS_THEN_MOVES,
    Criteria,
    InvalidScaleError,
    Scale,
    traded,
)
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.solver import solve
from kafka_assignors.strategies import CooperativeSticky, RackAwareSticky, RebalanceProtocol, Strategy
from tests.any_group import groups, seeds
from tests.exact_comparison import ORDERS, owning
from tests.exact_groups import SMALL, random_group
from tests.exact_scales import random_scale
from tests.exact_score import Plain, plain

TRADES = [traded(number) for number in (Fraction(1, 2), 1, Fraction(5, 2), 4)]
preferences = st.sampled_from([*ORDERS, *TRADES])


@st.composite
def scaled(draw: st.DrawFn) -> tuple[Group, Scale]:
    """Any group, with a scale."""
    rng = random.Random(draw(seeds))
    group = random_group(rng)
    return group, random_scale(rng, group)


def assign(group: Group, criteria: Criteria = MOVES_THEN_RACKS, scale: Scale = PLAIN) -> Plain:
    return plain(solve(group, group.claims, criteria=criteria, scale=scale))


class TestWhateverTheGroup:
    @given(groups, st.sampled_from([CooperativeSticky(), RackAwareSticky()]))
    def test_no_partition_ever_has_two_owners_and_two_rounds_are_enough(
        self, group: Group, strategy: Strategy
    ) -> None:
        given_out: list[Plain] = []
        for generation in (9, 10, 11):
            held = [
                (m.id, t, p) for m in group.members.values() for t, ps in m.owned.items() for p in set(ps)
            ]
            led = lead(strategy, group, RebalanceProtocol.COOPERATIVE)
            counting = group.claims.owners
            for member_id, topics in led.assignment.members.items():
                for other, topic, partition in held:
                    if other != member_id and partition in topics.get(topic, ()):
                        # Both claim the partition: the newer claim counts, and its member keeps what it has.
                        assert partition in counting.get(member_id, {}).get(topic, ())
            given_out.append(plain(led.assignment))
            group = owning(group, led.assignment, generation)
        assert not led.withheld
        assert given_out[1] == given_out[2]

    @given(groups, preferences, st.permutations(range(SMALL.members)))
    def test_any_optimal_prior_assignment_is_left_as_it_is(
        self, group: Group, racks: Criteria, ranks: list[int]
    ) -> None:
        # Other instance ids change the tie-breaks, and so select another optimal assignment.
        ranked = zip(group.members.values(), ranks, strict=False)
        members = {m.id: replace(m, instance_id=f"{rank}", owned={}) for m, rank in ranked}
        fresh = Group(group.topics, members)
        other = solve(fresh, fresh.claims, criteria=racks)
        assert assign(owning(group, other), racks) == plain(other)

    @given(groups)
    def test_a_member_gets_no_new_partition_while_it_gives_one_of_the_same_topics_up(
        self, group: Group
    ) -> None:
        # Without racks, swapping partitions within a topic class would be pure movement.
        all_alike = {m.id: replace(m, topics=frozenset(group.topics)) for m in group.members.values()}
        alike = Group(group.topics, all_alike, group.generation)
        prior = alike.claims.owners
        for member_id, now in assign(alike, FEWEST_MOVES).items():
            had = {(t, p) for t, ps in prior.get(member_id, {}).items() for p in ps}
            has = {(t, p) for t, ps in now.items() for p in ps}
            assert had <= has or has <= had

    @given(scaled(), preferences, st.integers(2, 9))
    def test_only_the_ratios_of_capacities_matter(
        self, case: tuple[Group, Scale], racks: Criteria, factor: int
    ) -> None:
        group, scale = case
        greater = Scale({id: scale.capacity(id) * factor for id in group.members}, scale.already)
        assert assign(group, racks, greater) == assign(group, racks, scale)

    @given(groups, preferences, st.integers(1, 1000))
    def test_members_of_equal_capacity_are_assigned_as_without_capacities(
        self, group: Group, racks: Criteria, capacity: int
    ) -> None:
        equal = Scale(dict.fromkeys(group.members, capacity))
        assert assign(group, racks, equal) == assign(group, racks)


@pytest.mark.parametrize("capacity", [0, -1, 1.5, "2", True, None])
def test_a_capacity_is_a_positive_whole_number(capacity: object) -> None:
    with pytest.raises(InvalidScaleError, match=r"the capacity of member 'm1' is .*, not a positive whole"):
        Scale({"m1": capacity})  # type: ignore[dict-item]


@pytest.mark.parametrize("load", [-1, 0.5, "2", None])
def test_an_invalid_number_of_existing_partitions_is_refused(load: object) -> None:
    with pytest.raises(InvalidScaleError, match=r"member 'm1' has .* partitions already"):
        Scale(already={"m1": load})  # type: ignore[dict-item]


# ---- rules, in cases that can be solved by hand


def member(
    member_id: str, topics: str, owned: Mapping[str, Sequence[int]] | None = None, *, rack: str | None = None
) -> Member:
    return Member(member_id, frozenset(topics.split()), rack=rack, owned=owned or {}, generation=1)


def test_unchanged_members_keep_the_sequences_they_came_with() -> None:
    owned = {"a": (1, 2), "b": [0]}
    group = Group.of(
        [Topic("a", 3), Topic("b", 1)], [member("m", "a b", owned), member("n", "a b", {"a": [0]})]
    )
    assert solve(group, group.claims).members["m"]["b"] is owned["b"]


@pytest.mark.parametrize(
    ("criteria", "of_m"), [(FEWEST_MOVES, [0, 1]), (MOVES_THEN_RACKS, [0, 1]), (RACKS_THEN_MOVES, [2, 3])]
)
def test_the_order_of_wishes_decides_whether_partitions_move_into_their_rack(
    criteria: Criteria, of_m: list[int]
) -> None:
    members = member("m", "a", {"a": [0, 1]}, rack="x"), member("n", "a", {"a": [2, 3]}, rack="y")
    topic = Topic("a", 4, tuple(map(frozenset, "yyxx")))
    assert assign(Group.of([topic], members), criteria)["m"] == {"a": of_m}


def test_the_lower_member_id_gets_one_more() -> None:
    group = Group.of([Topic("a", 3)], [member("n", "a"), member("m", "a")])
    assert assign(group) == {"m": {"a": [0, 1]}, "n": {"a": [2]}}


def test_an_instance_id_counts_instead_of_the_member_id() -> None:
    group = Group.of(
        [Topic("a", 1)], [Member("m", frozenset("a"), instance_id="z"), Member("y", frozenset("a"))]
    )
    assert assign(group) == {"m": {}, "y": {"a": [0]}}
