"""Our strategies as contestants: the number of consumers, and `weighted` or `cooperative-sticky` for them.

A step is the reaction of an autoscaler and a group to one measurement. First it finds the number of consumers
(`Count`). If the number grows, consumers join without partitions; if it falls, the least loaded ones leave.
Then a strategy of the library assigns, for a group of these members with their owned partitions, and with the
speeds as weights.

It is assumed that the least loaded consumers leave; Kubernetes needs `pod-deletion-cost` for that. The
published heuristics also choose the consumers that leave.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from benchmarks.autoscaling.heuristics import UNASSIGNED, Heuristic, Owners
from benchmarks.autoscaling.simulation import Decision, Step, draws
from benchmarks.autoscaling.traces import CAPACITY, CONSUMER_CAPACITY, INTERVAL_S
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.sizing import Needed, Recommendation, ScalingPolicy, recommend
from kafka_assignors.sizing.packing import pack
from kafka_assignors.strategies import Strategy

__all__ = [
    "Count",
    "as_published",
    "fewest",
    "fixed",
    "following",
    "held",
    "recommended",
    "scaled",
    "sized",
    "when_exceeded",
]

Count: TypeAlias = Callable[[Sequence[int]], int]
"""Returns the number of consumers for a measurement; called with each measurement in turn."""

_TOPIC = "t"

_SIZE_STEPS = 5000


def as_published(heuristic: Heuristic) -> Step:
    """A heuristic that chooses its consumers itself: a consumer without a partition does not exist."""
    rng = draws()

    def step(speeds: Sequence[int], before: Decision) -> Decision:
        owners = heuristic(speeds, before.owners, rng)
        return Decision(owners, frozenset(owners))

    return step


def when_exceeded(step: Step) -> Step:
    """The step, taken only if a consumer has more load than it carries, as in the authors' controller."""

    def guarded(speeds: Sequence[int], before: Decision) -> Decision:
        loads = Counter[int]()
        for speed, owner in zip(speeds, before.owners, strict=True):
            loads[owner] += speed
        exceeded = UNASSIGNED in loads or max(loads.values()) > CONSUMER_CAPACITY
        return step(speeds, before) if exceeded else before

    return guarded


def scaled(count: Count, strategy: Strategy) -> Step:
    """A group of as many members as `count` returns, under a strategy of the library."""

    def step(speeds: Sequence[int], before: Decision) -> Decision:
        consumers = _changed(speeds, before, count(speeds))
        return Decision(_assigned(strategy, speeds, before.owners, consumers), frozenset(consumers))

    return step


def fewest(speeds: Sequence[int]) -> int:
    """The number of consumers for loads within C by best fit decreasing, as BFD has."""
    loads: list[int] = []
    for speed in sorted(speeds, reverse=True):
        place = bisect_right(loads, CAPACITY - speed)
        load = loads.pop(place - 1) if place else 0
        insort(loads, load + speed)
    return len(loads)


def sized(speeds: Sequence[int], capacity: int = CAPACITY) -> int:
    """The fewest consumers that `kafka-assignors size` finds, with a short search."""
    costs = sorted((speed for speed in speeds if speed), reverse=True)
    return max(1, len(pack(costs, capacity, _SIZE_STEPS).bins))


def recommended() -> Count:
    """The default recommendation of `kafka-assignors size`, with a headroom that leaves C of 1.33 C.

    It rises to loads within C when loads within 1.33 C need more consumers; it falls after ten minutes.
    """
    state, policy = Recommendation(), ScalingPolicy()
    times = itertools.count(0.0, INTERVAL_S)

    def count(speeds: Sequence[int]) -> int:
        nonlocal state
        needed = Needed(full=sized(speeds, CONSUMER_CAPACITY), target=sized(speeds))
        state = recommend(state, next(times), needed, policy)
        assert state.members is not None
        return state.members

    return count


def held(measurements: int) -> Count:
    """The largest number that the last measurements needed, as Kubernetes' HPA scales down."""
    recent: deque[int] = deque(maxlen=measurements)

    def count(speeds: Sequence[int]) -> int:
        recent.append(fewest(speeds))
        return max(recent)

    return count


def fixed(consumers: int) -> Count:
    """A constant number."""
    return lambda _: consumers


def following(counts: Sequence[int]) -> Count:
    """The number that another contestant had at the same measurement."""
    turns: Iterator[int] = iter(counts)
    return lambda _: next(turns)


def _changed(speeds: Sequence[int], before: Decision, count: int) -> list[int]:
    """The previous consumers, without the least loaded ones or with new ones."""
    loads = dict.fromkeys(before.consumers, 0)
    for speed, owner in zip(speeds, before.owners, strict=True):
        if owner in loads:
            loads[owner] += speed
    staying = sorted(loads, key=lambda consumer: (-loads[consumer], consumer))[:count]
    free = (number for number in range(count) if number not in loads)
    return sorted([*staying, *(next(free) for _ in range(count - len(staying)))])


def _assigned(
    strategy: Strategy, speeds: Sequence[int], owners: Owners, consumers: Sequence[int]
) -> list[int]:
    owned: dict[int, list[int]] = {}
    for partition, owner in enumerate(owners):
        owned.setdefault(owner, []).append(partition)
    members = [
        Member(f"{consumer:05}", frozenset({_TOPIC}), owned={_TOPIC: owned.get(consumer, [])}, generation=1)
        for consumer in consumers
    ]
    group = Group.of([Topic(_TOPIC, len(speeds), weights=tuple(speeds))], members)
    found = [UNASSIGNED] * len(speeds)
    for member_id, by_topic in strategy.assign(group).members.items():
        for partition in by_topic.get(_TOPIC, ()):
            found[partition] = int(member_id)
    return found
