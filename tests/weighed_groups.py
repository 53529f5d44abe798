"""Groups with weighted partitions: small enough to try every assignment, or of a size as users have."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hypothesis import strategies as st

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.loads import weights_of
from kafka_assignors.quality import measure
from kafka_assignors.strategies import Sticky, Strategy
from kafka_assignors_cli.load_report import measure_loads
from kafka_assignors_strategies import Weighted
from tests.exact_comparison import owning

__all__ = [
    "after",
    "events",
    "least_makespan",
    "life",
    "loads",
    "pareto_group",
    "weighed",
    "weighed_groups",
]

GENERATION = 9
TOPICS = 20
"""Of a group of `pareto_group`."""

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
    return owning(group, assignment, GENERATION - 1)


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


def pareto_group(members: int, partitions: int, mixed: bool) -> Group:
    """Members of all topics, or of half of them each if `mixed`; no partition has an owner."""
    rng, size = random.Random(members), partitions // TOPICS
    topics = [
        Topic(f"t{number:02}", size, weights=tuple(pareto_weight(rng) for _ in range(size)))
        for number in range(TOPICS)
    ]
    names = [topic.name for topic in topics]
    return Group.of(
        topics,
        [
            Member(f"m{number:04}", frozenset(rng.sample(names, TOPICS // 2) if mixed else names))
            for number in range(members)
        ],
    )


def pareto_weight(rng: random.Random) -> int:
    return int(1000 * rng.paretovariate(2))


def events(group: Group) -> Iterator[tuple[str, Group]]:
    """Events of a group, each starting from the assignment that `weighted` made first."""
    yield "everything is new", group
    settled = after(group, Weighted().assign(group))
    yield "nothing has changed", settled
    members = list(settled.members.values())
    yield "one member leaves", Group.of(group.topics.values(), members[1:])
    yield "one member joins", Group.of(group.topics.values(), [*members, Member("new", members[0].topics)])
    rng = random.Random(1)
    anew = [
        Topic(
            topic.name, topic.partitions, weights=tuple(pareto_weight(rng) for _ in range(topic.partitions))
        )
        for topic in group.topics.values()
    ]
    yield "all weights are drawn anew", Group.of(anew, members)
    yield "until now it was sticky", after(group, Sticky().assign(group))


def life(group: Group, strategy: Strategy) -> Iterator[tuple[int, float]]:
    """The number of moved partitions in each rebalance, and the greatest load over the bound after it."""
    rng = random.Random(2)
    group = after(group, strategy.assign(group))
    for _ in range(20):
        group = Group.of([drifted(topic, rng) for topic in group.topics.values()], group.members.values())
        assignment = strategy.assign(group)
        yield measure(group, assignment).moved, measure_loads(group, assignment).ratio
        group = after(group, assignment)


def drifted(topic: Topic, rng: random.Random) -> Topic:
    weights = (int((weight or 0) * rng.uniform(0.75, 1.25)) for weight in topic.weights or ())
    return Topic(topic.name, topic.partitions, weights=tuple(weights))
