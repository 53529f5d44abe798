"""The start of step 3: what a simple rule finds, and when that is enough.

**Keep.** Every member keeps what it owned, up to its load; and as many as the level has extra, of those that
may get one more, keep that.
Without rack misses no assignment keeps more partitions than this, whichever classes they are of.

**Fill.** What is left of each class is poured over the subscribers that still have room, and passed on among
them (see `distribution`). If it all goes in, as it mostly does when a member joins or leaves, then every
partition that was not kept had to move, nothing can be better, and no network is needed. If something stays
over, the network goes on from what is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_assignors.solver.classes import Classes, PartitionClass
from kafka_assignors.solver.distribution import Distribution
from kafka_assignors.solver.levels import Level
from kafka_assignors.solver.rounds import deal

__all__ = ["Shares", "deal_counts", "even_wishes", "fill", "keep"]

Shares = list[dict[int, int]]
"""By partition class: how many of its partitions each member gets, by member number."""


def keep(
    classes: Classes,
    level: Level,
    members: Mapping[int, int],
    parts: Sequence[PartitionClass],
    owned: Sequence[Mapping[int, int]],
) -> Shares:
    """What the members of a level can keep without a rack miss, in the order of `parts`.

    `members` gives the cohort of each, `owned` says what they owned of each class. Where members have to
    choose, they give up what is nearest to members with room: partitions of classes that these subscribe to,
    or else of classes through which others can pass something on to them.
    """
    room = {m: level.loads[cohort] for m, cohort in members.items()}
    left = dict(room)
    for counts in owned:
        for m, count in counts.items():
            room[m] -= count
    demand: dict[int, int] = {}  # by cohort
    for m, missing in room.items():
        if missing > 0:
            demand[members[m]] = demand.get(members[m], 0) + missing
    demanding = frozenset(demand)
    subscribers = [classes.topic_classes[part.topic_class].cohorts for part in parts]
    wanted = [sum(map(demand.__getitem__, demanding.intersection(cohorts))) for cohorts in subscribers]
    steps = _steps_to_room(classes, members, parts, owned, wanted)
    least_wanted_first = sorted(
        range(len(parts)), key=lambda index: (-steps[index], wanted[index], len(subscribers[index]))
    )
    kept: Shares = [{} for _ in parts]
    one_more: dict[int, int] = {}  # member: a class of which it could keep one more
    for index in least_wanted_first:
        part = parts[index]
        keeps_of = kept[index]
        missable = part.racks is not None
        for m, count in owned[index].items():
            if missable and part.misses(classes.racks[m]):
                continue
            keeps = min(count, left[m])
            if keeps:
                left[m] -= keeps
                keeps_of[m] = keeps
            if keeps < count and members[m] in level.optional:
                one_more.setdefault(m, index)
    for m in sorted(one_more)[: level.extra]:
        counts = kept[one_more[m]]
        counts[m] = counts.get(m, 0) + 1
    return kept


def _steps_to_room(
    classes: Classes,
    members: Mapping[int, int],
    parts: Sequence[PartitionClass],
    owned: Sequence[Mapping[int, int]],
    wanted: Sequence[int],
) -> list[int]:
    """Through how many owners a partition of each class must be passed on until a member with room wants one.

    As many as there are classes where it never comes to that. Mostly a few owners are enough to find out that
    every class is near.
    """
    steps = [0 if want else len(wanted) for want in wanted]
    reached = [index for index, want in enumerate(wanted) if want]
    waiting: dict[int, list[int]] = {}
    for index, want in enumerate(wanted):
        if not want:
            waiting.setdefault(parts[index].topic_class, []).append(index)
    asked: set[int] = set()
    for index in reached:  # grows while it is walked through
        for m in owned[index]:
            if not waiting:
                return steps
            cohort = members[m]
            if cohort in asked:
                continue
            asked.add(cohort)
            for topic in classes.subscriptions[cohort]:
                for other in waiting.pop(classes.class_of_topic[topic], ()):
                    steps[other] = steps[index] + 1
                    reached.append(other)
    return steps


def fill(
    classes: Classes, level: Level, parts: Sequence[PartitionClass], kept: Sequence[Mapping[int, int]]
) -> Shares | None:
    """The shares if what is not kept fits into the room there is; None if it does not.

    For levels in which racks do not count.
    """
    loads = dict.fromkeys((m for cohort in level.cohorts for m in classes.cohorts[cohort]), 0)
    for counts in kept:
        for m, count in counts.items():
            loads[m] += count
    lacking = {
        cohort: [(m, load - loads[m]) for m in classes.cohorts[cohort] if loads[m] <= load]
        for cohort, load in level.loads.items()
    }
    room = {cohort: sum(missing for _, missing in wishes) for cohort, wishes in lacking.items()}
    takers = {
        index: [c for c in classes.topic_classes[part.topic_class].cohorts if lacking.get(c)]
        for index, part in enumerate(parts)
        if part.partitions > sum(kept[index].values())
    }
    left = {index: parts[index].partitions - sum(kept[index].values()) for index in takers}
    if not all(takers.values()):
        return None
    sizes = [max(1, len(lacking.get(cohort, ()))) for cohort in range(len(classes.cohorts))]
    # What the members have of other classes stays where it is, so cohorts stand the lower the more they lack.
    distribution = Distribution(sizes, [-room.get(cohort, 0) for cohort in range(len(sizes))], takers)
    distribution.pour(left)
    at_least = dict.fromkeys(level.cohorts, 0)
    at_most = {cohort: len(wishes) * (cohort in level.optional) for cohort, wishes in lacking.items()}
    if distribution.even_out(level.cohorts, at_least, at_most) is not None:
        return None
    shares = [dict(counts) for counts in kept]
    for cohort, wishes in lacking.items():
        held = distribution.held[cohort]
        first = distribution.loads[cohort]  # so many of the members get one more
        wanted = [(m, missing + (place < first)) for place, (m, missing) in enumerate(wishes)]
        heap = [(index, range(held[index])) for index in sorted(held)]
        deal_counts(heap, [wish for wish in wanted if wish[1]], shares)
    return shares


def deal_counts(heap: Sequence[tuple[int, range]], wishes: Sequence[tuple[int, int]], shares: Shares) -> None:
    """Deal the classes on the heap to members, in rounds, so that each gets of many; adds to `shares`."""
    if len(wishes) == 1:
        ((m, _),) = wishes
        for index, everything in heap:
            shares[index][m] = shares[index].get(m, 0) + len(everything)
        return
    for index, dealt in deal(heap, wishes):
        share_of = shares[index]
        for m, things in dealt:
            share_of[m] = share_of.get(m, 0) + len(things)


def even_wishes(members: Sequence[int], total: int) -> list[tuple[int, int]]:
    """The total divided evenly, the first members getting one more."""
    if not members:
        return []
    load, extra = divmod(total, len(members))
    return [(m, load + (position < extra)) for position, m in enumerate(members)]
