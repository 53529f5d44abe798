"""The cost of random steps of Faust groups, under Faust's own assignor and ours.

python -m compat_tests.frameworks.faust_steps 400
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from faust.assignor.client_assignment import CopartitionedAssignment
from faust.assignor.copartitioned_assignor import CopartitionedAssignor

from kafka_assignors_aiokafka.faust import LeastMovesPlacement

__all__ = ["STEPS", "Members", "cost"]

STEPS = 10
"""The steps of each group; a member joins or leaves before each step except the first."""

Members = dict[str, CopartitionedAssignment]


def cost(placement: type[CopartitionedAssignor], groups: int) -> Counter[str]:
    """The sums over `groups` random groups.

    `uneven`: steps after which loads differ by more than one. `moved`: partitions whose active member
    changes. `restored`: partitions whose new active member had no state of them.
    """
    return sum((play(placement, seed) for seed in range(groups)), Counter())


def change(chance: random.Random, members: Members, step: int) -> Members:
    """Add or remove one member, and shuffle the others."""
    members = dict(members)
    if chance.random() < 0.5 and len(members) > 1:
        del members[chance.choice(sorted(members))]
    else:
        members[f"new-{step}"] = CopartitionedAssignment(set(), set(), {"orders"})
    mixed = list(members.items())
    chance.shuffle(mixed)
    return dict(mixed)


def play(placement: type[CopartitionedAssignor], seed: int) -> Counter[str]:
    """Random steps of a group with one set of topics, and their cost."""
    chance = random.Random(seed)
    partitions, replicas = chance.randint(1, 30), chance.randint(0, 2)
    members: Members = {
        f"m-{number}": CopartitionedAssignment(set(), set(), {"orders"})
        for number in range(chance.randint(1, 6))
    }
    found: Counter[str] = Counter()
    for step in range(STEPS):
        had = {id: (set(one.actives), set(one.standbys)) for id, one in members.items()}
        members = placement(["orders"], members, partitions, replicas).get_assignment()
        loads = [len(one.actives) for one in members.values()]
        found["uneven"] += max(loads) - min(loads) > 1
        everything = range(partitions)
        assert Counter(p for one in members.values() for p in one.actives) == Counter(everything)
        standbys = Counter(p for one in members.values() for p in one.standbys)
        assert all(standbys[p] == min(replicas, len(members) - 1) for p in everything)
        assert all(not one.actives & one.standbys for one in members.values())
        owner = {p: id for id, (actives, _) in had.items() for p in actives}
        for id, one in members.items():
            found["moved"] += sum(owner.get(p, id) != id for p in one.actives)
            found["restored"] += len(one.actives - had[id][0] - had[id][1])
        members = change(chance, members, step)
    return found


def main() -> None:
    groups = int(sys.argv[1])
    for placement in (CopartitionedAssignor, LeastMovesPlacement):
        print(placement.__name__, groups * STEPS, "steps", dict(sorted(cost(placement, groups).items())))


if __name__ == "__main__":
    main()
