"""How many members a group needs, how to get there from here, and what one member less would cost.

The members that are sized subscribe to the same topics. Members with another subscription are another kind
and are left out. If they read some of the same topics, the size holds for the case that they take none of
these partitions.

A partition with an unknown cost counts as the median of its topic, or else of all (`makespan.jobs`). If no
cost is known there is no size. A partition that costs more than a member can carry is alone on its member,
and more members do not help: it is named in `Size.too_heavy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heapreplace
from itertools import islice

from kafka_assignors.certificate.size import SizeCertificate
from kafka_assignors.group import Assignment, Group, Member, Topic, quoted, some_of
from kafka_assignors.makespan import Terms, balance_loads, measure_loads
from kafka_assignors.makespan.jobs import NO_OWNER, Weights, weights_of
from kafka_assignors.makespan.loads import member_loads
from kafka_assignors.sizing.moves import Present, fewest_moves
from kafka_assignors.sizing.packing import NODES, pack

_GENERATION = 1


class SizeError(ValueError):
    """There is no size; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class PartitionCost:
    """The cost of a partition, in the unit of the limit."""

    topic: str
    partition: int
    cost: int


@dataclass(frozen=True, slots=True)
class Change:
    """The change from the present members to the size.

    Attributes:
        assignment: the assignment afterwards; new members are called `new-1` and so on.
        added, removed: the ids of members that come and go.
        moved: partitions that change their member; at least `least` must.
        greatest: the greatest load afterwards.
    """

    assignment: Assignment
    added: tuple[str, ...]
    removed: tuple[str, ...]
    moved: int
    least: int
    greatest: int


@dataclass(frozen=True, slots=True)
class StepDown:
    """One member less than the size.

    Attributes:
        members: how many members there are then.
        greatest: the greatest load of a member in the assignment that was found; `least_greatest` is a lower
            bound for any assignment.
        could_stay: partitions whose member stays.
        moved: those of them that change their member.
        vacated: partitions of the member that leaves.
    """

    members: int
    greatest: int
    least_greatest: int
    could_stay: int
    moved: int
    vacated: int


@dataclass(frozen=True, slots=True)
class Size:
    """The fewest members that keep every load within the limit.

    Attributes:
        limit: the most that a member may carry.
        members: how many suffice; `least` are needed at least. They are equal if the size is exact.
        certificate: the assignment and the proof of `least`, without the partitions in `too_heavy`.
        costs: the cost of each partition by topic; a median stands in for an unknown one.
        partitions, unknown: how many partitions there are, and how many have no known cost.
        total: the cost of all partitions.
        heaviest: the partition that costs most; None if there is no partition.
        too_heavy: partitions above the limit, the costliest first.
        greatest_now: the greatest load of a present member; None without members.
        change: None if a partition is too heavy.
        step_down: None if there is one member or none, or a partition is too heavy.
        steps: the steps of the search for the size.
    """

    limit: int
    members: int
    least: int
    certificate: SizeCertificate
    costs: Mapping[str, Sequence[int]]
    partitions: int
    unknown: int
    total: int
    heaviest: PartitionCost | None
    too_heavy: tuple[PartitionCost, ...]
    greatest_now: int | None
    change: Change | None
    step_down: StepDown | None
    steps: int


def kinds_of(group: Group) -> list[frozenset[str]]:
    """The different subscriptions of the members, as far as their topics have partitions."""
    found = {_reads(group, member) for member in group.members.values()}
    return sorted(found - {frozenset()}, key=sorted)


def of_kind(group: Group, topics: frozenset[str] | None = None) -> Group:
    """The group of the members that subscribe to exactly these topics; None if all members are of one kind.

    Without members it is a group of `topics`, or of all topics. `SizeError` if no member subscribes to
    `topics`, or if there are several kinds and none is named.
    """
    kinds = kinds_of(group)
    if topics is None:
        if len(kinds) > 1:
            shown = some_of([",".join(sorted(kind)) for kind in kinds], 3)
            raise SizeError(
                f"the members have {len(kinds)} different subscriptions, and each is sized on its own: name "
                f"the topics of one, of {shown}"
            )
        topics = kinds[0] if kinds else frozenset(group.topics)
    if unknown := sorted(topics - group.topics.keys()):
        raise SizeError(f"there is no topic {some_of([*map(quoted, unknown)], 3)} in the group")
    if kinds and topics not in kinds:
        shown = some_of([",".join(sorted(kind)) for kind in kinds], 3)
        raise SizeError(f"no member subscribes to exactly these topics; the subscriptions are {shown}")
    members = {
        name: replace(member, topics=topics)
        for name, member in group.members.items()
        if _reads(group, member) == topics
    }
    return Group({name: group.topics[name] for name in topics}, members, group.generation)


