"""Balance by priority: the most important class is level by itself, the next on top of it, and so on.

A group that is balanced as a whole may have all partitions of its most important topic on one member: other
members have more of less important topics instead. Here topics, or single partitions, have classes.
Partitions of the first class are assigned as if there were no others. Then those of the second are assigned
on top of these loads, and so on; partitions in no class come last. So each class is as level as possible,
given the classes before it, and the loads in total are as level as the last class can make them.

Each class is solved exactly, given those before it, with movement and racks as tie-breakers within the class.
The classes are not solved jointly: movement, racks and ids decide which members get one more of a class than
others, not the needs of the next class. In any other assignment in which the first class is as level, each
member has the same number of its partitions, to within one (the levels of a group are unique, see
`kafka_assignors.solver.levels`). So with one class and the rest, the fullest member has at most one partition
more than in the best of those assignments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from kafka_assignors.claims import Claims
from kafka_assignors.criteria import Criteria, Scale
from kafka_assignors.group import Assignment, Group, TopicPartitions
from kafka_assignors.solver import solve
from kafka_assignors_strategies.rules.basic import Balance
from kafka_assignors_strategies.rules.rule import Piece, Problem, Unit, about_missing, piece_name

_T = TypeVar("_T")
_Name = str | tuple[str, tuple[int, ...]]
"""A topic, or some partitions of one."""


@dataclass(frozen=True, slots=True)
class LevelByPriority(Balance):
    """Partitions of the first class are level, then those of the second on top of them, the rest last.

    `first` are the classes, the most important first. Each has topics, and partitions as a topic and their
    numbers: `[["alerts", ("orders", [3, 4])], ["orders"]]`. A named partition is in its own class, not in
    that of its topic. Raises ValueError if a name appears twice or a class is empty, TypeError for any other
    form.
    """

    first: tuple[tuple[_Name, ...], ...]

    kind = "balance"

    def __init__(self, first: Iterable[Iterable[str | tuple[str, Iterable[int]]]] = ()) -> None:
        # Each class in one order, so that equal classes have equal digests.
        classes = tuple(tuple(sorted(map(_read, _listed(names)), key=_order)) for names in _listed(first))
        seen: set[str | tuple[str, int]] = set()
        for names in classes:
            if not names:
                raise ValueError('a class of priority has nothing in it: write [["alerts"], ["orders"]]')
            for named in names:
                for one in _each(named):
                    if one in seen:
                        shown = one if isinstance(one, str) else f"{one[0]}-{one[1]}"
                        raise ValueError(f"{shown!r} has two priorities")
                    seen.add(one)
        object.__setattr__(self, "first", classes)

    def balance(self, problem: Problem, criteria: Criteria) -> Assignment:
        """The assignment of the problem's group, class by class."""
        parts, classes = self._by_class(problem)
        shares: dict[str, dict[str, Sequence[int]]] = {member_id: {} for member_id in parts.group.members}
        for solved, _ in one_by_one(parts, classes, problem.fixed_loads, criteria):
            for member_id, share in solved.members.items():
                shares[member_id].update(share)
        return parts.in_original_group(Assignment(shares))

    def remarks(self, group: Group) -> list[str]:
        """A finding if `first` is empty, or names topics or partitions that the group does not have."""
        if not self.first:
            return [
                "no topic comes before others, for `first` has no classes: all partitions are balanced as "
                'one; give the classes, as in Priority([["alerts"], ["orders"]])'
            ]
        missing = [one for names in self.first for named in names for one in _missing(named, group)]
        return about_missing(missing, "has a priority", "topics and partitions")

    def _by_class(self, problem: Problem) -> tuple[Problem, list[list[str]]]:
        """The problem with every topic in one class alone, and the names of the topics in each."""
        classes = enumerate(self.first)
        number_of = {one: number for number, names in classes for named in names for one in _each(named)}
        may_be_split = problem.stands_for.keys() | {one[0] for one in number_of if isinstance(one, tuple)}
        topics: list[list[str]] = [[] for _ in range(len(self.first) + 1)]
        split: list[str] = []
        pieces: list[Piece] = []
        for name, topic in sorted(problem.group.topics.items()):
            by_class: dict[int, list[Unit]] = {}
            for partition in range(topic.partitions if name in may_be_split else min(topic.partitions, 1)):
                unit = ((name, partition),)
                # What stands for several partitions is in the first of their classes.
                number = min(
                    number_of.get(one, number_of.get(one[0], len(self.first)))
                    for one in problem.unit_of_group(unit)
                )
                by_class.setdefault(number, []).append(unit)
            if len(by_class) < 2:
                for number in by_class:
                    topics[number].append(name)
                continue
            split.append(name)
            readers = problem.readers(name)
            for number, units in sorted(by_class.items()):
                piece = Piece(piece_name(name, f"priority {number + 1}"), units, readers)
                pieces.append(piece)
                topics[number].append(piece.name)
        # The topics replaced here are translated back here, to the topics of `problem`.
        parts = Problem(problem.group, problem.facts)
        return (parts.replace_topics(split, pieces) if split else parts), topics


def one_by_one(
    parts: Problem, classes: Sequence[Iterable[str]], settled: Mapping[str, int], criteria: Criteria
) -> Iterator[tuple[Assignment, Scale]]:
    """For each class with partitions its assignment, and the scale with the loads before it."""
    already = dict(settled)
    group, owners, unowned = parts.group, parts.claims.owners, parts.claims.unowned
    for names in map(frozenset, classes):
        if names:
            topics = {name: group.topics[name] for name in names}
            of_class = Group(topics, group.members, group.generation)
            owned = {member_id: _only(names, held) for member_id, held in owners.items()}
            claims = Claims({id: held for id, held in owned.items() if held}, (), _only(names, unowned))
            scale = Scale(already=dict(already))
            solved = solve(of_class, claims, criteria=criteria, scale=scale)
            yield solved, scale
            for member_id in solved.members:
                already[member_id] = already.get(member_id, 0) + solved.load(member_id)


def _only(topics: Set[str], partitions: TopicPartitions) -> TopicPartitions:
    return {topic: numbers for topic, numbers in partitions.items() if topic in topics}


def _each(named: _Name) -> list[str | tuple[str, int]]:
    """The topic, or each of the partitions."""
    return [named] if isinstance(named, str) else [(named[0], partition) for partition in named[1]]


def _missing(named: _Name, group: Group) -> list[str]:
    topic, partitions = (named, ()) if isinstance(named, str) else named
    if topic not in group.topics:
        return [f"topic {topic!r}"]
    known = group.topics[topic].partitions
    return [f"partition {partition} of topic {topic!r}" for partition in partitions if partition >= known]


def _listed(value: Iterable[_T]) -> list[_T]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(
            f'classes of priority are lists of topics: write [["alerts"], ["orders"]], not {value!r}'
        )
    return list(value)


def _read(named: object) -> _Name:
    """A topic, or a topic and the numbers of some of its partitions, ascending."""
    if isinstance(named, str):
        return named
    if isinstance(named, Sequence) and len(named) == 2 and isinstance(named[0], str):
        topic, numbers = named
        if isinstance(numbers, Iterable) and not isinstance(numbers, str):
            partitions = list(numbers)
            if partitions and all(type(number) is int and number >= 0 for number in partitions):
                return topic, tuple(sorted(set(partitions)))
    raise TypeError(
        'what has a priority is a topic, "orders", or partitions of one, ["orders", [3, 4]]; '
        f"not {named!r:.200}"
    )


def _order(named: _Name) -> tuple[str, tuple[int, ...]]:
    return (named, ()) if isinstance(named, str) else named
