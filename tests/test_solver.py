"""Properties of every assignment of the solver, for arbitrary groups."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.criteria import FEWEST_MOVES, MOVES_THEN_RACKS, Criteria, traded
from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import lead
from kafka_assignors.solver import solve
from kafka_assignors.strategies import CooperativeSticky, RackAwareSticky, RebalanceProtocol, Strategy
from tests.any_group import groups
from tests.exact_comparison import ORDERS, Plain, owning, plain
from tests.exact_oracle import assert_best

TRADES = [traded(number) for number in (Fraction(1, 2), 1, Fraction(5, 2), 4)]
preferences = st.sampled_from([*ORDERS, *TRADES])


def assign(group: Group, racks: Criteria = MOVES_THEN_RACKS) -> Assignment:
    return solve(group, group.claims, criteria=racks)


class TestWhateverTheGroup:
    @given(groups, preferences)
    def test_no_assignment_is_better(self, group: Group, criteria: Criteria) -> None:
        assert_best(group, assign(group, criteria), criteria)

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

    @given(groups, preferences, st.permutations(range(8)))
    def test_any_optimal_prior_assignment_is_left_as_it_is(
        self, group: Group, racks: Criteria, ranks: list[int]
    ) -> None:
        # Other instance ids change the tie-breaks, and so select another optimal assignment.
        ranked = zip(group.members.values(), ranks, strict=False)
        members = {m.id: replace(m, instance_id=f"{rank}", owned={}) for m, rank in ranked}
        other = assign(Group(group.topics, members), racks)
        assert plain(assign(owning(group, other), racks)) == plain(other)

    @given(groups)
    def test_a_member_gets_no_new_partition_while_it_gives_one_of_the_same_topics_up(
        self, group: Group
    ) -> None:
        # Without racks, swapping partitions within a topic class would be pure movement.
        all_alike = {m.id: replace(m, topics=frozenset(group.topics)) for m in group.members.values()}
        alike = Group(group.topics, all_alike, group.generation)
        prior = alike.claims.owners
        for member_id, now in assign(alike, FEWEST_MOVES).members.items():
            had = {(t, p) for t, ps in prior.get(member_id, {}).items() for p in ps}
            has = {(t, p) for t, ps in now.items() for p in ps}
            assert had <= has or has <= had
