"""Measures of an assignment: balance, movement and racks in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from operator import truediv

from kafka_assignors.claims import movement
from kafka_assignors.criteria import PLAIN, Scale
from kafka_assignors.group import Assignment, Group
from kafka_assignors.solver import racks_matter


@dataclass(frozen=True, slots=True)
class Quality:
    """Measures of an assignment; loads are partitions of a member, over all members of the group.

    Every assigned partition is one of three: `kept` by the member that owned it, `moved` from it to another
    one although the owner is in the group and could have kept it, or `forced`: no valid claim owned it.

    `max_over_mean` is 1.0 if nothing is assigned. `max_over_share` is the greatest ratio of a member's load
    to its share of all partitions by capacity; None if all capacities are equal, where it is `max_over_mean`.
    `rack_misses` counts partitions that have no replica in their member's rack; it is None if no member names
    a rack or no topic's racks are known.
    """

    members: int
    partitions: int
    min_load: int
    max_load: int
    mean_load: float
    max_over_mean: float
    load_stddev: float
    moved: int
    forced: int
    kept: int
    rack_misses: int | None
    max_over_share: float | None = None


def measure(group: Group, assignment: Assignment, *, scale: Scale = PLAIN) -> Quality:
    """Measure an assignment of the group, valid or not; movement is counted from the judged claims.

    `scale` is the strategy's measure of balance.
    """
    assigned = assignment.members
    loads = [sum(map(len, held.values())) if (held := assigned.get(id)) else 0 for id in group.members]
    total = sum(loads)
    mean = total / len(loads) if loads else 0.0
    most = max(loads, default=0)
    moved, kept = movement(group.claims, assignment)
    return Quality(
        members=len(loads),
        partitions=total,
        min_load=min(loads, default=0),
        max_load=most,
        mean_load=mean,
        max_over_mean=most / mean if total else 1.0,
        load_stddev=sqrt(sum([(load - mean) ** 2 for load in loads]) / len(loads)) if loads else 0.0,
        moved=moved,
        forced=total - moved - kept,
        kept=kept,
        rack_misses=_rack_misses(group, assignment) if racks_matter(group) else None,
        max_over_share=_max_over_share(group, loads, scale) if scale.capacities else None,
    )


def _max_over_share(group: Group, loads: Sequence[int], scale: Scale) -> float | None:
    capacities = [*map(scale.capacity, group.members)]
    if len(set(capacities)) < 2:
        return None
    shares = [sum(loads) * capacity / sum(capacities) for capacity in capacities]
    return max(map(truediv, loads, shares)) if any(loads) else 1.0


def _rack_misses(group: Group, assignment: Assignment) -> int:
    """How many partitions have no replica in the rack of the member that has them."""
    return sum(
        len(topic.rack_misses(group.members[member_id].rack, partitions))
        for member_id, by_topic in assignment.members.items()
        if member_id in group.members
        for name, partitions in by_topic.items()
        if (topic := group.topics.get(name)) is not None
    )
