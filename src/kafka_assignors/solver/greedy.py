"""The start of step 3: what a simple rule finds, and when that is enough.

**Keep.** Every member keeps what it owned, up to its load; and as many as the level has extra keep one more.
Without rack misses no assignment keeps more partitions than this, whichever classes they are of.

**Fill.** What is left of each class is poured over the subscribers that still have room. If it all goes in,
as it mostly does when somebody joins or leaves, then every partition that was not kept had to move, nothing
can be better, and no network is needed. If something stays over, the network goes on from what is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_assignors.solver.classes import Classes, PartitionClass
from kafka_assignors.solver.levels import Level
from kafka_assignors.solver.rounds import deal

__all__ = ["Shares", "deal_counts", "even_wishes", "fill", "keep"]

Shares = list[dict[int, int]]
"""By partition class: how many of its partitions each member gets, by member number."""


def keep(
    classes: Classes, level: Level, parts: Sequence[PartitionClass], owned: Sequence[Mapping[int, int]]
) -> Shares:
    """What the members of a level can keep without a rack miss, in the order of `parts`.

    `owned` says what they owned of each class. Where members have to choose, they give up partitions of the
    classes that members with room subscribe to.
    """
    room = dict.fromkeys((m for cohort in level.cohorts for m in classes.cohorts[cohort]), level.load)
    for counts in owned:
        for m, count in counts.items():
            room[m] -= count
    demand = {cohort: sum(max(0, room[m]) for m in classes.cohorts[cohort]) for cohort in level.cohorts}
    subscribers = [classes.topic_classes[part.topic_class].cohorts for part in parts]
    least_wanted_first = sorted(
        range(len(parts)),
        key=lambda index: (sum(demand.get(c, 0) for c in subscribers[index]), len(subscribers[index])),
    )
    kept: Shares = [{} for _ in parts]
    loads = dict.fromkeys(room, 0)
    one_more: dict[int, int] = {}  # member: a class of which it could keep one more
    for index in least_wanted_first:
        part = parts[index]
        for m, count in owned[index].items():
            if part.misses(classes.racks[m]):
                continue
            keeps = min(count, level.load - loads[m])
            if keeps:
                loads[m] += keeps
                kept[index][m] = keeps
            if keeps < count:
                one_more.setdefault(m, index)
    for m in sorted(one_more)[: level.extra]:
        counts = kept[one_more[m]]
        counts[m] = counts.get(m, 0) + 1
    return kept


def fill(
    classes: Classes, level: Level, parts: Sequence[PartitionClass], kept: Sequence[Mapping[int, int]]
) -> Shares | None:
    """The shares if what is not kept fits into the room there is, class by class; None if it does not.

    For levels in which racks do not count.
    """
    loads = dict.fromkeys((m for cohort in level.cohorts for m in classes.cohorts[cohort]), 0)
    for counts in kept:
        for m, count in counts.items():
            loads[m] += count
    extra = level.extra - sum(load > level.load for load in loads.values())
    wishes = {
        cohort: {m: level.load - loads[m] for m in classes.cohorts[cohort] if loads[m] <= level.load}
        for cohort in level.cohorts
    }
    room = {cohort: sum(wanted.values()) for cohort, wanted in wishes.items()}
    extras = dict.fromkeys(level.cohorts, 0)  # how many of the cohort's members get one more
    heaps: dict[int, list[tuple[int, range]]] = {cohort: [] for cohort in level.cohorts}
    least_choice_first = sorted(
        range(len(parts)), key=lambda index: len(classes.topic_classes[parts[index].topic_class].cohorts)
    )
    for index in least_choice_first:
        left = parts[index].partitions - sum(kept[index].values())
        takers = [c for c in classes.topic_classes[parts[index].topic_class].cohorts if c in room]
        for cohort in takers if left else ():
            taken = min(left, room[cohort])
            if taken:
                heaps[cohort].append((index, range(taken)))
                room[cohort] -= taken
                left -= taken
        for cohort in takers if left else ():
            taken = min(left, extra, len(wishes[cohort]) - extras[cohort])
            if taken:
                heaps[cohort].append((index, range(taken)))
                extras[cohort] += taken
                extra -= taken
                left -= taken
        if left:
            return None
    shares = [dict(counts) for counts in kept]
    for cohort, heap in heaps.items():
        first = extras[cohort]
        wanted = [(m, count + (place < first)) for place, (m, count) in enumerate(wishes[cohort].items())]
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
