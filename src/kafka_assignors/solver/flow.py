r"""Step 3: how many partitions of each class every member gets, so that as few as possible move.

Within a level the loads are known except for who gets one more; each level is a minimum-cost flow of its own.
A member *keeps* what it owned of a class at no cost. All others reach it through a hub, at the cost of a
move. Members that owned nothing share the hub of their cohort and rack. From a member its load flows to the
sink, and one more through a pool of as many as the level has extra. A rack miss costs more on its edge.

                  keeps: what it owned
    class  ------------------------------>  member  -- load -->  sink
       \                                     ^    \               ^
        `-- moves -->  cohort and rack  ----´      `- 1 -> pool --´ extra

**The start.** *Keep*: every member keeps what it owned, up to its load, and as many as the level has extra
keep one more. Without rack misses no assignment keeps more. *Fill*: the rest of each class is poured over the
subscribers with room, and passed on among them (see `distribution`). If all of it fits, the result is
optimal, and no network is needed. Otherwise the network goes on from the partitions that are kept.

In every assignment with the fewest moves a member that owned no more than its load keeps all of it, if
members can keep as much as their loads allow. So if moves come before misses, the first flow tells only those
members apart that owned more; the others count as newcomers that lack less. If some partition then finds no
member, a second flow tells all members apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_assignors.criteria import AnyCriterion, Criterion
from kafka_assignors.solver.classes import Classes, PartitionClass
from kafka_assignors.solver.distribution import Distribution, deal
from kafka_assignors.solver.levels import Level
from kafka_assignors.solver.network import UNLIMITED, Network


@dataclass(frozen=True, slots=True)
class Costs:
    """The price of one partition that moves, and of one that is consumed across racks."""

    move: int
    miss: int

    @classmethod
    def of(cls, criteria: Iterable[AnyCriterion], partitions: int) -> Costs:
        """Weights for a group with this many partitions.

        Movement is the last criterion if it is not among them, so that two leaders do not undo each other's
        moves.
        """
        move = miss = 0
        weight = 1
        for criterion in reversed(dict.fromkeys((*criteria, Criterion.MOVEMENT))):
            move += weight * criterion.count(1, 0)
            miss += weight * criterion.count(0, 1)
            weight *= partitions * criterion.count(1, 1) + 1
        return cls(move, miss)


def share_out(classes: Classes, levels: Sequence[Level], criteria: Sequence[AnyCriterion]) -> Shares:
    """The number of partitions of each class for every member, exactly optimal in movement and racks."""
    shares: Shares = [{} for _ in classes.partition_classes]
    by_topic_class: dict[int, list[int]] = {}
    for number, partition_class in enumerate(classes.partition_classes):
        by_topic_class.setdefault(partition_class.topic_class, []).append(number)
    for level in levels:
        numbers = [number for t in level.topic_classes for number in by_topic_class[t]]
        here = [classes.partition_classes[number] for number in numbers]
        members = {m: cohort for cohort in level.cohorts for m in classes.cohorts[cohort]}
        owned = [part.owned_counts for part in here]
        if len(levels) > 1:
            owned = [{m: count for m, count in counts.items() if m in members} for counts in owned]
        racks_count = any(partition_class.racks is not None for partition_class in here)
        if not racks_count and len(here) == 1:
            counts = [_share_one(level, members, owned[0])]
        elif not racks_count and not any(owned):
            counts = _deal_shares(classes, level)
        else:
            costs = Costs.of(criteria, sum(topic_class.partitions for topic_class in classes.topic_classes))
            at = _LevelParts(classes, level, members, here, owned, costs)
            counts = _share_many(at, racks_count=racks_count)
        for number, count in zip(numbers, counts, strict=True):
            shares[number] = count
    return shares


def _share_one(level: Level, members: Mapping[int, int], owned: dict[int, int]) -> dict[int, int]:
    """The shares of a single class: those who own the most beyond their load get one more, and every member
    is filled up.
    """
    all_members = sorted(members)
    if len(level.cohorts) == 1:
        loads = dict.fromkeys(all_members, level.loads[level.cohorts[0]])
    else:
        loads = {m: level.loads[members[m]] for m in all_members}
    optional = all_members
    if len(level.optional) < len(level.cohorts):
        optional = [m for m in all_members if members[m] in level.optional]
    most_first = sorted(optional, key=lambda m: loads[m] - owned.get(m, 0))
    for m in most_first[: level.extra]:
        loads[m] += 1
    return loads


def _deal_shares(classes: Classes, level: Level) -> Shares:
    """The shares of members who owned nothing: those of their cohorts, dealt in rounds."""
    index_of = {number: index for index, number in enumerate(level.topic_classes)}
    counts: Shares = [{} for _ in level.topic_classes]
    for cohort in level.cohorts:
        shares = level.shares[cohort]
        heap = [(index_of[number], range(shares[number])) for number in sorted(shares)]
        members = classes.cohorts[cohort]
        load, extra = divmod(sum(shares.values()), len(members))
        _deal_counts(heap, [(m, load + (place < extra)) for place, m in enumerate(members)], counts)
    return counts


@dataclass(frozen=True, slots=True)
class _LevelParts:
    """A level with its members and their cohorts, and its partition classes with what each member owned."""

    classes: Classes
    level: Level
    members: Mapping[int, int]
    parts: Sequence[PartitionClass]
    owned: Sequence[dict[int, int]]
    costs: Costs


def _share_many(at: _LevelParts, *, racks_count: bool) -> Shares:
    """The shares of several classes, found in the cheapest way that is enough."""
    if racks_count and at.costs.move > at.costs.miss * sum(part.partitions for part in at.parts):
        shares = _share_released(at)
        if shares is not None:
            return shares
    kept = _keep(at, at.owned)
    filled = None if racks_count else _fill(at, kept)
    if filled is not None:
        return filled
    owners = set().union(*at.owned)
    loads = at.level.loads
    lacking = {m: loads[cohort] for m, cohort in at.members.items() if m not in owners}
    return _LevelNetwork(at, at.owned, kept, lacking, receive=True).solve()


def _share_released(at: _LevelParts) -> Shares | None:
    """The shares with which members keep as much as their loads allow; None if there are none.

    Moves must come before misses. Every other assignment moves more.
    """
    loads, members = at.level.loads, at.members
    totals = dict.fromkeys(members, 0)
    for counts in at.owned:
        for m, count in counts.items():
            totals[m] += count
    lacking = {m: lacks for m, cohort in members.items() if (lacks := loads[cohort] - totals[m]) >= 0}
    owned = [{m: count for m, count in counts.items() if m not in lacking} for counts in at.owned]
    kept = _keep(at, owned)
    try:
        shares = _LevelNetwork(at, owned, kept, lacking, receive=False).solve()
    except ValueError:  # Some partition that is released finds no taker among those with room.
        return None
    over = members.keys() - lacking.keys()
    has = dict.fromkeys(over, 0)
    for share in shares:
        for m in over & share.keys():
            has[m] += share[m]
    one_more = sum(has[m] > loads[members[m]] for m in over)
    if one_more < min(at.level.extra, sum(members[m] in at.level.optional for m in over)):
        return None
    for share, counts in zip(shares, at.owned, strict=True):
        for m, count in counts.items():
            if m in lacking:
                share[m] = share.get(m, 0) + count
    return shares


@dataclass(slots=True)
class _Hub:
    """Members of one cohort in one rack, with the edges from classes and to members."""

    cohort: int
    rack: str | None
    node: int
    from_classes: list[tuple[int, int]] = field(default_factory=list)  # (index of the class, edge)
    to_owners: list[tuple[int, int]] = field(default_factory=list)  # (member, edge)
    newcomers: list[int] = field(default_factory=list)


class _LevelNetwork:
    """The network of one level. Classes are indexes into the parts of the level.

    `owned` has what the members owned that are told apart, `kept` what they keep at the start, and `lacking`
    how much each other member gets besides what it surely keeps. With `receive` hubs give to the former too.
    """

    def __init__(
        self,
        at: _LevelParts,
        owned: Sequence[dict[int, int]],
        kept: Shares,
        lacking: Mapping[int, int],
        *,
        receive: bool,
    ) -> None:
        self.network = Network()
        self.lacking = lacking
        self.hubs: list[_Hub] = []
        self.keeps: list[list[tuple[int, int]]] = []  # by class: (member, edge)
        hubs_of, owner_nodes = self._add_members(at, owned, kept, receive=receive)
        self._add_classes(at, owned, kept, hubs_of, owner_nodes)

    def _add_members(
        self, at: _LevelParts, owned: Sequence[dict[int, int]], kept: Shares, *, receive: bool
    ) -> tuple[dict[int, dict[str | None, _Hub]], dict[int, int]]:
        """Add the members and their hubs: the hubs by cohort and rack, and the nodes of the members that are
        told apart.
        """
        classes, level, network, lacking = at.classes, at.level, self.network, self.lacking
        loads = dict.fromkeys(sorted({m for counts in owned for m in counts}), 0)
        for counts in kept:
            for m, count in counts.items():
                loads[m] += count
        pool = network.node(-level.extra)
        hubs_of: dict[int, dict[str | None, _Hub]] = {cohort: {} for cohort in level.cohorts}
        owner_nodes: dict[int, int] = {}
        for m, cohort in at.members.items():
            hubs, rack = hubs_of[cohort], classes.racks[m]
            if rack not in hubs:
                hubs[rack] = _Hub(cohort, rack, network.node())
                self.hubs.append(hubs[rack])
            hub = hubs[rack]
            if m in lacking:
                hub.newcomers.append(m)
                continue
            load = level.loads[cohort]
            node = owner_nodes[m] = network.node(-load)
            if cohort in level.optional:
                network.edge(node, pool, 1, carries=int(loads[m] > load))
            if receive:
                hub.to_owners.append((m, network.edge(hub.node, node, UNLIMITED)))
        for hub in self.hubs:
            if hub.newcomers:
                network.lack(hub.node, sum(map(lacking.__getitem__, hub.newcomers)))
                if hub.cohort in level.optional:
                    network.edge(hub.node, pool, len(hub.newcomers))
        return hubs_of, owner_nodes

    def _add_classes(
        self,
        at: _LevelParts,
        owned: Sequence[dict[int, int]],
        kept: Shares,
        hubs_of: Mapping[int, Mapping[str | None, _Hub]],
        owner_nodes: Mapping[int, int],
    ) -> None:
        """Add the classes, with edges to their owners and to the hubs of their subscribers."""
        classes, network = at.classes, self.network
        for index, part in enumerate(at.parts):
            for_certain = sum(at.owned[index].values()) - sum(owned[index].values())
            node = network.node(part.partitions - for_certain)
            keeps: list[tuple[int, int]] = []
            for m, count in owned[index].items():
                cost = at.costs.miss * part.misses(classes.racks[m])
                carries = kept[index].get(m, 0)
                keeps.append((m, network.edge(node, owner_nodes[m], count, cost, carries=carries)))
            self.keeps.append(keeps)
            takers = [
                hub
                for cohort in classes.topic_classes[part.topic_class].cohorts
                if cohort in hubs_of
                for hub in hubs_of[cohort].values()
            ]
            for misses in (False, True):
                here = [hub for hub in takers if part.misses(hub.rack) is misses]
                cost = at.costs.move + at.costs.miss * misses
                for hub, edge in zip(here, network.fan(node, [hub.node for hub in here], cost), strict=True):
                    hub.from_classes.append((index, edge))

    def solve(self) -> Shares:
        """The shares of the least cost by class, without what members keep for certain.

        ValueError if there are none.
        """
        self.network.settle()
        flow = self.network.flow
        counts: Shares = [{m: kept for m, edge in keeps if (kept := flow(edge))} for keeps in self.keeps]
        for hub in self.hubs:
            heap = [(index, range(flow(edge))) for index, edge in hub.from_classes]
            demands = [(m, flow(edge)) for m, edge in hub.to_owners]
            demands += [(m, self.lacking[m]) for m in hub.newcomers]
            first = len(hub.to_owners)
            left = sum(map(len, (things for _, things in heap))) - sum(wanted for _, wanted in demands)
            for position in range(first, first + left):  # This many of the newcomers get one more.
                m, wanted = demands[position]
                demands[position] = m, wanted + 1
            _deal_counts(heap, sorted(demand for demand in demands if demand[1]), counts)
        return counts


Shares = list[dict[int, int]]
"""By partition class: how many of its partitions each member gets, by member number."""


def _keep(at: _LevelParts, owned: Sequence[Mapping[int, int]]) -> Shares:
    """What members can keep without a rack miss of what they `owned`, in the order of the level's parts.

    Where members have to choose, they give up what is nearest to members with room: partitions of classes
    that these subscribe to, or else of classes through which others can pass something on to them.
    """
    classes, level, members, parts = at.classes, at.level, at.members, at.parts
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
    steps = _steps_to_room(at, owned, wanted)
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


def _steps_to_room(at: _LevelParts, owned: Sequence[Mapping[int, int]], wanted: Sequence[int]) -> list[int]:
    """Through how many owners a partition of each class must be passed on until a member with room wants one.

    It is the number of classes if there is no such way. A few owners are usually enough to find that every
    class is near.
    """
    steps = [0 if want else len(wanted) for want in wanted]
    reached = [index for index, want in enumerate(wanted) if want]
    waiting: dict[int, list[int]] = {}
    for index, want in enumerate(wanted):
        if not want:
            waiting.setdefault(at.parts[index].topic_class, []).append(index)
    asked: set[int] = set()
    for index in reached:  # grows while it is walked through
        for m in owned[index]:
            if not waiting:
                return steps
            cohort = at.members[m]
            if cohort in asked:
                continue
            asked.add(cohort)
            for topic in at.classes.subscriptions[cohort]:
                for other in waiting.pop(at.classes.class_of_topic[topic], ()):
                    steps[other] = steps[index] + 1
                    reached.append(other)
    return steps


def _fill(at: _LevelParts, kept: Shares) -> Shares | None:
    """The shares if all partitions that are not kept fit into the room of the members; else None.

    For levels in which racks do not count.
    """
    classes, level, parts = at.classes, at.level, at.parts
    loads = dict.fromkeys(at.members, 0)
    for counts in kept:
        for m, count in counts.items():
            loads[m] += count
    lacking = {
        cohort: [(m, load - loads[m]) for m in classes.cohorts[cohort] if loads[m] <= load]
        for cohort, load in level.loads.items()
    }
    room = {cohort: sum(missing for _, missing in demands) for cohort, demands in lacking.items()}
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
    at_most = {cohort: len(demands) * (cohort in level.optional) for cohort, demands in lacking.items()}
    if distribution.even_out(level.cohorts, at_least, at_most) is not None:
        return None
    shares = [dict(counts) for counts in kept]
    for cohort, demands in lacking.items():
        held = distribution.held[cohort]
        first = distribution.loads[cohort]  # so many of the members get one more
        wanted = [(m, missing + (place < first)) for place, (m, missing) in enumerate(demands)]
        heap = [(index, range(held[index])) for index in sorted(held)]
        _deal_counts(heap, [demand for demand in wanted if demand[1]], shares)
    return shares


def _deal_counts(
    heap: Sequence[tuple[int, range]], demands: Sequence[tuple[int, int]], shares: Shares
) -> None:
    """Deal the classes on the heap to members in rounds, so that each gets some of many; adds to `shares`."""
    if len(demands) == 1:
        ((m, _),) = demands
        for index, everything in heap:
            shares[index][m] = shares[index].get(m, 0) + len(everything)
        return
    for index, dealt in deal(heap, demands):
        share_of = shares[index]
        for m, things in dealt:
            share_of[m] = share_of.get(m, 0) + len(things)
