"""The exact solver: an assignment such that no better one exists.

It minimises, in this order: the sum of the squared loads, measured on a `Scale` where members differ in
capacity; then, in the order of the caller's `criteria`, the partitions that change hands between live members
and the partitions consumed across racks; then, as well as a heuristic can, the unevenness of each topic over
the members. There are four steps, each in a file that begins with its idea:

1. `classes` finds members and topics that are alike, so that the next steps handle counts instead of
   partitions;
2. `levels` finds how many partitions each member gets in any balanced assignment;
3. `flow` finds how many partitions of each class every member gets, so that as few as possible move (often
   a simple rule is enough);
4. `placement` turns the counts into partitions, and lets members exchange some, so that each topic is spread
   over many.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from kafka_assignors.claims import Claims
from kafka_assignors.criteria import FEWEST_MOVES, PLAIN, AnyCriterion, Scale
from kafka_assignors.group import Assignment, Group
from kafka_assignors.solver.classes import Classes, classify
from kafka_assignors.solver.flow import Shares, share_out
from kafka_assignors.solver.levels import find_levels
from kafka_assignors.solver.placement import place

__all__ = ["count", "least_moved", "racks_matter", "solve"]

_RACK = attrgetter("rack")


def solve(
    group: Group,
    claims: Claims,
    criteria: Sequence[AnyCriterion] = FEWEST_MOVES,
    *,
    scale: Scale = PLAIN,
) -> Assignment:
    """The best assignment of the group's partitions, given the judged claims of its members.

    `criteria` have balance first. `scale` is the measure of balance: by default each partition counts the
    same on every member.

    Every partition of every topic with a subscriber goes to one of its subscribers. The result depends on the
    values in `group` alone, not on the order of its mappings: ties go to the lower instance id (else member
    id), topic and partition. A prior assignment that is already optimal comes back unchanged.
    """
    return place(*count(group, claims, criteria, scale))


def count(
    group: Group, claims: Claims, criteria: Sequence[AnyCriterion], scale: Scale
) -> tuple[Classes, Shares]:
    """Steps 1 to 3 of `solve`: the classes, and how many partitions of each class every member gets."""
    classes = classify(group, claims, scale, by_racks=any(each.count(0, 1) for each in criteria))
    return classes, share_out(classes, find_levels(classes), criteria)


def least_moved(group: Group, *, scale: Scale = PLAIN) -> int:
    """The fewest moves that any assignment with the best balance needs (racks not considered)."""
    claims = group.claims
    if not claims.owners:
        return 0
    classes, shares = count(group, claims, FEWEST_MOVES, scale)
    return sum(
        max(0, owned - share.get(member, 0))
        for part, share in zip(classes.partition_classes, shares, strict=True)
        for member, owned in part.owned_counts.items()
    )


def racks_matter(group: Group) -> bool:
    """Whether a member names its rack, and the racks of a partition are known."""
    # Most groups have members without racks: `map` checks them without a Python frame for each.
    if not any(map(_RACK, group.members.values())):
        return False
    return any(any(topic.replica_racks or ()) for topic in group.topics.values())
