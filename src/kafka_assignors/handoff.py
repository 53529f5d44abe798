"""Warm handoff: a partition changes its owner when the next owner is ready.

A member with a warm-up callback announces a `Warmth`. Around a strategy, which knows nothing of it, a leader

1. asks for the target of a *virtual group* (`Handoff.of`): a partition that a member warms, or has ready,
   counts as that member's, so that a sticky strategy continues a move that has begun; a member that drains
   subscribes to nothing that another member can take;
2. does not ask, and keeps the target of an earlier generation, while that is being carried out
   (`Handoff.kept`), so that a strategy whose weights change all the time comes to rest;
3. *holds* (`Handoff.hold`): a unit whose next owner is not ready stays with its present owner, if that is
   alive and owns all of it, and the next owner's list names it. A unit without such an owner is never held.

Withholding follows, on the held assignment, so the safety of a group does not depend on this module. A held
assignment may exceed what a strategy promises until the moves end: balance, shares of a rollout, capacities.

A group in which no member warms or drains is assigned as without this module. The idea of warm-up
replicas before a move is that of Kafka Streams (KIP-441).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_assignors.group import Assignment, Group, Member, TopicPartitions, by_topic, pairs
from kafka_assignors.strategy import Strategy
from kafka_assignors.wire.warm_sections import Unit, WarmList, warm_list_bytes

Partition = tuple[str, int]

LISTED_BYTES = 128 * 1024
"""The most bytes of all lists of a group together, about: a broker stores all assignments in one record."""

_PARTITION_BYTES = 4


@dataclass(frozen=True, slots=True)
class Handoff:
    """The warm facts of a group, judged.

    `group` is the virtual group. `ready` and `warming` are the facts by member id, `heirs` has the ready
    member of each partition that counts as that member's, and `plans` are those that members echo.
    """

    group: Group
    ready: Mapping[str, frozenset[Partition]]
    warming: Mapping[str, frozenset[Partition]]
    heirs: Mapping[Partition, str]
    plans: frozenset[int]
    _strategy: Strategy
    _real: Group

    @classmethod
    def of(cls, strategy: Strategy, group: Group) -> Handoff | None:
        """None if no member of the group warms or drains.

        Of two members that warm a partition, the one with the later list counts, then the ready one, then the
        one with the lower id. A list of a generation that the group has not reached is false.
        """
        announced = {id: one.warmth for id, one in group.members.items() if one.warmth is not None}
        if not any(warmth.max_warming or warmth.draining for warmth in announced.values()):
            return None
        topics = _topics(group)
        ready: dict[str, frozenset[Partition]] = {}
        warming: dict[str, frozenset[Partition]] = {}
        ranks: dict[Partition, tuple[int, bool]] = {}
        next_owner: dict[Partition, str] = {}
        for member_id, warmth in sorted(announced.items()):
            if group.generation is not None and warmth.generation >= group.generation:
                continue
            ready[member_id] = _existing(group, topics[member_id], warmth.ready)
            warming[member_id] = _existing(group, topics[member_id], warmth.warming) - ready[member_id]
            for facts in (ready, warming):
                rank = (warmth.generation, facts is ready)
                for partition in facts[member_id]:
                    if partition not in ranks or rank > ranks[partition]:
                        ranks[partition], next_owner[partition] = rank, member_id
        heirs = {each: id for each, id in next_owner.items() if each in ready[id]}
        plans = frozenset(warmth.plan for warmth in announced.values())
        virtual = _virtual_group(group, topics, next_owner)
        return cls(virtual, ready, warming, heirs, plans, strategy, group)

    def kept(self) -> Assignment | None:
        """The target that is being carried out, if all that it depends on is unchanged.

        It is what the virtual group owns now, if the digest of that is a plan that a member echoes.
        """
        claims = self.group.claims
        if claims.unowned or claims.dropped or not (any(self.ready.values()) or any(self.warming.values())):
            return None
        target = Assignment({member_id: claims.owners.get(member_id, {}) for member_id in self.group.members})
        return target if self._plan_of(target) in self.plans else None

    def _plan_of(self, target: Assignment) -> int:
        """A digest of a target and of what it depends on, but for claims, progress and weights; never 0."""
        parts: list[object] = [self._strategy.name]
        for member_id, member in sorted(self._real.members.items()):
            warmth = None if member.warmth is None else (member.warmth.max_warming, member.warmth.draining)
            assigned = sorted((topic, sorted(some)) for topic, some in target.members[member_id].items())
            parts.append((member_id, sorted(member.topics), member.rack, member.data, warmth, assigned))
        parts += sorted((topic.name, topic.partitions) for topic in self._real.topics.values())
        digest = hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") or 1

    def hold(
        self, target: Assignment, units: Iterable[Sequence[Partition]]
    ) -> tuple[Assignment, Mapping[str, tuple[Unit, ...]], int]:
        """The target with each unit that must wait left to its owner, the moves of each member, and how many
        partitions wait.

        `units` are the partitions that move together. The moves of a member are the units that it does not
        own yet, the begun ones first.
        """
        group = self._real
        owner_of = {
            partition: owner
            for owner, owned in group.claims.owners.items()
            if not group.members[owner].revoked
            for partition in pairs(owned)
        }
        for partition, heir in self.heirs.items():
            # Its owner has revoked it for this member, which gets it even if the target has changed: no
            # member takes a partition cold that is warm elsewhere.
            owner_of.setdefault(partition, heir)
        unit_of = {partition: tuple(sorted({*unit})) for unit in units for partition in unit}
        given: dict[str, list[Partition]] = {member_id: [] for member_id in target.members}
        moves: dict[str, tuple[Unit, ...]] = {}
        waiting = 0
        for member_id, assigned in target.members.items():
            own = {*pairs(assigned)}
            holds = {*pairs(group.claims.owners.get(member_id, {}))}
            begun = self.ready.get(member_id, frozenset()) | self.warming.get(member_id, frozenset())
            moving: dict[Unit, bool] = {}
            for partition in sorted(own):
                # What waits is in `own` no more, so units that overlap give no partition twice.
                unit = tuple(each for each in unit_of.get(partition, (partition,)) if each in own)
                if partition not in own or unit in moving:
                    continue
                owners = {owner_of.get(each) for each in unit}
                if owners != {member_id}:
                    # A restore must not replace the state of a part that it owns, and consumes, already.
                    coming = tuple(each for each in unit if each not in holds)
                    moving[coming] = not begun.isdisjoint(coming)
                if self._waits(member_id, unit, owners):
                    (owner,) = owners
                    given[owner or member_id] += unit
                    own.difference_update(unit)
                    waiting += len(unit)
            given[member_id] += own
            if moving:
                moves[member_id] = tuple(sorted(moving, key=lambda unit: not moving[unit]))
        return Assignment({member_id: by_topic(some) for member_id, some in given.items()}), moves, waiting

    def _waits(self, member_id: str, unit: Unit, owners: set[str | None]) -> bool:
        warmth = self._real.members[member_id].warmth
        if warmth is None or not warmth.max_warming or len(owners) != 1 or owners <= {None, member_id}:
            return False
        return not self.ready.get(member_id, frozenset()).issuperset(unit)

    def lists(
        self, target: Assignment, moves: Mapping[str, tuple[Unit, ...]], assignment: Assignment
    ) -> Mapping[str, WarmList]:
        """The list of each member: its moves without what `assignment` gives it now, bounded in bytes."""
        left: dict[str, tuple[Unit, ...]] = {}
        for member_id, units in moves.items():
            now = {*pairs(assignment.members[member_id])}
            rests = (tuple(each for each in unit if each not in now) for unit in units)
            left[member_id] = tuple(rest for rest in rests if rest)
        each = LISTED_BYTES // max(1, sum(map(bool, left.values())))
        plan = self._plan_of(target)
        return {
            member_id: WarmList(plan, _bounded(left.get(member_id, ()), each))
            for member_id in assignment.members
        }


def _topics(group: Group) -> dict[str, frozenset[str]]:
    """The topics of each member; of one that drains, those that no other member can take.

    Of those that drain, the ones that still own partitions come before the ones that are done.
    """
    draining = {m.id for m in group.members.values() if m.warmth is not None and m.warmth.draining}
    staying = (member.topics for member in group.members.values() if member.id not in draining)
    taken_over: frozenset[str] = frozenset().union(*staying)
    owning = (group.members[id].topics for id in draining if group.members[id].owned)
    left_to_others = taken_over.union(*owning)
    topics = {member.id: member.topics for member in group.members.values()}
    for id in draining:
        topics[id] -= taken_over if group.members[id].owned else left_to_others
    return topics


def _virtual_group(
    group: Group, topics: Mapping[str, frozenset[str]], next_owner: Mapping[Partition, str]
) -> Group:
    owned: dict[str, list[Partition]] = {member_id: [] for member_id in group.members}
    for member_id, claimed in group.claims.owners.items():
        owned[member_id] += (
            each for each in pairs(claimed) if each[0] in topics[member_id] and each not in next_owner
        )
    for partition, member_id in next_owner.items():
        owned[member_id].append(partition)
    members = {
        member.id: Member(
            member.id,
            topics[member.id],
            member.instance_id,
            member.rack,
            by_topic(owned[member.id]),
            member.generation,
            member.revoked,
            member.data,
        )
        for member in group.members.values()
    }
    return Group(group.topics, members, group.generation)


def _existing(group: Group, topics: frozenset[str], claimed: TopicPartitions) -> frozenset[Partition]:
    return frozenset(
        (topic, number)
        for topic, number in pairs(claimed)
        if topic in topics and topic in group.topics and 0 <= number < group.topics[topic].partitions
    )


def _bounded(units: tuple[Unit, ...], most_bytes: int) -> tuple[Unit, ...]:
    """The first units whose bytes fit, but at least one: a member must be able to go on."""
    size, named = len(warm_list_bytes(WarmList())), set[str]()
    for place, unit in enumerate(units):
        names = {topic for topic, _ in unit}.difference(named if len(unit) == 1 else ())
        named |= names
        size += _PARTITION_BYTES * len(unit) + sum(len(name.encode()) + 6 for name in names)
        if size > most_bytes and place:
            return units[:place]
    return units
