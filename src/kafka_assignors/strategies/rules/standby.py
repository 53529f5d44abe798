"""`standby`: members that take over only where others are missing.

A member that announces `standby` subscribes like any other, and gets nothing of a topic that has enough
active subscribers. Topic by topic: where fewer than `active_at_least` active members subscribe, as many of
the standby members that subscribe as are missing count as active, until active ones are back. First come
those that have partitions of the topic already, the most of them first; then those that have any, the most
first; then the one with the lowest instance id (else member id).

So a standby member that took over keeps its partitions while it is needed, even if a member with a lower id
arrives; and it takes over more before another standby member starts. No partition moves only because other
members count as active: the members with partitions of a topic are among those that may have it, as many as
are needed, so the best assignment can stay. A member that replaces a standby member without partitions has at
least as many partitions as that one, so balance gives it none either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kafka_assignors.group import Member, quoted
from kafka_assignors.strategies.rules.rule import Problem, Restriction


@dataclass(frozen=True, slots=True)
class StandbyLast(Restriction):
    """Standby members get partitions of a topic only as far as it lacks active subscribers.

    `active_at_least` is how many a topic should have: 1 or more (ValueError).
    """

    active_at_least: int = 1

    kind = "standby"

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
        loads = dict(problem.fixed_loads)
        owned: dict[str, Counter[str]] = {}
        for member in standing_by:
            prior = problem.claims.prior.get(member.id, {})
            owned[member.id] = Counter({topic: len(partitions) for topic, partitions in prior.items()})
            loads[member.id] = loads.get(member.id, 0) + owned[member.id].total()
        taken_over: dict[str, set[str]] = {member.id: set() for member in standing_by}
        ready: dict[str, list[Member]] = {}
        for member in sorted(
            standing_by, key=lambda one: (-loads[one.id], one.instance_id or one.id, one.id)
        ):
            for topic in member.topics & problem.group.topics.keys():
                if active[topic] < self.active_at_least and problem.group.topics[topic].partitions:
                    ready.setdefault(topic, []).append(member)
        for topic, candidates in ready.items():
            candidates.sort(key=lambda one: -owned[one.id][topic])  # is stable: the rest of the order stays
            for member in candidates[: self.active_at_least - active[topic]]:
                taken_over[member.id].add(topic)
        return taken_over


def _subscribers(members: Iterable[Member]) -> Counter[str]:
    """How many of these members subscribe to each topic."""
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
