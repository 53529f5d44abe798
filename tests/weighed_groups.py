"""Groups with weighted partitions, small enough to try every assignment."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.loads import weights_of
from kafka_assignors.strategies import RebalanceProtocol, Strategy

__all__ = [
    "after",
    "least_makespan",
    "loads",
    "random_weighed_group",
    "settled",
    "weighed",
    "weighed_groups",
]

GENERATION = 9

Owned = Mapping[str, Mapping[str, Sequence[int]]]


def weighed(
    weights: Mapping[str, Sequence[int | None] | None],
    members: Mapping[str, Iterable[str]],
    owned: Owned | None = None,
) -> Group:
    """Topics with these weights, and members with these subscriptions and owned partitions."""
    return Group.of(
        [
            Topic(name, 3 if given is None else len(given), weights=None if given is None else tuple(given))
            for name, given in weights.items()
        ],
        [
            Member(m, frozenset(topics), owned=(owned or {}).get(m, {}), generation=GENERATION - 1)
            for m, topics in members.items()
        ],
        GENERATION,
    )


def after(group: Group, assignment: Assignment) -> Group:
    """The same group when the members own their assignments."""
    return Group.of(
        group.topics.values(),
        [
            Member(m.id, m.topics, owned=assignment.members[m.id], generation=GENERATION - 1)
            for m in group.members.values()
        ],
        GENERATION,
    )


def settled(strategy: Strategy, group: Group, most_rounds: int) -> tuple[Group, int]:
    """The group when no member has to revoke any more (KIP-429), and the number of rounds until then."""
    for rounds in range(1, most_rounds + 1):
        led = lead(strategy, group, RebalanceProtocol.COOPERATIVE)
        group = after(group, led.assignment)
        if not led.withheld:
            return group, rounds
    raise AssertionError(f"members still revoke after {most_rounds} rounds")


def loads(group: Group, assignment: Assignment) -> dict[str, int]:
    """The weight of each member's partitions."""
    weights = weights_of(group).by_topic
    return {
        member_id: sum(weights[name][p] for name, partitions in topics.items() for p in partitions)
        for member_id, topics in assignment.members.items()
    }


def least_makespan(group: Group) -> int:
    """The smallest possible maximum load, found by trying all assignments."""
    members = list(group.members.values())
    jobs = [
        (weight, takers)
        for name, weights in weights_of(group).by_topic.items()
        if (takers := [at for at, member in enumerate(members) if name in member.topics])
        for weight in weights
    ]
    jobs.sort(key=lambda job: -job[0])
    best = sum(weight for weight, _ in jobs)
    so_far = [0] * len(members)

    def place(number: int) -> None:
        nonlocal best
        if number == len(jobs):
            best = min(best, max(so_far, default=0))
            return
        weight, takers = jobs[number]
        for taker in takers:
            if so_far[taker] + weight < best:
                so_far[taker] += weight
                place(number + 1)
                so_far[taker] -= weight

    place(0)
    return best


def random_weighed_group(rng: random.Random, *, most_partitions: int) -> Group:
    """Up to 4 members that subscribe to some of 3 topics, weights up to 40; 4 in 5 have prior owners."""
    names = ["orders", "pays", "views"][: rng.randint(1, 3)]
    weights: dict[str, list[int]] = {name: [] for name in names}
    for _ in range(rng.randint(1, most_partitions)):
        weights[rng.choice(names)].append(rng.randint(0, 40))
    members = {f"m{n}": rng.sample(names, rng.randint(1, len(names))) for n in range(rng.randint(1, 4))}
    owned: dict[str, dict[str, list[int]]] = {m: {} for m in members}
    if rng.random() < 0.8:
        for name in names:
            takers = [m for m in members if name in members[m]]
            for partition in range(len(weights[name])):
                if takers and rng.random() < 0.85:
                    owned[rng.choice(takers)].setdefault(name, []).append(partition)
    return weighed(weights, members, owned)


_WEIGHTS = st.one_of(
    st.none(), st.sampled_from([0, 1, 1, 2, 5, 9, 10, 50]), st.integers(0, 20), st.just(2**63 - 1)
)


@st.composite
def weighed_groups(draw: st.DrawFn, *, most_partitions: int = 4) -> Group:
    """Up to 4 members and 3 topics; the owned partitions are arbitrary."""
    names = ["orders", "pays", "views"][: draw(st.integers(1, 3))]
    topics: dict[str, Sequence[int | None] | None] = {}
    for name in names:
        topics[name] = draw(st.none() | st.lists(_WEIGHTS, max_size=most_partitions))
    alike = draw(st.booleans())
    ids = [f"m{number}" for number in range(draw(st.integers(1, 4)))]
    members = {m: names if alike else sorted(draw(st.sets(st.sampled_from(names), min_size=1))) for m in ids}
    owned: dict[str, dict[str, list[int]]] = {m: {} for m in ids}
    for name, weights in topics.items():
        takers = [m for m in ids if name in members[m]]
        for partition in range(3 if weights is None else len(weights)):
            owner = draw(st.sampled_from([None, *takers])) if takers else None
            if owner is not None:
                owned[owner].setdefault(name, []).append(partition)
    return weighed(topics, members, owned if draw(st.booleans()) else None)
