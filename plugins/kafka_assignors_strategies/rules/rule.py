"""`Rule`, the base class of the rules that a strategy is composed of, and `Problem`, which they hand on.

A rule is a value without state. Rules come in three places, and an earlier one outweighs all later ones:

1. a **restriction** says who may have which partitions: standby members, shares of releases, topics that stay
   together. Every assignment keeps it, at any cost in balance;
2. one **balance** says which quantity is level: partitions, or partitions in proportion to capacities;
3. a **tie-breaker** decides between the balanced assignments: the fewest moves, the fewest rack misses, in
   the order in which they are written, or a trade between the two.

A **problem** is the undecided part of a group. A rule that restricts who may have what does not solve
anything. It turns the group into another group in which the exact solver, or any other way of balancing, can
only find assignments that keep the rule:

- members lose topics from their subscriptions (`without`);
- topics become other topics, whose partitions stand for partitions of the group: a few of a topic, or one of
  each of several topics that must stay together (`replace_topics`);
- partitions are fixed at a member, and count as its load (`fix`).

`in_original_group` translates an assignment of the reduced group back into one of the original group.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar

from kafka_assignors.announcements import AnnouncedFacts
from kafka_assignors.claims import Claims
from kafka_assignors.criteria import Criteria
from kafka_assignors.group import MOST_WEIGHT, Assignment, Group, Member, Topic, TopicPartitions


class Place(enum.IntEnum):
    """The place of a rule in the order: it overrides `restrict`, is a `Balance`, or overrides `criteria`."""

    RESTRICTION = 1
    BALANCE = 2
    TIE_BREAKER = 3


class Rule:
    """One rule. `kind` is its name in messages. Every method is a hook whose default changes nothing."""

    __slots__ = ()

    kind: ClassVar[str]
    place: ClassVar[Place]

    def restrict(self, problem: Problem) -> Problem:
        """The problem whose assignments are those of `problem` that keep the rule."""
        return problem

    def criteria(self) -> Criteria:
        """The criteria, after balance, that decide between balanced assignments."""
        return ()

    def remarks(self, group: Group) -> Sequence[str]:
        """Sentences for the leader's log about names in the rule that do not fit the group."""
        return ()


def about_missing(names: Sequence[str], has: str, what: str) -> list[str]:
    """One sentence about the names in a rule that a group does not have; none if `names` is empty.

    It says the first name, its role in the rule (`has`), and the number of such names.
    """
    if not names:
        return []
    more = f" ({len(names)} such {what})" if len(names) > 1 else ""
    return [f"{names[0]} {has}, and the group does not read it or it does not exist{more}: mind the spelling"]


Unit = tuple[tuple[str, int], ...]
"""Partitions, as (topic, partition), that go to one member together."""


def piece_name(topic: str, purpose: str) -> str:
    """The name of a topic that a rule makes of `topic`. No topic of a cluster can have it."""
    return f"{topic}/{purpose}"


@dataclass(frozen=True, slots=True)
class Piece:
    """A topic that a rule makes: its partitions are `units` of partitions of the problem, in this order.

    `readers` are the ids of the members that may have it; they subscribe to every topic in the units.
    """

    name: str
    units: Sequence[Unit]
    readers: Set[str]


