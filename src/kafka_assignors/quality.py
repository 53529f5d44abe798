"""Measures of an assignment: balance, movement and racks in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import truediv

from kafka_assignors.claims import movement
from kafka_assignors.criteria import PLAIN, Scale
from kafka_assignors.group import Assignment, Group, TopicPartitions
from kafka_assignors.solver import racks_matter


@dataclass(frozen=True, slots=True)
class RackTraffic:
    """Traffic across racks: the sum of the weights of the partitions that miss, in the unit of
    `Topic.weights`, such as bytes a second.

    `before` is the traffic of the owners, by the judged claims; a partition without an owner has none.
    `after` is the traffic of the assignment. A partition that misses and has no known weight is not in the
    sums: `unknown_before` and `unknown_after` count these partitions.

    It is an estimate: a client or a broker without KIP-392 reads from a leader in another rack although a
    replica is near, and that traffic is not counted.
    """

    before: int
    after: int
    unknown_before: int
    unknown_after: int


@dataclass(frozen=True, slots=True)
class Quality:
    """Measures of an assignment; loads are partitions of a member, over all members of the group.

    Every assigned partition is one of three: `kept` by the member that owned it, `moved` from the member that
    owned it to another one although the owner is in the group and could have kept it, or `forced`: it had no
    owner in the group, because it is new, its owner has left or unsubscribed, or no claim on it counted.

    `max_over_mean` is 1.0 if nothing is assigned. `max_over_share` is the greatest ratio of a member's load
    to its share of all partitions by capacity; None if all capacities are equal, where it is `max_over_mean`.
    `rack_misses` counts partitions that have no replica in their member's rack; it is None if no member names
    a rack or no topic's racks are known. `rack_traffic` is the traffic of these partitions; None if
    `rack_misses` is, or if no partition has a known weight.
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
    rack_traffic: RackTraffic | None = None


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
    racks = racks_matter(group)
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
        rack_misses=sum(1 for _ in _missing(group, assigned)) if racks else None,
        max_over_share=_max_over_share(group, loads, scale) if scale.capacities else None,
        rack_traffic=_rack_traffic(group, assignment) if racks else None,
    )


def _max_over_share(group: Group, loads: Sequence[int], scale: Scale) -> float | None:
    capacities = [*map(scale.capacity, group.members)]
    if len(set(capacities)) < 2:
        return None
    shares = [sum(loads) * capacity / sum(capacities) for capacity in capacities]
    return max(map(truediv, loads, shares)) if any(loads) else 1.0


def _rack_traffic(group: Group, assignment: Assignment) -> RackTraffic | None:
    weights = {name: topic.weights for name, topic in group.topics.items() if topic.weights is not None}
    known = any(weight is not None for of_topic in weights.values() for weight in of_topic)
    if not known:
        return None
    sums, unknown = [], []
    for holders in (group.claims.owners, assignment.members):
        found = [weights[name][p] if name in weights else None for name, p in _missing(group, holders)]
        sums.append(sum(weight for weight in found if weight is not None))
        unknown.append(found.count(None))
    return RackTraffic(*sums, *unknown)


def _missing(group: Group, holders: Mapping[str, TopicPartitions]) -> Iterator[tuple[str, int]]:
    """The partitions with no replica in the rack of the member that has them."""
    for member_id, by_topic in holders.items():
        rack = group.members[member_id].rack if member_id in group.members else None
        for name, partitions in by_topic.items():
            if (topic := group.topics.get(name)) is not None:
                yield from ((name, p) for p in topic.rack_misses(rack, partitions))
