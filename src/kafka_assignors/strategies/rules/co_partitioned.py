"""`together`: same-numbered partitions of some topics stay on one member.

A process that joins two streams by key needs partition 7 of both (Kafka Streams calls that co- partitioning,
and a set of such partitions a task). Each set of topics becomes one topic, whose partition n stands for
partition n of all of them. What is balanced are then tasks: a task counts as one, like a partition of any
other topic.

A member that subscribes to only some topics of a set could not keep them together, and gets nothing of the
set as long as another member subscribes to all of it. If no member does, the topics are divided like any
other, and the log says so. Topics of a set may have different numbers of partitions: then a task of a high
number has fewer of them, and the log says that too, since a join by key needs equal numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_assignors.group import Group, quoted
from kafka_assignors.strategies.rules.rule import Piece, Problem, Restriction, Unit, about_missing, piece_name


@dataclass(frozen=True, slots=True)
class KeepTogether(Restriction):
    """Same-numbered partitions of the topics of each set go to one member.

    `topics` are the sets; no topic is in two of them, and each has two at least (ValueError).
    """

    topics: tuple[tuple[str, ...], ...]

    kind = "together"

    def __init__(self, topics: Iterable[Iterable[str]]) -> None:
        sets: list[tuple[str, ...]] = []
        for names in topics:
            if isinstance(names, str):
                raise TypeError('topics are sets of topic names: write [["orders", "payments"]]')
            sets.append(tuple(sorted(set(names))))
        if not sets:
            raise ValueError("topics that stay together: there is no set of them")
        seen: set[str] = set()
        for names in sets:
            if len(names) < 2:
                raise ValueError(f"topics that stay together: {[*names]} are fewer than two topics")
            if twice := seen.intersection(names):
                raise ValueError(f"topics that stay together: {min(twice)!r} is in two sets")
            seen.update(names)
        object.__setattr__(self, "topics", tuple(sorted(sets)))

    def restrict(self, problem: Problem) -> Problem:
        """The problem with tasks in place of the topics of each set."""
        for together in self.topics:
            problem = _as_tasks(problem, together)
        return problem

    def remarks(self, group: Group) -> list[str]:
        """A finding for topics of a set that the group does not have."""
        missing = [f"topic {name!r}" for names in self.topics for name in names if name not in group.topics]
        return about_missing(missing, "is to stay together with others", "topics")


def _as_tasks(problem: Problem, together: Iterable[str]) -> Problem:
    """One set of topics as tasks; those without metadata or readers are left out of it."""
    readers = {name: set(problem.readers(name)) for name in together if name in problem.group.topics}
    names = sorted(name for name, who in readers.items() if who)
    if len(names) < 2:
        return problem
    listed = ", ".join(map(repr, names))
    of_all = set[str].intersection(*(readers[name] for name in names))
    if not of_all:
        return problem.with_findings(
            f"topics {listed} do not stay together, for no member subscribes to all of them"
        )
    if others := set().union(*(readers[name] for name in names)) - of_all:
        problem = problem.with_findings(
            f"member {quoted(min(others))} subscribes to some of the topics {listed} only, which stay "
            f"together, and gets nothing of them ({len(others)} such members)"
        )
    counts = {name: problem.group.topics[name].partitions for name in names}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name!r} {counts[name]}" for name in names)
        problem = problem.with_findings(f"topics that stay together differ in partitions: {shown}")
    units: list[Unit] = [
        tuple((name, number) for name in names if number < counts[name])
        for number in range(max(counts.values()))
    ]
    return problem.replace_topics(names, [Piece(piece_name(names[0], "together"), units, of_all)])