@dataclass(frozen=True, slots=True)
class Problem:
    """A group as the rules applied so far have left it, and their findings about it.

    `stands_for` gives, for every topic that a rule made, the partitions of the original group that each of
    its partitions stands for. `fixed` are partitions of the original group whose member is decided, and
    `fixed_loads` counts them by member, where several that stay together count as one. `favoured` are the ids
    of members that win where balance leaves a choice. `findings` are for the leader's log.
    """

    group: Group
    facts: AnnouncedFacts
    stands_for: Mapping[str, Sequence[Unit]] = field(default_factory=dict)
    fixed: Mapping[str, TopicPartitions] = field(default_factory=dict)
    fixed_loads: Mapping[str, int] = field(default_factory=dict)
    favoured: Set[str] = frozenset()
    findings: tuple[str, ...] = ()

    @property
    def claims(self) -> Claims:
        """The judged claims of the members."""
        return self.group.claims

    def readers(self, topic: str) -> frozenset[str]:
        """The ids of the members that may have partitions of the topic."""
        return frozenset(member.id for member in self.group.members.values() if topic in member.topics)

    def owned(self, topic: str) -> list[tuple[str, Sequence[int]]]:
        """The partitions of the topic that each member owned, by the judged claims."""
        return [(id, owned[topic]) for id, owned in self.claims.owners.items() if topic in owned]

    def with_findings(self, *findings: str) -> Problem:
        return replace(self, findings=(*self.findings, *findings))

    def without(self, barred: Mapping[str, Set[str]]) -> Problem:
        """The problem with some topics barred to members, by member id; barred partitions become free."""
        if not any(barred.values()):
            return self
        members = {
            member_id: self._with_claims(member, member.topics - barred.get(member_id, frozenset()), {})
            for member_id, member in self.group.members.items()
        }
        return replace(self, group=Group(self.group.topics, members, self.group.generation))

    def replace_topics(self, topics: Collection[str], pieces: Iterable[Piece]) -> Problem:
        """The problem with these topics replaced by pieces, which hold each of their partitions once.

        Of the members that may have a unit, the one that owned most of its partitions counts as its owner.
        """
        gone = frozenset(topics)
        owner_of = {
            name: {number: member_id for member_id, owned in self.owned(name) for number in owned}
            for name in gone
        }
        made: dict[str, Topic] = {}
        stands_for = {name: units for name, units in self.stands_for.items() if name not in gone}
        added: dict[str, set[str]] = {member_id: set() for member_id in self.group.members}
        owned: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in self.group.members}
        for piece in pieces:
            made[piece.name] = self._topic_of(piece)
            stands_for[piece.name] = [self.unit_of_group(unit) for unit in piece.units]
            for member_id in piece.readers:
                added[member_id].add(piece.name)
            for number, unit in enumerate(piece.units):
                owner = _owner(unit, owner_of, piece.readers)
                if owner is not None:
                    owned[owner].setdefault(piece.name, []).append(number)
        members = {
            # A member may have subscribed to the name of a piece by itself; only readers get it.
            member_id: self._with_claims(
                member, (member.topics - gone.union(made)) | added[member_id], owned[member_id]
            )
            for member_id, member in self.group.members.items()
        }
        untouched = {name: topic for name, topic in self.group.topics.items() if name not in gone}
        group = Group({**untouched, **made}, members, self.group.generation)
        return replace(self, group=group, stands_for=stands_for)

    def fix(self, kept: Mapping[str, TopicPartitions]) -> Problem:
        """The problem without some of its partitions, which are fixed at members, by member id."""
        taken: dict[str, set[int]] = {}
        loads = Counter(self.fixed_loads)
        for member_id, by_topic in kept.items():
            loads[member_id] += sum(map(len, by_topic.values()))
            for name, partitions in by_topic.items():
                taken.setdefault(name, set()).update(partitions)
        fixed = {
            member_id: self._of_group(self.fixed.get(member_id, {}), kept.get(member_id, {}))
            for member_id in self.fixed.keys() | kept.keys()
        }
        pieces = []
        for name in sorted(taken):
            left = [p for p in range(self.group.topics[name].partitions) if p not in taken[name]]
            units: list[Unit] = [((name, partition),) for partition in left]
            if units:
                pieces.append(Piece(piece_name(name, "left"), units, self.readers(name)))
        return replace(self.replace_topics(taken.keys(), pieces), fixed=fixed, fixed_loads=loads)

    def unit_of_group(self, unit: Unit) -> Unit:
        """The partitions of the original group that a unit of this problem stands for."""
        of_each = [
            self.stands_for[name][number] if name in self.stands_for else ((name, number),)
            for name, number in unit
        ]
        return tuple(chain.from_iterable(of_each))

    def in_original_group(self, assignment: Assignment) -> Assignment:
        """The assignment of the original group that this assignment of the reduced group stands for."""
        if not self.stands_for and not self.fixed:
            return assignment
        return Assignment(
            {
                member_id: self._of_group(self.fixed.get(member_id, {}), held)
                for member_id, held in assignment.members.items()
            }
        )

    def _with_claims(self, member: Member, topics: frozenset[str], owned: TopicPartitions) -> Member:
        """The member with another subscription; it claims `owned`, and what it owned of these topics.

        What it owned is what the judged claims say, so a claim that was dropped does not count later on.
        """
        before = self.claims.owners.get(member.id, {})
        kept = {topic: partitions for topic, partitions in before.items() if topic in topics}
        return replace(member, topics=topics, owned={**kept, **owned})

    def _topic_of(self, piece: Piece) -> Topic:
        racks: list[frozenset[str]] = []
        weights: list[int | None] = []
        for unit in piece.units:
            topics = [(self.group.topics[name], partition) for name, partition in unit]
            racks_of = [topic.replica_racks[p] for topic, p in topics if topic.replica_racks is not None]
            # A unit is near a rack only if all its partitions with known racks are.
            known = [each for each in racks_of if each]
            racks.append(frozenset.intersection(*known) if known else frozenset())
            weights_of = [topic.weights[p] for topic, p in topics if topic.weights is not None]
            known_weights = [weight for weight in weights_of if weight is not None]
            weights.append(min(sum(known_weights), MOST_WEIGHT) if known_weights else None)
        return Topic(
            piece.name,
            len(piece.units),
            tuple(racks) if any(racks) else None,
            weights=tuple(weights) if any(weight is not None for weight in weights) else None,
        )

    def _of_group(self, *parts: TopicPartitions) -> TopicPartitions:
        """By topic of the original group, ascending, the partitions that these parts stand for together."""
        found: dict[str, list[int]] = {}
        for name, numbers in chain.from_iterable(part.items() for part in parts):
            if name not in self.stands_for:
                found.setdefault(name, []).extend(numbers)
                continue
            for number in numbers:
                for topic, partition in self.stands_for[name][number]:
                    found.setdefault(topic, []).append(partition)
        return {topic: sorted(partitions) for topic, partitions in found.items()}


def _owner(unit: Unit, owner_of: Mapping[str, Mapping[int, str]], readers: Set[str]) -> str | None:
    owners = [owner for name, number in unit if (owner := owner_of[name].get(number)) in readers]
    return min(owners, key=lambda owner: (-owners.count(owner), owner or ""), default=None)
