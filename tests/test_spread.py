"""How evenly topics are spread over members, where no earlier criterion decides."""

from __future__ import annotations

import random
from collections import Counter

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.solver import solve
from kafka_assignors.solver.placement import MOST_DEALT
from tests.exact_groups import random_group


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


def excess(group: Group, assignment: Assignment) -> int:
    """The sum of squares, over topics and members, above that of topics that all subscribers share evenly."""
    subscribers = Counter(name for member in group.members.values() for name in member.topics)
    total = sum(len(share) ** 2 for shares in assignment.members.values() for share in shares.values())
    for name, topic in group.topics.items():
        if readers := subscribers[name]:
            least, more = divmod(topic.partitions, readers)
            total -= (readers - more) * least**2 + more * (least + 1) ** 2
    return total


def test_topics_of_small_groups_are_spread_as_evenly_as_so_far() -> None:
    # An optimum by integer programming has less by the squares of a few swaps: the spread is a heuristic.
    groups = [random_group(random.Random(f"spread/{number}")) for number in range(300)]
    assert sum(excess(group, solved(group)) for group in groups) <= 24_246


def test_members_with_different_topics_share_each_of_them() -> None:
    group = fresh(20, 50, 40)
    assert excess(group, solved(group)) <= 100  # dealing in rounds alone leaves more than 2000


def test_more_than_the_bound_is_dealt_in_rounds_alone() -> None:
    # Each exchange examines two members; a group of this size would need too many.
    group = fresh(20, MOST_DEALT // 20 + 1, 20)
    assert sum(map(solved(group).load, group.members)) > MOST_DEALT
