"""How evenly topics are spread over members, where no earlier criterion decides."""

from __future__ import annotations

import random

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.solver import solve
from kafka_assignors.solver.placement import MOST_DEALT
from tests.exact_spread import excess, measure


def fresh(topics: int, partitions: int, members: int) -> Group:
    """A group in which each member subscribes to a random third of the topics."""
    rng = random.Random("fresh")
    names = [f"t{number:03}" for number in range(topics)]
    return Group.of(
        [Topic(name, partitions) for name in names],
        [Member(f"m{number:03}", frozenset(rng.sample(names, topics // 3))) for number in range(members)],
    )


def solved(group: Group) -> Assignment:
    return solve(group, group.claims)


def test_small_groups_are_nearly_always_as_even_as_can_be() -> None:
    distances = measure(150, seed=3)
    print(distances.table())
    assert distances.swaps[0] >= 0.93 * distances.swaps.total()
    assert max(distances.swaps) <= 12


def test_members_with_different_topics_share_each_of_them() -> None:
    group = fresh(20, 50, 40)
    assert excess(group, solved(group)) <= 100  # dealing in rounds alone leaves more than 2000


def test_a_member_with_too_much_of_one_topic_gives_that_topic_and_not_the_others() -> None:
    names = frozenset({"a", "b"})
    owned = {"a": list(range(9)), "b": [0]}
    group = Group.of(
        [Topic("a", 9), Topic("b", 1)], [Member("m", names, owned=owned, generation=1), Member("n", names)]
    )
    members = solved(group).members
    assert {member_id: len(share["a"]) for member_id, share in members.items()} == {"m": 4, "n": 5}


def test_more_than_the_bound_is_dealt_in_rounds_alone() -> None:
    # Each exchange examines two members; a group of this size would need too many.
    group = fresh(20, MOST_DEALT // 20 + 1, 20)
    assert sum(map(solved(group).load, group.members)) > MOST_DEALT
