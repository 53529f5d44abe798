"""The moves when only the leader changes, over many random groups.

    python -m compat_tests.interop.alternating --groups 1000

In a group of Java members and members of ours, any member may lead. The lead passes between Java and ours
eight times. In each generation every member sends the bytes that its client would send after its last
assignment, and the leader, Java's released assignor or ours, reads them.

Under the cooperative protocol a leader continues until no partition is withheld. A *round* is the work of one
leader, over all generations that it takes.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compat_tests.java.oracle import JavaOracle
from compat_tests.java.random_groups import features, misread_by_java, random_group, without_racks
from kafka_assignors.group import Assignment, Group
from kafka_assignors.messages import JoinedMember, encode_assignments, read_members
from kafka_assignors.quality import measure
from kafka_assignors.solver import least_moved
from kafka_assignors.strategies import Strategy, load_strategy
from kafka_assignors.strategy import MemberContext
from kafka_assignors.wire import decode_assignment, encode_member

__all__ = [
    "CHANGES",
    "COOPERATIVE",
    "EAGER",
    "SERIES",
    "STICKY",
    "Members",
    "Play",
    "Series",
    "groups",
    "play_all",
]

CHANGES = 8
"""The number of changes of the leader."""

_MOST_GENERATIONS = 5
"""The limit for one round; a cooperative leader needs only two."""


@dataclass(frozen=True, slots=True)
class Members:
    """The configuration of the members of ours.

    `held`: they keep their partitions while they join, as Java's do under `cooperative-sticky`.
    """

    label: str
    strategy: Strategy
    held: bool


STICKY = Members("sticky", load_strategy("sticky"), held=False)
COOPERATIVE = Members("cooperative-sticky", load_strategy("cooperative-sticky"), held=True)
EAGER = Members("cooperative-sticky, ours eager", load_strategy("cooperative-sticky"), held=False)


@dataclass(frozen=True, slots=True)
class Series:
    """The leaders in turn, and whether the group has members of both kinds."""

    label: str
    leaders: tuple[str, ...]
    mixed: bool = True


SERIES = (
    Series("ours first, then Java and ours in turn", ("ours", "java")),
    Series("Java first, then ours and Java in turn", ("java", "ours")),
    Series("Java alone", ("java",), mixed=False),
    Series("ours alone", ("ours",), mixed=False),
)


@dataclass(frozen=True, slots=True)
class Play:
    """The result for one group, in the round after each change of the leader.

    `least` is the number of moves that balance required, where any partition moved. `restless` counts rounds
    that had not ended after `_MOST_GENERATIONS`; their withheld partitions count as moved.
    """

    what: str
    moved: tuple[int, ...]
    least: tuple[int, ...]
    restless: int


class _Running:
    """A group between two generations."""

    def __init__(self, java: JavaOracle, members: Members, group: Group, javas: frozenset[str]) -> None:
        self._java = java
        self._members = members
        self._javas = javas
        self.group = group
        """Every member with its last assignment."""
        self.restless = 0
        """Rounds that did not end."""

    def lead(self, leader: str) -> Assignment:
        """Run one round, and return the assignment after it."""
        for _ in range(_MOST_GENERATIONS):
            joined = self._joined()
            assigned = self._ours(joined) if leader == "ours" else self._javas_answer(joined)
            self._take_over(assigned)
            if sum(map(assigned.load, assigned.members)) == _subscribed_partitions(self.group):
                return assigned
        self.restless += 1
        return assigned

    def _joined(self) -> dict[str, bytes]:
        joined = {}
        if self._javas:
            joined = self._java.subscriptions(self.group)[self._members.strategy.name]
        for member in self.group.members.values():
            if member.id not in self._javas:
                told = MemberContext(
                    member.topics, member.owned, member.generation, member.instance_id, member.rack or None
                )
                joined[member.id] = encode_member(self._members.strategy, told, held=self._members.held)
        return joined

    def _ours(self, joined: Mapping[str, bytes]) -> Assignment:
        members = self.group.members
        read = read_members(
            self._members.strategy,
            [
                JoinedMember(member_id, members[member_id].instance_id, data)
                for member_id, data in joined.items()
            ],
        )
        answer = encode_assignments(
            self._members.strategy, read, self.group.topics.values(), self.group.generation
        )
        return Assignment(
            {member_id: decode_assignment(data).partitions for member_id, data in answer.assignments.items()}
        )

    def _javas_answer(self, joined: Mapping[str, bytes]) -> Assignment:
        answer = self._java.assign(self.group, joined)[self._members.strategy.name]
        if answer.assignment is None:
            raise AssertionError(f"Java threw {answer.error}")
        return Assignment(answer.assignment)

    def _take_over(self, assigned: Assignment) -> None:
        assert self.group.generation is not None
        members = [
            replace(member, owned=assigned.members[member.id], generation=self.group.generation)
            for member in self.group.members.values()
        ]
        self.group = Group.of(self.group.topics.values(), members, self.group.generation + 1)


def play(java: JavaOracle, members: Members, series: Series, seed: int, group: Group) -> Play:
    """Form the group under the first leader, and change the leader `CHANGES` times."""
    rng = random.Random(f"kinds {seed}")
    if series.mixed:
        javas = frozenset(member_id for member_id in group.members if rng.random() < 0.5)
    else:
        javas = frozenset(group.members if series.leaders == ("java",) else ())
    running = _Running(java, members, group, javas)
    running.lead(series.leaders[0])
    moved, least = [], []
    for change in range(1, CHANGES + 1):
        before = running.group
        after = running.lead(series.leaders[change % len(series.leaders)])
        moved.append(measure(before, after).moved)
        least.append(least_moved(before) if moved[-1] else 0)
    return Play(f"random_group({seed})", tuple(moved), tuple(least), running.restless)


def groups(count: int, first_seed: int, *, racks: bool) -> Iterator[tuple[int, Group]]:
    """Random groups with their seeds, without those for which Java's assignments are invalid.

    With `racks`, only those in which racks make a difference.
    """
    for seed in range(first_seed, first_seed + count):
        group = random_group(seed)
        if misread_by_java(group):
            continue
        if not racks:
            yield seed, without_racks(group)
        elif "members in racks, partitions in some of them" in features(group):
            yield seed, group


def play_all(
    java: JavaOracle, members: Members, series: Series, drawn: Iterable[tuple[int, Group]]
) -> list[Play]:
    return [play(java, members, series, seed, group) for seed, group in drawn]


def describe(drawn: Sequence[tuple[int, Group]]) -> Iterator[str]:
    """The sizes and features of these groups."""

    def spread(what: str, size: Callable[[Group], int]) -> str:
        sizes = sorted(size(group) for _, group in drawn)
        tenths = statistics.quantiles(sizes, n=10) if len(sizes) > 1 else [float(sizes[0])] * 9
        middle = ", ".join(f"{tenths[tenth]:.0f}" for tenth in (0, 4, 8))
        return (
            f"{what}: {sizes[0]} to {sizes[-1]}, one in ten below / half below / one in ten above: {middle}"
        )

    yield f"{len(drawn)} groups"
    yield spread("members", lambda group: len(group.members))
    yield spread("topics", lambda group: len(group.topics))
    yield spread("partitions", _subscribed_partitions)
    seen = Counter(feature for _, group in drawn for feature in features(group))
    for feature, count in sorted(seen.items()):
        yield f"{count} with {feature}"


def summary(plays: Sequence[Play]) -> str:
    """The end of a line of the table.

    It has the groups that moved any partition, and those that did in the last two rounds; the rounds that did
    not end; and the moved partitions by round.
    """
    moving = sum(any(one.moved) for one in plays)
    last = sum(any(one.moved[-2:]) for one in plays)
    restless = sum(one.restless for one in plays)
    rounds = " ".join(str(sum(one.moved[number] for one in plays)) for number in range(CHANGES))
    return f"{moving} | {last} | {restless} | {rounds}"


def _subscribed_partitions(group: Group) -> int:
    subscribed = {name for member in group.members.values() for name in member.topics}
    return sum(topic.partitions for topic in group.topics.values() if topic.name in subscribed)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Alternate leaders, ours and Java's, over random groups.")
    parser.add_argument("--groups", type=int, default=1500, help="how many random groups (1500)")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first (0)")
    chosen = parser.parse_args(arguments)
    for racks in (False, True):
        drawn = list(groups(chosen.groups, chosen.seed, racks=racks))
        print(f"\n## {'With' if racks else 'Without'} racks\n")
        print("\n".join(f"- {line}" for line in describe(drawn)))
        print("\n| name | who leads | groups moved | in rounds 7, 8 | unfinished rounds | moved, by round |")
        print("|---|---|---|---|---|---|", flush=True)
        for members in (STICKY, COOPERATIVE, EAGER):
            with JavaOracle(members.strategy.name) as java:
                for series in SERIES:
                    if series.mixed or members is not EAGER:
                        plays = play_all(java, members, series, drawn)
                        print(f"| {members.label} | {series.label} | {summary(plays)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
