"""The least that an assignment with the best balance moves, or consumes across racks.

Both follow from the number of partitions of each class that each member gets (steps 1 to 3 of the solver): no
partition is placed for them.
"""

from __future__ import annotations

from kafka_assignors.claims import Claims
from kafka_assignors.criteria import FEWEST_MOVES, RACKS_THEN_MOVES
from kafka_assignors.group import Group
from kafka_assignors.scale import PLAIN, Scale
from kafka_assignors.solver.classes import classify
from kafka_assignors.solver.flow import share_out
from kafka_assignors.solver.levels import find_levels

__all__ = ["least_moved", "least_rack_misses", "racks_matter"]

_NO_CLAIMS = Claims({}, (), {})


def least_moved(group: Group, *, scale: Scale = PLAIN) -> int:
    """The fewest moves that any assignment with the best balance needs (racks not considered)."""
    claims = group.claims
    if not claims.prior:
        return 0
    classes = classify(group, claims, scale)
    shares = share_out(classes, find_levels(classes), FEWEST_MOVES)
    return sum(
        max(0, owned - share.get(member, 0))
        for part, share in zip(classes.partition_classes, shares, strict=True)
        for member, owned in part.owned_counts.items()
    )


def least_rack_misses(group: Group, *, scale: Scale = PLAIN) -> int | None:
    """The fewest rack misses of any assignment with the best balance, at any number of moves.

    None where no member names a rack or no topic's racks are known. It is what `rack-aware-sticky` reaches,
    and depends on nothing that members own.
    """
    if not racks_matter(group):
        return None
    classes = classify(group, _NO_CLAIMS, scale, by_racks=True)
    shares = share_out(classes, find_levels(classes), RACKS_THEN_MOVES)
    return sum(
        count
        for part, share in zip(classes.partition_classes, shares, strict=True)
        if part.racks is not None
        for member, count in share.items()
        if part.misses(classes.racks[member])
    )


def racks_matter(group: Group) -> bool:
    """Whether a member names its rack, and the racks of a partition are known."""
    racks_known = any(any(topic.replica_racks or ()) for topic in group.topics.values())
    return racks_known and any(member.rack for member in group.members.values())
