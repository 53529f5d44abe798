"""The distance between classes of priority solved one after the other and classes solved jointly.

    python -m tests.priority_distance

The command draws small groups, with a few partitions that have priority and a few that have none, and tries
every assignment. The optimum is the best balanced of those assignments that divide the first class as evenly
as possible. The command prints in how many groups our solver is not as good, and by how much.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from kafka_assignors.group import Group, Member, Topic
from kafka_assignors_strategies import Priority
from tests.exact_score import owners_of

__all__ = ["Distance", "distance", "drawn"]

FIRST, REST = ("alerts", "alarms"), ("orders", "views")


@dataclass(frozen=True, slots=True)
class Distance:
    """The sum of the squared loads and the load of the fullest member, for our solver and the optimum."""

    ours: int
    best: int
    our_fullest: int
    best_fullest: int


def drawn(name: str) -> Group:
    """A group of up to four members, up to four partitions in the first class and up to five in no class."""
    rng = random.Random(name)
    topics = [Topic(name, rng.randint(0, 2)) for name in FIRST]
    topics += [Topic(REST[0], rng.randint(0, 3)), Topic(REST[1], rng.randint(0, 2))]
    names = [topic.name for topic in topics]
    members = [
        Member(f"m{number}", frozenset(rng.sample(names, rng.randint(1, len(names)))), generation=1)
        for number in range(rng.randint(2, 4))
    ]
    owned: dict[str, dict[str, list[int]]] = {member.id: {} for member in members}
    for topic in topics:
        for partition in range(topic.partitions):
            if rng.random() < 0.5:
                owned[rng.choice(members).id].setdefault(topic.name, []).append(partition)
    return Group.of(topics, [Member(m.id, m.topics, owned=owned[m.id], generation=1) for m in members], 2)


def distance(group: Group) -> Distance:
    """Our result and the best of all assignments, which are tried one by one."""
    members = sorted(group.members)
    owners = owners_of(group, Priority([FIRST]).assign(group))
    ours = [sum(owner == id for owner in owners.values()) for id in members]
    level = list(_loads(group, FIRST, [0] * len(members), members))
    least = min(map(_squares, level))
    reachable = [
        loads for first in level if _squares(first) == least for loads in _loads(group, REST, first, members)
    ]
    best, best_fullest = min(map(_squares, reachable)), min(map(max, reachable))
    return Distance(_squares(ours), best, max(ours), best_fullest)


def _loads(
    group: Group, topics: Sequence[str], before: Sequence[int], members: Sequence[str]
) -> Iterator[tuple[int, ...]]:
    """The distinct loads of all assignments of these topics, added to the loads `before`."""
    readers = [
        [number for number, id in enumerate(members) if name in group.members[id].topics]
        for name in topics
        for _ in range(group.topics[name].partitions)
    ]
    seen: set[tuple[int, ...]] = set()
    for owners in product(*filter(None, readers)):
        loads = list(before)
        for owner in owners:
            loads[owner] += 1
        if (found := tuple(loads)) not in seen:
            seen.add(found)
            yield found


def _squares(loads: Sequence[int]) -> int:
    return sum(load * load for load in loads)


def main() -> None:
    groups = 2000
    found = [distance(drawn(f"priority/{number}")) for number in range(groups)]
    worse = [one for one in found if one.ours > one.best]
    fuller = [one for one in found if one.our_fullest > one.best_fullest]
    print(
        f"{groups} groups; not as well balanced in all: {len(worse)}; a fuller fullest member: {len(fuller)}"
    )
    if worse:
        ratio = sum(one.ours / one.best for one in worse) / len(worse)
        most = max(one.ours / one.best for one in worse)
        print(f"where not: {ratio:.2f} times the squared loads on average, {most:.2f} times at most")
        print(f"the fullest has at most {max(o.our_fullest - o.best_fullest for o in worse)} more")


if __name__ == "__main__":
    main()
