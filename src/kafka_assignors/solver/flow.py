"""Step 3: how many partitions of each class every member gets, so that as few as possible move.

Within a level the loads are settled but for who gets one more, and levels do not touch: each is a
minimum-cost flow of its own. Partitions flow from their class to members. A member can *keep* as many of a
class as it owned there, at no cost; whatever else it gets of the class goes through a hub, at the cost of a
move, no matter who owned it: that partitions without an owner pay it too adds the same to every solution.
Members that owned nothing are not told apart and share the hub of their cohort and rack. From every member
`load` partitions flow to the sink, and one more through a pool that holds as many as the level has extra.
Where racks count, an edge to members that would consume across racks costs a miss more.

                    keeps: up to what it owned
       class  ---------------------------------->  member  -- load -->  sink
          \\                                       ^    \\               ^
           `-- moves -->  hub of cohort and rack -´      `-- 1 --> pool -´  extra

Two commonest cases need no network. If nobody owned anything and racks do not count, the shares that the
levels were found with are as good as any. If all partitions are of one class, everybody keeps what the load
allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka_assignors.solver.classes import Classes, PartitionClass
from kafka_assignors.solver.costs import Costs, RackPreference
from kafka_assignors.solver.levels import Level
from kafka_assignors.solver.network import UNLIMITED, Network
from kafka_assignors.solver.rounds import deal

__all__ = ["Shares", "share_out"]

Shares = list[dict[int, int]]
"""By partition class: how many of its partitions each member gets, by member number."""


def share_out(classes: Classes, levels: Sequence[Level], racks: RackPreference) -> Shares:
    """The number of partitions of each class for every member, exactly optimal in movement and racks."""
    shares: Shares = [{} for _ in classes.partition_classes]
    by_topic_class: dict[int, list[int]] = {}
    for number, partition_class in enumerate(classes.partition_classes):
        by_topic_class.setdefault(partition_class.topic_class, []).append(number)
    costs = Costs.of(racks, sum(topic_class.partitions for topic_class in classes.topic_classes))
    for level in levels:
        numbers = [number for t in level.topic_classes for number in by_topic_class[t]]
        here = [classes.partition_classes[number] for number in numbers]
        members = {m: cohort for cohort in level.cohorts for m in classes.cohorts[cohort]}
        owned = [_owned_counts(partition_class, members) for partition_class in here]
        racks_count = any(partition_class.racks is not None for partition_class in here)
        if racks_count or (len(here) > 1 and any(owned)):
            counts = _LevelNetwork(classes, level, members, here, owned, costs).solve()
        elif len(here) == 1:
            counts = [_keep_and_fill(level, sorted(members), owned[0])]
        else:
            counts = _deal_shares(classes, level)
        for number, count in zip(numbers, counts, strict=True):
            shares[number] = count
    return shares


def _owned_counts(partition_class: PartitionClass, members: dict[int, int]) -> dict[int, int]:
    """How many partitions of the class each of these members owned."""
    return {m: count for m, count in partition_class.owned_counts.items() if m in members}


def _keep_and_fill(level: Level, members: Sequence[int], owned: dict[int, int]) -> dict[int, int]:
    """The shares of a single class: those who own the most get one more, and everybody is filled up."""
    most_first = sorted(members, key=lambda m: -owned.get(m, 0))
    richest = set(most_first[: level.extra])
    return {m: level.load + (m in richest) for m in members}


def _deal_shares(classes: Classes, level: Level) -> Shares:
    """The shares of members who owned nothing: those of their cohorts, dealt in rounds."""
    counts: Shares = [{} for _ in level.topic_classes]
    heaps: dict[int, list[tuple[int, range]]] = {cohort: [] for cohort in level.cohorts}
    for index, number in enumerate(level.topic_classes):
        for cohort, share in level.shares[number].items():
            if share:
                heaps[cohort].append((index, range(share)))
    for cohort, heap in heaps.items():
        members = classes.cohorts[cohort]
        _deal_counts(heap, _even_wishes(members, sum(len(things) for _, things in heap)), counts)
    return counts


def _deal_counts(
    heap: Sequence[tuple[int, range]], wishes: Sequence[tuple[int, int]], counts: Shares
) -> None:
    if len(wishes) == 1:
        ((m, _),) = wishes
        for index, everything in heap:
            counts[index][m] = counts[index].get(m, 0) + len(everything)
        return
    for index, dealt in deal(heap, wishes):
        count_of = counts[index]
        for m, things in dealt:
            count_of[m] = count_of.get(m, 0) + len(things)


@dataclass(slots=True)
class _Hub:
    """Members of one cohort in one rack: what flows in, by class, and out to whom."""

    cohort: int
    rack: str | None
    node: int
    from_classes: list[tuple[int, int]] = field(default_factory=list)  # (index of the class, edge)
    to_owners: list[tuple[int, int]] = field(default_factory=list)  # (member, edge)
    newcomers: list[int] = field(default_factory=list)


class _LevelNetwork:
    """The network of one level. Classes are indexes into `parts`."""

    def __init__(
        self,
        classes: Classes,
        level: Level,
        members: dict[int, int],
        parts: Sequence[PartitionClass],
        owned: Sequence[dict[int, int]],
        costs: Costs,
    ) -> None:
        self.parts = parts
        self.network = network = Network()
        self.source = network.node()
        self.sink = network.node()
        self.hubs: dict[tuple[int, str | None], _Hub] = {}
        self.keeps: list[tuple[int, int, int]] = []  # (index of the class, member, edge)

        kept = _keep_greedily(classes, level, parts, owned)
        loads = dict.fromkeys(sorted({m for counts in owned for m in counts}), 0)
        for counts in kept:
            for m, count in counts.items():
                loads[m] += count
        pool = network.node()
        taken = sum(load > level.load for load in loads.values())
        network.edge(pool, self.sink, level.extra, carries=taken)
        owner_nodes: dict[int, int] = {}
        for m, cohort in members.items():
            hub = self._hub(cohort, classes.racks[m])
            if m not in loads:
                hub.newcomers.append(m)
                continue
            node = owner_nodes[m] = network.node()
            network.edge(node, self.sink, level.load, carries=min(loads[m], level.load))
            network.edge(node, pool, 1, carries=int(loads[m] > level.load))
            hub.to_owners.append((m, network.edge(hub.node, node, UNLIMITED)))
        for hub in self.hubs.values():
            if hub.newcomers:
                network.edge(hub.node, self.sink, level.load * len(hub.newcomers))
                network.edge(hub.node, pool, len(hub.newcomers))

        for index, part in enumerate(parts):
            node = network.node()
            network.edge(self.source, node, part.partitions, carries=sum(kept[index].values()))
            for m, count in owned[index].items():
                cost = costs.miss * part.misses(classes.racks[m])
                edge = network.edge(node, owner_nodes[m], count, cost, carries=kept[index].get(m, 0))
                self.keeps.append((index, m, edge))
            subscribers = set(classes.topic_classes[part.topic_class].cohorts)
            for hub in self.hubs.values():
                if hub.cohort in subscribers:
                    cost = costs.move + costs.miss * part.misses(hub.rack)
                    hub.from_classes.append((index, network.edge(node, hub.node, UNLIMITED, cost)))

    def _hub(self, cohort: int, rack: str | None) -> _Hub:
        key = (cohort, rack)
        if key not in self.hubs:
            self.hubs[key] = _Hub(cohort, rack, self.network.node())
        return self.hubs[key]

    def solve(self) -> Shares:
        """The shares of the least cost, in the order of `parts`."""
        self.network.send(self.source, self.sink)
        counts: Shares = [{} for _ in self.parts]
        for index, m, edge in self.keeps:
            if flow := self.network.flow(edge):
                counts[index][m] = flow
        for hub in self.hubs.values():
            heap = [(index, range(self.network.flow(edge))) for index, edge in hub.from_classes]
            wishes = [(m, self.network.flow(edge)) for m, edge in hub.to_owners]
            left = sum(map(len, (things for _, things in heap))) - sum(wanted for _, wanted in wishes)
            wishes += _even_wishes(hub.newcomers, left)
            wishes.sort()
            _deal_counts(heap, wishes, counts)
        return counts


def _keep_greedily(
    classes: Classes, level: Level, parts: Sequence[PartitionClass], owned: Sequence[dict[int, int]]
) -> Shares:
    """What members can keep for nothing: up to `load` each, then one more while the level has extra.

    No assignment keeps more without a rack miss. Classes with few subscribers are kept first: the others are
    easier to give away.
    """
    kept: Shares = [{} for _ in parts]
    loads: dict[int, int] = {}
    by_choice = sorted(
        range(len(parts)), key=lambda index: len(classes.topic_classes[parts[index].topic_class].cohorts)
    )
    left_over: dict[int, int] = {}  # member: a class of which it could keep one more
    for index in by_choice:
        for m, count in owned[index].items():
            if parts[index].misses(classes.racks[m]):
                continue
            load = loads.get(m, 0)
            keeps = min(count, level.load - load)
            if keeps < count:
                left_over.setdefault(m, index)
            if keeps:
                loads[m] = load + keeps
                kept[index][m] = keeps
    for m in sorted(left_over)[: level.extra]:
        index = left_over[m]
        kept[index][m] = kept[index].get(m, 0) + 1
    return kept


def _even_wishes(members: Sequence[int], total: int) -> list[tuple[int, int]]:
    """The total divided evenly, the first members getting one more."""
    if not members:
        return []
    load, extra = divmod(total, len(members))
    return [(m, load + (position < extra)) for position, m in enumerate(members)]
