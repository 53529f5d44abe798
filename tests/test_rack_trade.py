"""The trade between rack misses and moves: it is optimal, and lies between its two limits."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from kafka_assignors.announcements import Facts, encode_facts
from kafka_assignors.criteria import MOVES_THEN_RACKS, PLAIN, RACKS_THEN_MOVES, InvalidTradeError, traded
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.quality import measure
from kafka_assignors.solver import solve
from kafka_assignors.strategies import MemberContext, RackAwareSticky
from kafka_assignors_strategies.composed import Composed, RuleOrderError
from kafka_assignors_strategies.rules import FewestMoves, FewestRackMisses, LevelPartitions, RackTrade
from tests.exact_groups import Limits, random_group
from tests.exact_oracle import Oracle
from tests.exact_scales import random_scale
from tests.exact_score import owners_of, score

LARGER = Limits(members=25, topics=15, partitions=180)
HUGE = Limits(members=100, topics=60, partitions=3_600)
RATIOS = tuple(map(Fraction, ("1/100", "1/3", "1/2", "1", "3/2", "2", "5/2", "3", "7", "100")))


def groups_with_racks(name: str, count: int) -> list[Group]:
    """Random groups with several racks and known replica racks, a few of them large."""
    found: list[Group] = []
    number = 0
    while len(found) < count:
        rng = random.Random(f"{name}/{number}")
        group = random_group(rng, HUGE if number % 500 == 0 else LARGER if number % 20 == 0 else Limits())
        racks = {member.rack for member in group.members.values() if member.rack}
        if len(racks) > 1 and any(topic.replica_racks for topic in group.topics.values()):
            found.append(group)
        number += 1
    return found


@pytest.mark.exhaustive
def test_no_assignment_costs_less() -> None:
    moves_decided = misses_decided = 0
    for number, group in enumerate(groups_with_racks("trade", 600)):
        ratio = RATIOS[number % len(RATIOS)]
        # With capacities, the costs of a large group are too large for the exact solver.
        has_capacities = number % 2 and len(group.members) <= LARGER.members
        scale = random_scale(random.Random(f"trade/{number}"), group) if has_capacities else PLAIN
        oracle = Oracle(group, scale)
        assignment = solve(group, group.claims, criteria=traded(ratio), scale=scale)
        ours = score(group, owners_of(group, assignment), oracle.prior, scale)
        assert ours.by(traded(ratio)) == oracle.best(traded(ratio)).by(traded(ratio)), (number, ratio)
        moves_decided += ours.moved < oracle.best(RACKS_THEN_MOVES).moved
        misses_decided += ours.rack_misses < oracle.best(MOVES_THEN_RACKS).rack_misses
    # If the trade equalled a limit in every group, this test would show nothing.
    assert moves_decided > 24
    assert misses_decided > 24


# ---- four members in a ring: each has to pass on its partition to read everything in its own rack


def ring() -> Group:
    """Each member owns one partition, which the next member could read in its own rack.

    Only the first partition has no replica in the owner's rack. The others have one there too.
    """
    owning = [
        Member(f"m-{rack}", frozenset({"orders"}), rack=rack, owned={"orders": [number]}, generation=3)
        for number, rack in enumerate("abcd")
    ]
    return Group.of([Topic("orders", 4, tuple(map(frozenset, ("b", "bc", "cd", "da"))))], owning, 4)


class TestWhatItDecides:
    @pytest.mark.parametrize(("moves_per_miss", "moved", "misses"), [(4, 0, 1), (4.5, 4, 0), (3, 0, 1)])
    def test_a_ring_of_four_turns_if_one_miss_is_worth_more_than_four_moves(
        self, moves_per_miss: float, moved: int, misses: int
    ) -> None:
        group = ring()
        quality = measure(group, RackAwareSticky(moves_per_miss).assign(group))
        assert (quality.moved, quality.rack_misses) == (moved, misses)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "number", [-1, math.nan, -math.inf, True, "3", None, 10_001, Fraction(1, 10_001)]
    )
    def test_no_trade(self, number: object) -> None:
        with pytest.raises(InvalidTradeError):
            RackTrade(number)  # type: ignore[arg-type]

    @pytest.mark.parametrize("also", [FewestMoves(), FewestRackMisses()])
    def test_rules_for_movement_or_racks_are_refused_beside_the_trade(
        self, also: FewestMoves | FewestRackMisses
    ) -> None:
        with pytest.raises(RuleOrderError, match="'trade' weighs movement and racks"):
            Composed("mine", (LevelPartitions(), RackTrade(3), also))


class TestMembersThatDiffer:
    HERE = MemberContext(frozenset({"orders"}))

    def test_say_so_unless_they_put_racks_first_as_earlier_releases_do(self) -> None:
        assert RackAwareSticky().member_data(self.HERE) == b""
        assert RackAwareSticky(math.inf).member_data(self.HERE) == b""
        assert RackAwareSticky(1.5).member_data(self.HERE) == encode_facts(Facts(rules="moves_per_miss=3/2"))

    def test_are_named_by_who_leads(self) -> None:
        members = [
            Member("a", frozenset({"orders"}), data=RackAwareSticky(2).member_data(self.HERE)),
            Member("b", frozenset({"orders"})),
        ]
        group = Group.of([Topic("orders", 2)], members)
        (of_two,) = RackAwareSticky(2).findings(group)
        assert (
            "'b' runs 'rack-aware-sticky' with 'no moves_per_miss', and this one with 'moves_per_miss=2'"
            in of_two
        )
        (of_default,) = RackAwareSticky().findings(group)
        assert "'a' runs 'rack-aware-sticky' with 'moves_per_miss=2'" in of_default
        assert RackAwareSticky().findings(Group.of([Topic("orders", 2)], members[1:])) == ()
