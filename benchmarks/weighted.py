"""`weighted` and `sticky` on partitions of unequal weight: CPU time, balance and moves.

    python -m benchmarks.weighted            # some minutes of CPU
    python -m benchmarks.weighted --small    # a few seconds: does it run?

Weights are drawn from a Pareto distribution (shape 2): most partitions are light, a few are many times as
heavy. Each row of the first table is one assignment in one process: the thread's time in `assign`, as a
multiple of that of `sticky` on the same group; and for each threshold, the greatest load over the lower bound
and the number of moved partitions (a threshold of 0 shows the result of the search). The second table is a
group over several rebalances, in each of which every weight changes by up to a quarter. The third table has
small groups: their greatest load over the optimum, which an exhaustive search finds. The fourth has groups of
medium size.

Times are ratios within a process. They are about as good on a busy machine as on an idle one; the
milliseconds are not.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.loads import measure_loads
from kafka_assignors.quality import measure
from kafka_assignors.strategies import Sticky, Strategy
from kafka_assignors_strategies import Weighted
from kafka_assignors_strategies.weighted import THRESHOLD
from tests.weighed_groups import least_makespan, random_weighed_group, weighed

TOPICS = 20
REBALANCES = 20
SMALL_GROUPS = 3000
EVENT_THRESHOLDS = (0.0, 0.02, THRESHOLD, 0.1)
THRESHOLDS = (0.0, 0.02, THRESHOLD, 0.05, 0.1, 0.2)


def main() -> None:
    """Print the four tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a tenth of the members and partitions")
    by = 10 if parser.parse_args().small else 1
    columns = [
        "group",
        "event",
        "time, of sticky's",
        "ms",
        *(f"load, moved at {t}" for t in EVENT_THRESHOLDS),
    ]
    print(f"| {' | '.join([*columns, 'sticky'])} |\n{'|---' * (len(columns) + 1)}|")
    for members, partitions, mixed in [
        (100, 10_000, False),
        (1000, 10_000, False),
        (100, 10_000, True),
        (1000, 10_000, True),
    ]:
        group = a_group(members // by, partitions // by, mixed)
        name = f"{members // by} x {partitions // by}, {'half of the topics each' if mixed else 'uniform'}"
        for event, one in events(group):
            print(f"| {name} | {event} | {row(one)} |", flush=True)
    print()
    print("| threshold | moved in a rebalance: mean, most | greatest load, of the bound: mean, worst |")
    print("|---|---|---|")
    for threshold in THRESHOLDS:
        moved, ratios = zip(*life(a_group(100 // by, 10_000 // by, False), Weighted(threshold)), strict=True)
        cells = (
            f"{sum(moved) / REBALANCES:.1f}, {max(moved)}",
            f"{sum(ratios) / REBALANCES:.3f}, {max(ratios):.3f}",
        )
        print(f"| {threshold} | {' | '.join(cells)} |", flush=True)
    print()
    print("| threshold | load, of the optimum: mean, worst | moved |")
    print("|---|---|---|")
    small(SMALL_GROUPS // by)
    print()
    print("| group | load, of the bound: mean, worst |")
    print("|---|---|")
    for members, partitions, topics, number in (
        (6, 24, 6, 100),
        (8, 40, 6, 100),
        (12, 60, 8, 66),
        (20, 100, 10, 40),
    ):
        rng = random.Random(3)
        groups = [a_mixed_group(rng, members, partitions, topics) for _ in range(number // by)]
        print(f"| {members} x {partitions} | {ratios_of(groups)} |", flush=True)


def a_group(members: int, partitions: int, mixed: bool) -> Group:
    """Members of all topics, or of half of them each if `mixed`; no partition has an owner."""
    rng, size = random.Random(members), partitions // TOPICS
    topics = [
        Topic(f"t{number:02}", size, weights=tuple(a_weight(rng) for _ in range(size)))
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


def a_weight(rng: random.Random) -> int:
    return int(1000 * rng.paretovariate(2))


def events(group: Group) -> Iterator[tuple[str, Group]]:
    """Events of a group, each starting from the assignment that `weighted` made first."""
    yield "everything is new", group
    settled = owning(group, Weighted().assign(group))
    yield "nothing has changed", settled
    members = list(settled.members.values())
    yield "one member leaves", Group.of(group.topics.values(), members[1:])
    yield "one member joins", Group.of(group.topics.values(), [*members, Member("new", members[0].topics)])
    rng = random.Random(1)
    anew = [
        Topic(topic.name, topic.partitions, weights=tuple(a_weight(rng) for _ in range(topic.partitions)))
        for topic in group.topics.values()
    ]
    yield "all weights are drawn anew", Group.of(anew, members)
    yield "until now it was sticky", owning(group, Sticky().assign(group))


def row(group: Group) -> str:
    """One line of the first table."""
    weighted, stuck = Weighted(), Sticky()
    ours_s, ours = timed(weighted, group)
    theirs_s, theirs = timed(stuck, group)
    assignments = [ours if t == THRESHOLD else Weighted(t).assign(group) for t in EVENT_THRESHOLDS]
    cells = [
        f"{measure_loads(group, one).ratio:.3f}, {measure(group, one).moved}"
        for one in [*assignments, theirs]
    ]
    return " | ".join([f"{ours_s / theirs_s:.1f}", f"{1000 * ours_s:.0f}", *cells])


def small(number: int) -> None:
    """Print the third table: each row has the same groups of up to 4 members and 8 partitions."""
    rng = random.Random(26)
    groups = [random_weighed_group(rng, most_partitions=8) for _ in range(number)]
    least = [least_makespan(group) for group in groups]
    for threshold in (0.0, THRESHOLD, 0.1, 0.2):
        assigned = [(group, Weighted(threshold).assign(group)) for group in groups]
        reports = [measure_loads(group, one) for group, one in assigned]
        ratios = [one.makespan / best for one, best in zip(reports, least, strict=True) if best]
        moved = sum(measure(group, one).moved for group, one in assigned)
        print(f"| {threshold} | {sum(ratios) / len(ratios):.4f}, {max(ratios):.3f} | {moved} |", flush=True)


def a_mixed_group(rng: random.Random, members: int, partitions: int, topics: int) -> Group:
    """Members of at most half of the topics; no partition has an owner."""
    names = [f"t{number}" for number in range(topics)]
    weights: dict[str, list[int]] = {name: [] for name in names}
    for _ in range(partitions):
        weights[rng.choice(names)].append(a_weight(rng))
    return weighed(
        weights,
        {f"m{number:03}": rng.sample(names, rng.randint(1, topics // 2)) for number in range(members)},
    )


def ratios_of(groups: Sequence[Group]) -> str:
    """The mean and the worst greatest load over the bound at a threshold of 0."""
    ratios = [measure_loads(group, Weighted(0).assign(group)).ratio for group in groups]
    return f"{sum(ratios) / len(ratios):.3f}, {max(ratios):.3f}"


def timed(strategy: Strategy, group: Group) -> tuple[float, Assignment]:
    """The smaller of two times, after one call that does not count."""
    assignment = strategy.assign(group)
    took = []
    for _ in range(2):
        fresh = replace(group)  # The copy has no judged claims: judging them is part of the call.
        began = time.thread_time()
        strategy.assign(fresh)
        took.append(time.thread_time() - began)
    return min(took), assignment


def life(group: Group, strategy: Strategy) -> Iterator[tuple[int, float]]:
    """The number of moved partitions in each rebalance, and the greatest load over the bound after it."""
    rng = random.Random(2)
    group = owning(group, strategy.assign(group))
    for _ in range(REBALANCES):
        group = Group.of([drifted(topic, rng) for topic in group.topics.values()], group.members.values())
        assignment = strategy.assign(group)
        yield measure(group, assignment).moved, measure_loads(group, assignment).ratio
        group = owning(group, assignment)


def drifted(topic: Topic, rng: random.Random) -> Topic:
    weights = (int((weight or 0) * rng.uniform(0.75, 1.25)) for weight in topic.weights or ())
    return Topic(topic.name, topic.partitions, weights=tuple(weights))


def owning(group: Group, assignment: Assignment) -> Group:
    """The group after its members got this assignment."""
    return Group.of(group.topics.values(), owners(group.members.values(), assignment))


def owners(members: Iterable[Member], assignment: Assignment) -> Iterator[Member]:
    for member in members:
        yield Member(member.id, member.topics, owned=assignment.members[member.id], generation=1)


if __name__ == "__main__":
    main()
