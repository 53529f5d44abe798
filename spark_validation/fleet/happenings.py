"""The events of a group and their times: deployments, autoscaling, crash loops, expired sessions and others.

Times are milliseconds since the beginning of the history.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spark_validation.fleet.profile import DAY_MS, FleetOptions, GroupProfile, topics_of

__all__ = ["Happening", "What", "daylight", "happenings"]

_HOUR_MS = 60 * 60 * 1000


class What(enum.Enum):
    """A kind of event. Unless stated otherwise, `number` selects a member (modulo the number of members)."""

    JOIN = "a member joins"
    LEAVE = "a member leaves"
    RESTART = "a member restarts: a static one keeps its place"
    SCALE = "there should be `number` members"
    RESUBSCRIBE = "a member restarts, with the group's later topics"
    REFRESH = "the leader hears of partitions added"
    END = "all members leave, and the group is deleted"


@dataclass(frozen=True, slots=True, order=True)
class Happening:
    at_ms: int
    order: int
    what: What
    number: int = 0


def happenings(options: FleetOptions, profile: GroupProfile) -> list[Happening]:
    """The events of one group, ordered by time: enough for its generations, or a few more."""
    rng = options.random("happenings", profile.index)
    generations = float(profile.members)

    # Clients request metadata every five minutes.
    planned = [
        (topic.grows_at_ms + rng.randrange(300_000), What.REFRESH, 0)
        for topic in topics_of(options, profile.topics)
        if topic.grows_at_ms is not None
    ]
    if profile.reborn:
        planned.append((rng.randrange(options.duration_ms), What.END, 0))
    if profile.later_topics != profile.topics:
        at = rng.randrange(options.duration_ms)
        planned.extend(_wave(rng, profile, at, What.RESUBSCRIBE))

    kinds: tuple[tuple[Callable[..., Iterator[tuple[int, What, int]]], int], ...] = (
        (_deployment, 20),
        (_scaling, 40),
        (_crash_loop, 60 if profile.flapping else 3),
        (_expiry, 20),
    )
    while generations < profile.generations:
        (kind,) = rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
        made = list(kind(rng, profile, _some_time(rng, options)))
        planned.extend(made)
        generations += sum(_generations(profile, what) for _, what, _ in made)
    in_order = sorted(
        Happening(at_ms, order, what, number) for order, (at_ms, what, number) in enumerate(planned)
    )
    return [each for each in in_order if each.at_ms < options.duration_ms]


def _generations(profile: GroupProfile, what: What) -> float:
    """The approximate number of generations that an event causes."""
    if what in (What.RESTART, What.RESUBSCRIBE):
        return 0.1 if profile.static else 2.0
    return 1.3 if profile.strategy == "cooperative-sticky" else 1.0


def _some_time(rng: random.Random, options: FleetOptions) -> int:
    """A random time, more likely by day than by night."""
    while True:
        at_ms = rng.randrange(options.duration_ms)
        if rng.random() < 0.25 + 0.75 * daylight(at_ms):
            return at_ms


def daylight(at_ms: int) -> float:
    """0 at two in the morning, 1 at two in the afternoon."""
    return (1 - math.cos(2 * math.pi * (at_ms - 2 * _HOUR_MS) / DAY_MS)) / 2


def _wave(
    rng: random.Random, profile: GroupProfile, at_ms: int, what: What
) -> Iterator[tuple[int, What, int]]:
    pace_ms = rng.choice((2_000, 15_000, 40_000))
    for number in range(profile.members):
        yield at_ms, what, number
        at_ms += rng.randrange(pace_ms // 2, 2 * pace_ms)


def _deployment(rng: random.Random, profile: GroupProfile, at_ms: int) -> Iterator[tuple[int, What, int]]:
    """The members restart one after the other."""
    yield from _wave(rng, profile, at_ms, What.RESTART)


def _scaling(rng: random.Random, profile: GroupProfile, at_ms: int) -> Iterator[tuple[int, What, int]]:
    """The group scales to the number of members for the time of day, plus or minus one."""
    wanted = profile.members * (1 + profile.swing * (2 * daylight(at_ms) - 1))
    yield at_ms, What.SCALE, max(1, round(wanted) + rng.choice((-1, 0, 1)))


def _crash_loop(rng: random.Random, profile: GroupProfile, at_ms: int) -> Iterator[tuple[int, What, int]]:
    """A member stops soon after each start, with a longer wait each time."""
    wait_ms = 10_000
    for _ in range(rng.randrange(3, 12)):
        yield at_ms, What.JOIN, 0
        at_ms += rng.randrange(2_000, 20_000)
        yield at_ms, What.LEAVE, -1
        at_ms += wait_ms
        wait_ms = min(2 * wait_ms, 300_000)


def _expiry(rng: random.Random, profile: GroupProfile, at_ms: int) -> Iterator[tuple[int, What, int]]:
    """A member fails, its session expires, and another member replaces it."""
    yield at_ms + 45_000, What.LEAVE, rng.randrange(1 << 30)
    yield at_ms + 45_000 + rng.randrange(120_000), What.JOIN, 0
