"""Plays a group with one assignor until it settles, and judges the result.

The group gets the answer of an eager assignor directly. A cooperative assignor is asked round after round,
while the members own their partitions of the previous round, until every partition is assigned. Either kind
is then asked once more, and again if that moves partitions: an assignor that still moves some in round
`MOST_ROUNDS` never settles.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from compat_tests.corpus.scenario import Best
from compat_tests.peers.asking import Answer
from kafka_assignors.group import Assignment, Group
from tests.exact_score import Partition, Plain, load_histogram, prior_owners, readers, score

MOST_ROUNDS = 12

Ask = Callable[[Group], Answer]


class End(enum.Enum):
    """How a play ended."""

    SETTLED = "settled"
    CRASHED = "crashed"
    INVALID = "invalid"
    NEVER_SETTLES = "never settles"


@dataclass(frozen=True, slots=True)
class Play:
    """The result of one assignor for a group.

    `owners` are those of the first complete assignment, None if there was none. `moves_again` says that the
    assignor moved partitions after that, although nothing had changed. `why` is the reason of a failure.
    """

    end: End
    owners: Mapping[Partition, str] | None
    rounds: int
    moves_again: bool = False
    why: str = ""


def play(group: Group, ask: Ask, *, cooperative: bool) -> Play:
    """Ask until the assignment does not change any more."""
    may_get = readers(group)
    now, answer = group, ask(group)
    complete: dict[Partition, str] | None = None
    owned: Plain | None = None
    again = False
    for round_number in range(1, MOST_ROUNDS + 1):
        if answer.assignment is None:
            return Play(End.CRASHED, complete, round_number, again, answer.error or "")
        owners, why = _owners(answer.assignment, may_get)
        if not why and not cooperative:
            why = _left_out(may_get.keys() - owners.keys())
        if why:
            return Play(End.INVALID, complete, round_number, again, why)
        given = _plain(answer.assignment)
        if given == owned:
            if complete is None:
                return Play(End.INVALID, None, round_number, again, _left_out(may_get.keys() - owners.keys()))
            return Play(End.SETTLED, complete, round_number, again)
        if complete is not None:
            again = True
        elif len(owners) == len(may_get):
            complete = owners
        owned = given
        now = _owning(now, given)
        answer = ask(now)
    return Play(
        End.NEVER_SETTLES, complete, MOST_ROUNDS, True, f"still moves partitions in round {MOST_ROUNDS}"
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of an assignment with the optimum; the criteria after balance need balance first."""

    end: End
    balanced: bool = False
    least_moved: bool = False
    least_misses: bool = False
    best: bool = False
    moves_again: bool = False
    why: str = ""

    @property
    def flawless(self) -> bool:
        """Optimal at once, and without moves afterwards."""
        return self.end is End.SETTLED and self.best and not self.moves_again


def judge(group: Group, best: Best, played: Play) -> Verdict:
    """Compare a play with the optimum.

    `best` is true if no other assignment is better in balance, movement and rack misses, in this order, or in
    balance, rack misses and movement.
    """
    if played.owners is None or played.end in (End.CRASHED, End.INVALID):
        return Verdict(played.end, moves_again=played.moves_again, why=played.why)
    balanced = load_histogram(group, played.owners) == best.loads
    reached = score(group, played.owners, prior_owners(group))
    moved, misses = reached.moved, reached.rack_misses
    return Verdict(
        played.end,
        balanced,
        balanced and moved == best.moved_then_misses[0],
        balanced and misses == best.misses_then_moved[0],
        balanced and ((moved, misses) == best.moved_then_misses or (misses, moved) == best.misses_then_moved),
        played.moves_again,
        played.why,
    )


def _owners(
    assignment: Assignment, may_get: Mapping[Partition, list[str]]
) -> tuple[dict[Partition, str], str]:
    """The owner of each partition, and the first error in the assignment; "" if there is none."""
    owners: dict[Partition, str] = {}
    for member_id, by_topic in assignment.members.items():
        for topic, numbers in by_topic.items():
            for partition in numbers:
                where = f"{topic}-{partition}"
                if member_id not in may_get.get((topic, partition), ()):
                    return owners, f"gives {where} to {member_id}, who does not read it"
                if (topic, partition) in owners:
                    return owners, f"gives {where} to {owners[topic, partition]} and {member_id}"
                owners[topic, partition] = member_id
    return owners, ""


def _left_out(partitions: set[Partition]) -> str:
    if not partitions:
        return ""
    topic, partition = min(partitions)
    return f"leaves {len(partitions)} partitions without an owner, the first being {topic}-{partition}"


def _plain(assignment: Assignment) -> Plain:
    return {
        m: {t: sorted(ps) for t, ps in by_topic.items() if ps} for m, by_topic in assignment.members.items()
    }


def _owning(group: Group, owned: Plain) -> Group:
    """The group one generation later, when every member owns its partitions of the round."""
    generation = (group.generation or 0) + 1
    members = [
        replace(member, owned=owned.get(member.id, {}), generation=generation - 1)
        for member in group.members.values()
    ]
    return Group.of(group.topics.values(), members, generation)
