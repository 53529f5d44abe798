"""The solver against the exact optimum, group by group.

    python -m tests.exact_comparison --groups 100000 --seed 1

The command draws random groups from every family in turn (see `exact_groups`), solves each by every list of
criteria, and compares the answers with the optimum of an independent solver (`exact_oracle`). With
`--capacities`, members differ in capacity and some have partitions already (see `exact_scales`). It prints
each fault; the exit code is 1 if there is one. None is known.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from kafka_assignors.criteria import FEWEST_MOVES, MOVES_THEN_RACKS, PLAIN, RACKS_THEN_MOVES, Criteria, Scale
from kafka_assignors.group import Assignment, Group, Member
from kafka_assignors.solver import solve
from tests.exact_groups import FAMILIES, draw
from tests.exact_oracle import Oracle
from tests.exact_scales import random_scale
from tests.exact_score import owners_of, plain, score

T = TypeVar("T")

ORDERS: tuple[Criteria, ...] = (FEWEST_MOVES, MOVES_THEN_RACKS, RACKS_THEN_MOVES)


def drawn(groups: int, seed: int, *, capacities: bool = False) -> Iterator[tuple[str, Group, Scale]]:
    """Groups of every family in turn, each with its name and a scale."""
    for number in range(groups):
        family = FAMILIES[number % len(FAMILIES)]
        group = draw(family, f"{seed}/{number}")
        name = f"{family}/{seed}/{number}"
        yield name, group, random_scale(random.Random(f"scale/{name}"), group) if capacities else PLAIN


def faults(name: str, group: Group, scale: Scale = PLAIN) -> Iterator[str]:
    """What the solver does wrong in this group: by any criteria, if assigned again, or in another order."""
    oracle = Oracle(group, scale)
    judged = {
        (t, p): m for m, by_topic in group.claims.owners.items() for t, ps in by_topic.items() for p in ps
    }
    if judged != oracle.prior:
        yield f"{name}: the claims are judged differently"
        return
    for criteria in ORDERS:
        assignment = solve(group, group.claims, criteria=criteria, scale=scale)
        try:
            ours = score(group, owners_of(group, assignment), oracle.prior, scale)
        except AssertionError as invalid:
            yield f"{name}: {invalid}"
            continue
        best = oracle.best(criteria)
        if ours.by(criteria) != best.by(criteria):  # A smaller number is a fault of the oracle.
            yield f"{name}, {criteria}: {ours} where {best} is possible"
    rng = random.Random(name)
    criteria = rng.choice(ORDERS)

    def assign(group: Group) -> Assignment:
        return solve(group, group.claims, criteria=criteria, scale=scale)

    answer = assign(group)
    if plain(assign(owning(group, answer))) != plain(answer):
        yield f"{name}, {criteria}: assigning the answer again moves partitions"
    if plain(assign(shuffled(rng, group))) != plain(answer):
        yield f"{name}, {criteria}: the order of members or topics matters"


def owning(group: Group, assignment: Assignment, generation: int | None = None) -> Group:
    """The group one generation later, when every member owns its assignment."""
    generation = 1 + max(0, group.generation or 0) if generation is None else generation

    def later(member: Member) -> Member:
        return replace(member, owned=assignment.members[member.id], generation=generation)

    members = {member.id: later(member) for member in group.members.values()}
    return Group(group.topics, members, generation + 1)


def shuffled(rng: random.Random, group: Group) -> Group:
    """The same group with its members, topics and claims in another order."""

    def mixed(items: Mapping[str, T]) -> dict[str, T]:
        return dict(rng.sample(list(items.items()), len(items)))

    members = {
        member_id: replace(
            member,
            topics=frozenset(rng.sample(sorted(member.topics), len(member.topics))),
            owned={t: rng.sample(list(ps), len(ps)) for t, ps in mixed(member.owned).items()},
        )
        for member_id, member in mixed(group.members).items()
    }
    return Group(mixed(group.topics), members, group.generation)


def main() -> int:
    parser = argparse.ArgumentParser(description="Search for a group that is not solved exactly.")
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--capacities", action="store_true", help="members of different capacity")
    options = parser.parse_args()
    wrong = 0
    for name, group, scale in drawn(options.groups, options.seed, capacities=options.capacities):
        for fault in faults(name, group, scale):
            print(fault, flush=True)
            wrong += 1
    print(f"{options.groups} groups, {wrong} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
