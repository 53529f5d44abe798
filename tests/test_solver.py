"""Properties of every assignment of the solver, for arbitrary groups."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.criteria import FEWEST_MOVES, MOVES_THEN_RACKS, Criteria, Trade, traded
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.solver import solve
from kafka_assignors.strategies import CooperativeSticky, RackAwareSticky, RebalanceProtocol, Strategy
from tests.exact_comparison import ORDERS
from tests.exact_oracle import Oracle
from tests.exact_score import owners_of, score

T = TypeVar("T")
ALL_RACKS = "xyz"
TRADES = [traded(number) for number in (Fraction(1, 2), 1, Fraction(5, 2), 4)]
preferences = st.sampled_from([*ORDERS, *TRADES])


@st.composite
def groups(draw: st.DrawFn) -> Group:
    """Arbitrary groups of up to six members and five topics, with arbitrary claims."""
    racks = st.frozensets(st.sampled_from(ALL_RACKS), max_size=2)
    topics = []
    for number in range(draw(st.integers(0, 5))):
        partitions = draw(st.integers(0, 9))
        known = draw(st.booleans())
        replicas = draw(st.tuples(*[racks] * partitions)) if known else None
        topics.append(Topic(f"t{number}", partitions, replicas))
    names = st.sampled_from([*(topic.name for topic in topics), "unknown"])
    members = [
        Member(
            id=f"m{number}",
            topics=draw(st.frozensets(names, max_size=6)),
            instance_id=draw(st.none() | st.just(f"i{9 - number}")),
            rack=draw(st.none() | st.sampled_from(ALL_RACKS)),
            owned=draw(st.dictionaries(names, st.lists(st.integers(-1, 10), max_size=6), max_size=4)),
            generation=draw(st.integers(-1, 4)),
        )
        for number in range(draw(st.integers(0, 6)))
    ]
    return Group.of(topics, members, draw(st.none() | st.integers(1, 4)))


def assign(group: Group, racks: Criteria = MOVES_THEN_RACKS) -> Assignment:
    return solve(group, group.claims, criteria=racks)


def plain(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    """The assignment with each sequence of partitions as a list."""
    return {m: {t: list(ps) for t, ps in by_topic.items()} for m, by_topic in assignment.members.items()}


def owning(group: Group, assignment: Assignment, generation: int = 9) -> Group:
    """The same group one generation later: every member owns its assignment."""
    members = {
        member.id: replace(member, owned=assignment.members[member.id], generation=generation)
        for member in group.members.values()
    }
    return Group(group.topics, members, generation + 1)


class TestWhateverTheGroup:
    @given(groups(), preferences)
    def test_every_partition_goes_to_exactly_one_of_its_subscribers(
        self, group: Group, racks: Criteria
    ) -> None:
        owners_of(group, assign(group, racks))  # checks every property

    @given(groups(), preferences)
    def test_no_assignment_is_better(self, group: Group, racks: Criteria) -> None:
        oracle = Oracle(group)
        reached = score(group, owners_of(group, assign(group, racks)), oracle.prior)
        trade = next((each for each in racks if isinstance(each, Trade)), None)
        if trade is not None:
            weights = {"moves": trade.moves, "misses": trade.misses}
            assert reached.traded(**weights) == oracle.best_traded(**weights).traded(**weights)
        else:
            order = ORDERS[racks]
            assert reached.in_order(order) == oracle.best(order).in_order(order)

    @given(groups(), st.sampled_from([CooperativeSticky(), RackAwareSticky()]))
    def test_no_partition_ever_has_two_owners_and_two_rounds_are_enough(
        self, group: Group, strategy: Strategy
    ) -> None:
        given_out: list[dict[str, dict[str, list[int]]]] = []
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

    @given(groups(), preferences, st.randoms(use_true_random=False))
    def test_the_order_of_members_topics_and_claims_means_nothing(
        self, group: Group, racks: Criteria, rng: random.Random
    ) -> None:
        def shuffled(items: list[T]) -> list[T]:
            return rng.sample(items, len(items))

        members = {
            member_id: replace(
                member,
                topics=frozenset(shuffled(sorted(member.topics))),
                owned={t: shuffled(list(ps)) for t, ps in shuffled(list(member.owned.items()))},
            )
            for member_id, member in shuffled(list(group.members.items()))
        }
        same = Group(dict(shuffled(list(group.topics.items()))), members, group.generation)
        assert plain(assign(same, racks)) == plain(assign(group, racks))

    @given(groups(), preferences)
    def test_assigning_again_changes_nothing(self, group: Group, racks: Criteria) -> None:
        first = assign(group, racks)
        assert plain(assign(owning(group, first), racks)) == plain(first)

    @given(groups(), preferences, st.permutations(range(6)))
    def test_any_optimal_prior_assignment_is_left_as_it_is(
        self, group: Group, racks: Criteria, ranks: list[int]
    ) -> None:
        # Other instance ids change the tie-breaks, and so select another optimal assignment.
        ranked = zip(group.members.values(), ranks, strict=False)
        members = {m.id: replace(m, instance_id=f"{rank}", owned={}) for m, rank in ranked}
        other = assign(Group(group.topics, members), racks)
        assert plain(assign(owning(group, other), racks)) == plain(other)

    @given(groups(), preferences)
    def test_restarted_static_members_get_the_same_fresh_assignment(
        self, group: Group, racks: Criteria
    ) -> None:
        def started(step: int) -> Group:
            members = [
                replace(m, id=f"{number * step % 10}", instance_id=m.id, owned={}, generation=-1)
                for number, m in enumerate(group.members.values())
            ]
            return Group.of(group.topics.values(), members)

        def by_instance(group: Group) -> dict[str | None, dict[str, list[int]]]:
            return {group.members[m].instance_id: got for m, got in plain(assign(group, racks)).items()}

        assert by_instance(started(1)) == by_instance(started(7))

    @given(groups())
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


FINGERPRINT = """
import hashlib, random
from kafka_assignors.strategies.sticky import CooperativeSticky
from kafka_assignors.group import Group
from tests.exact_groups import random_group
digest = hashlib.sha256()
for number in range(200):
    assignment = CooperativeSticky().assign(random_group(random.Random(f"fingerprint/{number}")))
    for member_id in sorted(assignment.members):
        topics = assignment.members[member_id]
        digest.update(repr([(member_id, topic, list(topics[topic])) for topic in sorted(topics)]).encode())
print(digest.hexdigest())
"""


def test_the_hash_seed_means_nothing() -> None:
    def fingerprint(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", FINGERPRINT]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    assert len({fingerprint(seed) for seed in ("0", "1", "12345")}) == 1
