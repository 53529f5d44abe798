"""Our strategies as contestants: how many consumers, and `weighted` or `cooperative-sticky` for them.

A step is what an autoscaler and a group do with one measurement. The number of consumers comes first
(`Count`). If it has grown consumers come with nothing; if it has fallen those with the least load go. Then
a strategy of the library assigns, on a group of so many members that own what they have, with the speeds as
weights.

That the least loaded consumers go is assumed; with Kubernetes it takes `pod-deletion-cost`. The published
heuristics choose who goes too.
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
"""Called with each measurement in turn: how many consumers there should be."""

_TOPIC = "t"

_SIZE_STEPS = 5000


def as_published(heuristic: Heuristic) -> Step:
    """A heuristic, which says itself who is needed: a consumer without a partition is not there."""
    rng = draws()

    def step(speeds: Sequence[int], before: Decision) -> Decision:
        owners = heuristic(speeds, before.owners, rng)
        return Decision(owners, frozenset(owners))

    return step


def when_exceeded(step: Step) -> Step:
    """The same, but only where a consumer has more than it carries: the trigger of the authors'
    controller."""

    def guarded(speeds: Sequence[int], before: Decision) -> Decision:
        loads = Counter[int]()
        for speed, owner in zip(speeds, before.owners, strict=True):
            loads[owner] += speed
        exceeded = UNASSIGNED in loads or max(loads.values()) > CONSUMER_CAPACITY
        return step(speeds, before) if exceeded else before

    return guarded


def scaled(count: Count, strategy: Strategy) -> Step:
    """A group of as many members as `count` says, under a strategy of ours."""

    def step(speeds: Sequence[int], before: Decision) -> Decision:
        consumers = _changed(speeds, before, count(speeds))
        return Decision(_assigned(strategy, speeds, before.owners, consumers), frozenset(consumers))

    return step


def fewest(speeds: Sequence[int]) -> int:
    """The consumers for loads within C by best fit decreasing: as many as BFD has."""
    loads: list[int] = []
    for speed in sorted(speeds, reverse=True):
        place = bisect_right(loads, CAPACITY - speed)
        load = loads.pop(place - 1) if place else 0
        insort(loads, load + speed)
    return len(loads)


def sized(speeds: Sequence[int], capacity: int = CAPACITY) -> int:
    """As many as `kafka-assignors size` finds to be the fewest, with a short search."""
    costs = sorted((speed for speed in speeds if speed), reverse=True)
    return max(1, len(pack(costs, capacity, _SIZE_STEPS).bins))


def recommended() -> Count:
    """What `kafka-assignors size` recommends by default, with a headroom that leaves C of 1.33 C.

    It goes up, to loads within C, when loads within 1.33 C need more; down after ten minutes.
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
    """The most that were needed in so many measurements, as Kubernetes' HPA scales down."""
    recent: deque[int] = deque(maxlen=measurements)

    def count(speeds: Sequence[int]) -> int:
        recent.append(fewest(speeds))
        return max(recent)

    return count


def fixed(consumers: int) -> Count:
    """Always so many."""
    return lambda _: consumers


def following(counts: Sequence[int]) -> Count:
    """As many as another contestant had at the same measurement."""
    turns: Iterator[int] = iter(counts)
    return lambda _: next(turns)


def _changed(speeds: Sequence[int], before: Decision, count: int) -> list[int]:
    """The consumers of before, without the least loaded or with new ones."""
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
