"""Topics divided between releases that have shares, and all members that have none.

Those without a share together are what is left: they get what the shares leave of each topic. How many
partitions that is for everybody is found by `quotas`. Which ones: those that members of the release own
already; then those that nobody owns; then, one by one, those of the members with the greatest load.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from kafka_assignors.group import Topic
from kafka_assignors.strategies._order import topics_by_subscribers
from kafka_assignors.strategies.rules.problem import Piece, Problem, Unit, piece_name
from kafka_assignors.strategies.rules.quotas import WHOLE, TopicShares, round_shares, scaled
from kafka_assignors.strategies.rules.releases import Releases, named

__all__ = ["divide"]

_Held = Mapping[str, Sequence[tuple[str, Sequence[int]]]]
"""By topic, who owned which partitions."""


@dataclass(frozen=True, slots=True)
class _Divided:
    """A topic that has to be divided; `readers` are the members of each part."""

    topic: Topic
    shares: TopicShares
    readers: Mapping[int, frozenset[str]]


def divide(problem: Problem, releases: Releases) -> Problem:
    """The same with every topic that is shared in pieces, one for each release that gets something of it."""
    if not releases.shares:
        return problem
    numbers = {release: number for number, release in enumerate(releases.shares)}
    part_of = {
        member_id: numbers.get(release, len(numbers)) for member_id, release in releases.of_member.items()
    }
    held: dict[str, list[tuple[str, Sequence[int]]]] = {}
    for member_id in sorted(problem.claims.prior):
        for name, partitions in problem.claims.prior[member_id].items():
            held.setdefault(name, []).append((member_id, partitions))

    divided, findings = _to_divide(problem, releases, part_of, held)
    quotas = round_shares([one.shares for one in divided])
    loads = {member_id: sum(map(len, owned.values())) for member_id, owned in problem.claims.prior.items()}
    pieces: list[Piece] = []
    for one, quota in zip(divided, quotas, strict=True):
        name = one.topic.name
        chosen = _choose(one.topic.partitions, quota, held.get(name, ()), part_of, loads)
        for number, partitions in chosen.items():
            if partitions:
                units: list[Unit] = [((name, partition),) for partition in sorted(partitions)]
                pieces.append(Piece(piece_name(name, f"part {number}"), units, one.readers[number]))
    return problem.recast([one.topic.name for one in divided], pieces).says(*findings)


def _to_divide(
    problem: Problem, releases: Releases, part_of: Mapping[str, int], held: _Held
) -> tuple[list[_Divided], list[str]]:
    """The topics that members of several parts subscribe to, by name, and what is to be said of shares."""
    sharing = list(releases.shares)
    rest = len(sharing)
    members = [problem.group.members[member_id] for member_id in sorted(problem.group.members)]
    divided: list[_Divided] = []
    findings: dict[str, None] = {}
    for positions, topics in topics_by_subscribers(problem.group, members):
        of_part: dict[int, set[str]] = {}
        for position in positions:
            member_id = members[position].id
            of_part.setdefault(part_of[member_id], set()).add(member_id)
        asked = {number: releases.shares[sharing[number]] for number in sorted(of_part) if number != rest}
        if len(of_part) == 1 or not (any(asked.values()) or rest in of_part):
            continue
        total = sum(asked.values())
        if total > WHOLE or (rest not in of_part and total < WHOLE):
            findings[_on_scaling(total, [named(sharing[number]) for number in asked])] = None
        if rest in of_part and total <= WHOLE:
            shares = {**asked, rest: WHOLE - total}
        else:
            shares = scaled(asked) | ({rest: 0} if rest in of_part else {})
        readers = {number: frozenset(ids) for number, ids in of_part.items()}
        for topic in topics:
            owned = dict.fromkeys(shares, 0)
            for member_id, partitions in held.get(topic.name, ()):
                owned[part_of[member_id]] += len(partitions)
            divided.append(_Divided(topic, TopicShares(topic.partitions, shares, owned), readers))
    divided.sort(key=lambda one: one.topic.name)
    return divided, sorted(findings)[:1]


def _on_scaling(total: int, releases: Collection[str]) -> str:
    listed = " and ".join([*releases][:2]) + (f" and {len(releases) - 2} more" if len(releases) > 2 else "")
    reason = "more than everything" if total > WHOLE else "and nobody without a share takes what is left"
    return f"{listed} ask for {total / 100:g} % together, {reason}: their shares are scaled to 100 %"


def _choose(
    partitions: int,
    quotas: Mapping[int, int],
    held: Sequence[tuple[str, Sequence[int]]],
    part_of: Mapping[str, int],
    loads: dict[str, int],
) -> dict[int, list[int]]:
    """Which partitions of a topic each part gets. What is taken from a member is taken off its load."""
    chosen: dict[int, list[int]] = {number: [] for number in quotas}
    holders: dict[int, list[tuple[int, str, list[int]]]] = {number: [] for number in quotas}
    free = set(range(partitions))
    for member_id, owned in held:
        holders[part_of[member_id]].append((-loads[member_id], member_id, [*owned]))
        free.difference_update(owned)
    for number, heap in holders.items():
        heapify(heap)
        for _ in range(sum(len(owned) for _, _, owned in heap) - quotas[number]):
            _, member_id, owned = heap[0]
            free.add(owned.pop())
            loads[member_id] -= 1
            if owned:
                heapreplace(heap, (-loads[member_id], member_id, owned))
            else:
                heappop(heap)
        chosen[number] = [partition for _, _, owned in heap for partition in owned]
    left = iter(sorted(free))
    for number, quota in quotas.items():
        chosen[number].extend(next(left) for _ in range(quota - len(chosen[number])))
    return chosen
