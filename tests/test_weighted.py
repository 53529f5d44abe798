"""The guarantees of `weighted`, on groups small enough to try every assignment, and on constructed ones."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.loads import crowding_bound, weights_of
from kafka_assignors.quality import measure
from kafka_assignors.strategies import RebalanceProtocol, Sticky, Strategy
from kafka_assignors_cli.load_report import measure_loads
from kafka_assignors_replay.history.group_replay import settle
from kafka_assignors_strategies import Weighted
from kafka_assignors_strategies.makespan.jobs import NO_OWNER, jobs_of
from tests.exact_comparison import owning

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


# ---- tests

THRESHOLDS = st.sampled_from([0.0, Weighted().threshold, 0.3])


def assigned(strategy: Weighted, group: Group) -> Assignment:
    """A checked assignment of the group."""
    return lead(strategy, group, RebalanceProtocol.EAGER).target


def promised(group: Group, strategy: Weighted) -> Fraction:
    """The factor of the optimum that `Weighted` promises."""
    jobs, _ = jobs_of(group, weights_of(group))
    report = measure_loads(group, Assignment({}))
    placed = jobs.owners.count(NO_OWNER)
    alike = len(jobs.cohorts) == 1
    factor = Fraction(4, 3) - Fraction(1, 3 * len(jobs.members)) if alike else Fraction(2)
    if report.heaviest:
        by_heaviest = 1 + max(Fraction(report.heaviest, report.lower_bound), Fraction(1, 256))
        factor = min(factor, by_heaviest)
    return (
        factor
        if placed == len(jobs.weights)
        else factor / (1 - Fraction(strategy.threshold).limit_denominator(1_000_000))
    )


def moved(group: Group, assignment: Assignment) -> int:
    return measure(group, assignment).moved


class TestBounds:
    @settings(max_examples=300)
    @given(weighed_groups(), THRESHOLDS)
    def test_within_the_promised_factor_and_never_below_the_lower_bound(
        self, group: Group, threshold: float
    ) -> None:
        strategy = Weighted(threshold)
        report = measure_loads(group, assigned(strategy, group))
        least = least_makespan(group)
        assert report.lower_bound <= least <= report.makespan <= promised(group, strategy) * least

    @pytest.mark.parametrize("members", [2, 3, 5, 25])
    def test_graham_s_worst_case_of_the_heaviest_first(self, members: int) -> None:
        # Two each of 2m-1, 2m-2 … m, and a third m: heaviest first reaches 4m-1, and the optimum is 3m.
        weights = [w for w in range(2 * members - 1, members - 1, -1) for _ in range(2)] + [members]
        group = weighed({"orders": weights}, {f"m{n}": ["orders"] for n in range(members)})
        report = measure_loads(group, assigned(Weighted(), group))
        assert report.lower_bound == 3 * members
        assert promised(group, Weighted()) == Fraction(4 * members - 1, 3 * members)
        assert report.makespan <= 4 * members - 1

    @pytest.mark.parametrize("mixed", [False, True])
    @pytest.mark.parametrize("members", [10, 100])
    def test_a_twentieth_above_the_bound_in_each_event_by_default(self, members: int, mixed: bool) -> None:
        for event, group in events(pareto_group(members, 20 * members, mixed)):
            assert measure_loads(group, assigned(Weighted(), group)).ratio <= 1.05, event

    @given(st.lists(st.integers(1, 30), max_size=7), st.integers(1, 3))
    def test_of_crowding_is_one(self, weights: list[int], members: int) -> None:
        group = weighed({"t": weights}, {f"m{n}": ["t"] for n in range(members)})
        assert crowding_bound(weights, members) <= least_makespan(group)


class TestRest:
    @given(weighed_groups(), THRESHOLDS)
    def test_a_cooperative_group_comes_to_rest_soon(self, group: Group, threshold: float) -> None:
        strategy = Weighted(threshold)
        settled, rounds = settle(strategy, group)
        assert rounds <= 4
        assert moved(after(group, settled), strategy.assign(after(group, settled))) == 0


class TestWhatMoves:
    def test_not_for_a_gain_below_the_threshold(self) -> None:
        members, owned = {"a": ["t"], "b": ["t"]}, {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
        group = weighed({"t": [10, 6, 3, 11]}, members, owned)
        assert loads(group, assigned(Weighted(0.1), group)) == {"a": 16, "b": 14}
        assert max(loads(group, assigned(Weighted(0.0), group)).values()) == 16  # this is optimal too
        heavier = weighed({"t": [20, 16, 3, 11]}, members, owned)
        assert max(loads(heavier, assigned(Weighted(0.1), heavier)).values()) <= 30

    def test_the_second_fullest_member_is_relieved_beside_a_partition_heavier_than_any_share(self) -> None:
        group = weighed(
            {"t": [1000, 100, 100, 100, 100]},
            {m: ["t"] for m in "abcd"},
            {"a": {"t": [0]}, "b": {"t": [1, 2, 3]}, "c": {"t": [4]}},
        )
        assert sorted(loads(group, assigned(Weighted(), group)).values()) == [100, 100, 200, 1000]

    @pytest.mark.parametrize("threshold", [0, 0.02, Weighted().threshold])
    def test_few_move_as_weights_change_and_loads_stay_near_the_bound(self, threshold: float) -> None:
        # Weights change by up to a quarter. A fresh assignment would move nine of ten partitions.
        lived = list(life(pareto_group(20, 2000, False), Weighted(threshold)))
        assert max(ratio for _, ratio in lived) <= 1.005 / (1 - threshold)
        assert max(moved for moved, _ in lived) <= 2000 / 50


class TestWeightlessAndUnknown:
    def test_partitions_without_weight_are_spread_by_number(self) -> None:
        group = weighed({"t": [100, 1] + [0] * 98}, {"a": ["t"], "b": ["t"]})
        assignment = assigned(Weighted(), group)
        assert [assignment.load("a"), assignment.load("b")] == [50, 50]

    def test_an_unknown_weight_is_the_median_of_its_topic_or_else_of_all(self) -> None:
        group = weighed({"t": [1, None, 7, 9], "u": None, "v": [100, 100]}, {"a": ["t", "u", "v"]})
        assert loads(group, assigned(Weighted(), group)) == {"a": 1 + 7 + 7 + 9 + 3 * 9 + 200}
        assert measure_loads(group, assigned(Weighted(), group)).unknown_weights == 4
        (finding,) = Weighted().findings(group)
        assert finding.startswith("4 of 9 weights are unknown")

    def test_a_group_without_members_or_topics_is_assigned(self) -> None:
        assert assigned(Weighted(), weighed({"t": [1]}, {})).members == {}
        assert assigned(Weighted(), weighed({"t": []}, {"a": ["t", "gone"]})).members == {"a": {}}
        report = measure_loads(weighed({}, {}), Assignment({}))
        assert (report.makespan, report.lower_bound, report.ratio) == (0, 0, 1.0)


@pytest.mark.parametrize("threshold", [-0.1, 1, 1.5, float("nan"), float("inf")])
def test_a_threshold_that_makes_no_sense_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match=r"threshold must be from 0 to 0\.99"):
        Weighted(threshold)