def size_group(group: Group, limit: int, *, nodes: int = NODES) -> Size:
    """The size of a group whose members all have the same subscription (`of_kind`).

    Args:
        group: `Topic.weights` are the costs; what the members own counts as present.
        limit: the most that a member may carry, in the unit of the costs; at least 1.
        nodes: the steps of each search.

    Raises `SizeError` if no cost is known. Time: seconds for 10,000 partitions and 1,000 members.
    """
    if limit < 1:
        raise SizeError(f"a member has to carry at least 1, not {limit}")
    weights = _costs(group)
    costs = weights.by_topic
    ordered = sorted(
        (
            PartitionCost(name, partition, cost)
            for name in sorted(costs)
            for partition, cost in enumerate(costs[name])
        ),
        key=lambda one: -one.cost,
    )
    too_heavy = tuple(one for one in ordered if one.cost > limit)
    fitting = ordered[len(too_heavy) :]
    with_cost = [one.cost for one in fitting if one.cost]
    packing = pack(with_cost, limit, nodes)
    bins = [list(each) for each in packing.bins] or ([[]] if fitting else [])
    by_count = sorted((len(each), number) for number, each in enumerate(bins))
    for place in range(len(with_cost), len(fitting)):  # Partitions without cost fit anywhere.
        count, number = by_count[0]
        bins[number].append(place)
        heapreplace(by_count, (count + 1, number))
    least = max(packing.least, int(bool(fitting)))
    loads_now = member_loads(Assignment(group.claims.prior), weights)
    size = Size(
        limit=limit,
        members=len(bins) + len(too_heavy),
        least=least + len(too_heavy),
        certificate=SizeCertificate(limit, [_by_topic(fitting, each) for each in bins], least, packing.bound),
        costs=costs,
        partitions=len(ordered),
        unknown=weights.unknown,
        total=sum(one.cost for one in ordered),
        heaviest=ordered[0] if ordered else None,
        too_heavy=too_heavy,
        greatest_now=max(loads_now.values(), default=0) if group.members else None,
        change=None,
        step_down=None,
        steps=packing.steps,
    )
    if too_heavy or not bins:
        return size
    change = _change(group, fitting, bins, limit, nodes)
    return replace(size, change=change, step_down=_step_down(group, costs, change))


def _reads(group: Group, member: Member) -> frozenset[str]:
    return frozenset(name for name in member.topics if name in group.topics and group.topics[name].partitions)


def _costs(group: Group) -> Weights:
    """The cost of every partition, those without a reader included."""
    everything = Group(group.topics, {"": Member("", [*group.topics])})
    weights = weights_of(everything)
    partitions = sum(map(len, weights.by_topic.values()))
    if partitions and weights.unknown == partitions:
        raise SizeError(f"no cost of the {partitions} partitions is known, so there is no size")
    return weights


def _by_topic(partitions: Sequence[PartitionCost], places: Sequence[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in sorted((partitions[place] for place in places), key=lambda one: (one.topic, one.partition)):
        found.setdefault(one.topic, []).append(one.partition)
    return found


def _change(
    group: Group, partitions: Sequence[PartitionCost], bins: list[list[int]], limit: int, nodes: int
) -> Change:
    ids = sorted(group.members)
    number_of = {
        (topic, partition): number
        for number, member in enumerate(ids)
        for topic, owned in group.claims.prior.get(member, {}).items()
        for partition in owned
    }
    owners = [number_of.get((one.topic, one.partition), NO_OWNER) for one in partitions]
    moves = fewest_moves(Present([one.cost for one in partitions], owners, len(ids)), bins, limit, nodes)
    staying = len(ids) - len(moves.leaving)
    added = _first_names("new-", len(bins) - staying, set(ids))
    places: dict[str, list[int]] = {
        name: [] for number, name in enumerate([*ids, *added]) if number not in moves.leaving
    }
    names = [*ids, *added]
    loads = dict.fromkeys(places, 0)
    for place, holder in enumerate(moves.holders):
        places[names[holder]].append(place)
        loads[names[holder]] += partitions[place].cost
    return Change(
        Assignment({name: _by_topic(partitions, each) for name, each in places.items()}),
        tuple(added),
        tuple(ids[number] for number in moves.leaving),
        moves.moved,
        moves.least,
        max(loads.values()),
    )


def _first_names(prefix: str, count: int, taken: set[str]) -> list[str]:
    """The first `count` names of the prefix and a number that are not taken."""
    numbers = range(1, count + len(taken) + 1)
    return list(islice((name for number in numbers if (name := f"{prefix}{number}") not in taken), count))


def _step_down(group: Group, costs: Mapping[str, Sequence[int]], change: Change) -> StepDown | None:
    after = change.assignment
    if len(after.members) < 2:
        return None
    leaves = min(after.members, key=lambda name: (after.load(name), name not in change.added, name))
    topics = [Topic(name, len(of_topic), weights=tuple(of_topic)) for name, of_topic in sorted(costs.items())]
    names = frozenset(costs)
    fewer = Group.of(
        topics,
        [
            Member(name, names, owned=owned, generation=_GENERATION)
            for name, owned in sorted(after.members.items())
            if name != leaves
        ],
        _GENERATION + 1,
    )
    report = measure_loads(fewer, balance_loads(fewer, fewer.claims, Terms(Fraction(0), None)))
    could_stay = sum(after.load(name) for name in fewer.members)
    return StepDown(
        members=len(fewer.members),
        greatest=report.makespan,
        least_greatest=report.lower_bound,
        could_stay=could_stay,
        moved=report.moved,
        vacated=after.load(leaves),
    )
