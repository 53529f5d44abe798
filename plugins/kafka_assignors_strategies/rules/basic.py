"""The rules that need no search of their own: they restrict or order what the solvers do.

**`standby`** (`StandbyLast`): a member that announces `standby` subscribes like any other, and gets nothing
of a topic that has enough active subscribers. `docs/rules.md` says which standby members take over. No
partition moves only because other members count as active: the members with partitions of a topic are among
those that may have it, as many as are needed, so the best assignment can stay. A member that replaces a
standby member without partitions has at least as many as that one, so balance gives it none either.

**`together`** (`KeepTogether`): same-numbered partitions of some topics stay on one member, as a join by key
needs it (in Kafka Streams, co-partitioning). Each set of topics becomes one topic, whose partition n stands
for partition n of all of them; it counts as one in the balance. A member that subscribes to only some topics
of a set gets nothing of it as long as another member subscribes to all. If no member does, the topics are
divided like any other. If they have different numbers of partitions, a high number stands for fewer of them.
The log says so in both cases.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kafka_assignors.criteria import Criteria, Criterion, Scale, exact, traded
from kafka_assignors.group import Assignment, Group, Member, quoted
from kafka_assignors.solver import solve
from kafka_assignors_strategies.rules.rule import Piece, Place, Problem, Rule, Unit, about_missing, piece_name
from kafka_assignors_strategies.weighted import THRESHOLD, Weighted

_UNIT = 1 << 80
"""The unit of capacity if members are favoured: more than the square of any load times any other capacity."""


class Balance(Rule):
    """A rule about balance; by default the exact solver levels the loads on `scale`."""

    __slots__ = ()

    place = Place.BALANCE

    def capacities(self, problem: Problem) -> Mapping[str, int]:
        """The capacities of members by id; by default they are all alike."""
        return {}

    def scale(self, problem: Problem) -> Scale:
        """The scale on which the loads of members are compared; fixed partitions count.

        The capacity of favoured members is raised by less than any load can show.
        """
        capacities = self.capacities(problem)
        if problem.favoured:
            capacities = {
                member_id: capacities.get(member_id, 1) * _UNIT + (member_id in problem.favoured)
                for member_id in problem.group.members
            }
        return Scale(capacities, problem.fixed_loads)

    def balance(self, problem: Problem, criteria: Criteria) -> Assignment:
        return solve(problem.group, problem.claims, criteria=criteria, scale=self.scale(problem))


@dataclass(frozen=True, slots=True)
class LevelPartitions(Balance):
    """Every member has as many partitions as any other, as far as subscriptions and restrictions allow.

    The sum of the squared loads is the least; fixed partitions count.
    """

    kind = "balance"


@dataclass(frozen=True, slots=True)
class LevelByCapacity(Balance):
    """Every member has partitions in proportion to the capacity that it announces.

    The sum of the squared loads, each divided by the capacity, is the least; fixed partitions count, and a
    member that announces no capacity has a capacity of 1.
    """

    kind = "capacity"

    def capacities(self, problem: Problem) -> Mapping[str, int]:
        return problem.facts.capacities


@dataclass(frozen=True, slots=True)
class LevelByWeight(Balance):
    """The greatest load of any member by weight is within a proved factor of the least, as in `weighted`.

    Partitions that stay together weigh the sum of their weights. The `threshold` of `Weighted` alone decides
    about moves; racks play no part. Raises TypeError or ValueError as `Weighted` does.
    """

    threshold: float = THRESHOLD

    kind = "weights"

    def __post_init__(self) -> None:
        Weighted(self.threshold)

    def balance(self, problem: Problem, criteria: Criteria) -> Assignment:
        # The group of such a problem has no fixed partitions.
        return Weighted(self.threshold).assign(problem.group)


@dataclass(frozen=True, slots=True)
class FewestMoves(Rule):
    """As few partitions as possible change hands between live members."""

    kind, place = "movement", Place.TIE_BREAKER

    def criteria(self) -> Criteria:
        return (Criterion.MOVEMENT,)


@dataclass(frozen=True, slots=True)
class FewestRackMisses(Rule):
    """As few partitions as possible are consumed from another rack (KIP-881)."""

    kind, place = "racks", Place.TIE_BREAKER

    def criteria(self) -> Criteria:
        return (Criterion.RACKS,)


@dataclass(frozen=True, slots=True)
class RackTrade(Rule):
    """A partition consumed from another rack costs as much as `moves_per_miss` moves; the sum is the least.

    `moves_per_miss` is a number of at least 0 that is a ratio of numbers up to 10,000 (`InvalidTradeError`, a
    ValueError), or infinity. At 0 racks decide only between assignments with equally few moves, and at
    infinity movement only between those with equally few misses. The rule replaces both `movement` and
    `racks`.
    """

    moves_per_miss: Fraction | float

    kind, place = "trade", Place.TIE_BREAKER

    def __post_init__(self) -> None:
        number = exact(self.moves_per_miss)  # equal trades are equal values, and have equal digests
        object.__setattr__(self, "moves_per_miss", math.inf if number is None else number)

    def criteria(self) -> Criteria:
        return traded(self.moves_per_miss)[1:]


@dataclass(frozen=True, slots=True)
class StandbyLast(Rule):
    """Standby members get partitions of a topic only as far as it lacks active subscribers.

    `active_at_least` is how many a topic should have: 1 or more (ValueError).
    """

    active_at_least: int = 1

    kind, place = "standby", Place.RESTRICTION

    def __post_init__(self) -> None:
        if type(self.active_at_least) is not int or self.active_at_least < 1:
            raise ValueError(f"at least 1 member of a topic is active, not {self.active_at_least!r:.100}")

    def restrict(self, problem: Problem) -> Problem:
        """The problem without the standby members that a topic does not need."""
        members, facts = problem.group.members, problem.facts.members
        standing_by = [members[member_id] for member_id in sorted(members) if facts[member_id].standby]
        if not standing_by:
            return problem
        active = _subscribers(member for member in members.values() if not facts[member.id].standby)
        taken_over = self._taken_over(problem, standing_by, active)
        for member in standing_by:
            if topics := taken_over[member.id]:
                problem = problem.with_findings(
                    f"standby member {quoted(member.id)} takes over {_named(problem, topics)}, to which "
                    f"fewer than {self.active_at_least} active members subscribe"
                )
        return problem.without({member.id: member.topics - taken_over[member.id] for member in standing_by})

    def _taken_over(
        self, problem: Problem, standing_by: list[Member], active: Counter[str]
    ) -> dict[str, set[str]]:
        """The topics that each standby member takes part in, by its id."""
        owners, fixed = problem.claims.owners, problem.fixed_loads
        rank: dict[str, tuple[int, str, str]] = {}
        for member in standing_by:
            load = fixed.get(member.id, 0) + sum(map(len, owners.get(member.id, {}).values()))
            rank[member.id] = -load, member.instance_id or member.id, member.id
        taken_over: dict[str, set[str]] = {member.id: set() for member in standing_by}
        for name, topic in problem.group.topics.items():
            missing = self.active_at_least - active[name]
            if missing > 0 and topic.partitions:
                candidates = [member.id for member in standing_by if name in member.topics]
                candidates.sort(key=lambda id: (-len(owners.get(id, {}).get(name, ())), rank[id]))
                for member_id in candidates[:missing]:
                    taken_over[member_id].add(name)
        return taken_over


def _subscribers(members: Iterable[Member]) -> Counter[str]:
    subscribers: Counter[str] = Counter()
    for topics, count in Counter(member.topics for member in members).items():
        for topic in topics:
            subscribers[topic] += count
    return subscribers


def _named(problem: Problem, topics: Iterable[str]) -> str:
    """The first of the topics as they are called in the group, and how many there are."""
    names = {
        name
        for topic in topics
        for unit in problem.stands_for.get(topic, [((topic, 0),)])
        for name, _ in unit
    }
    return repr(min(names)) if len(names) == 1 else f"{quoted(min(names))} and {len(names) - 1} more topics"


@dataclass(frozen=True, slots=True)
class KeepTogether(Rule):
    """Same-numbered partitions of the topics of each set go to one member.

    `topics` are the sets; no topic is in two of them, and each has two at least (ValueError).
    """

    topics: tuple[tuple[str, ...], ...]

    kind, place = "together", Place.RESTRICTION

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
    readers = {name: problem.readers(name) for name in together if name in problem.group.topics}
    names = sorted(name for name, who in readers.items() if who)
    if len(names) < 2:
        return problem
    listed = ", ".join(map(repr, names))
    of_all = frozenset[str].intersection(*(readers[name] for name in names))
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
