"""How many partitions of each topic, and which ones, go to each release that announces a share.

**How many** (`round_shares`). The shares of a topic's releases are fractions of its partitions. Each of them
is rounded up or down so that every topic is given out completely, and so that the sum of a release over all
topics is its fraction of all partitions, rounded up or down as well. By the integrality of flows this is
always possible: M. Bacharach, "Matrix rounding problems", Management Science 12 (1966). Rounding each topic
alone would not do: a tenth of each of a hundred topics with four partitions would be rounded to zero.

The rounding works by exchanges. First every topic rounds for itself, so that as few partitions as possible
change hands: up where a release owns more than its fraction rounded down. Then releases that got too much in
all pass partitions on to those that got too little, one topic at a time, along chains of releases and always
by the cheapest chain: successive shortest paths, as in the solver, on a network whose nodes are releases
alone. Of all roundings with these totals the result is one that moves the fewest partitions between releases.

**Who asks** (`releases_of`). A release is any text, and no order is known between two of them: one side's
promotion is the other's rollback. Members that announce none are a release of their own. A member that may
not have any partition, such as one that drains, does not count.

**Which ones** (`divide`). The members without a share form one part together, which gets what the shares
leave of each topic. A part gets partitions in this order: those that its members own; then those without an
owner; then, one by one, those of the members with the greatest load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from kafka_assignors.announcements import WHOLE_SHARE
from kafka_assignors.group import Topic
from kafka_assignors.strategies.range_roundrobin import topics_by_subscribers
from kafka_assignors_strategies.rules.rule import Piece, Problem, Unit, piece_name

MOST_SHARING = 16
"""How many releases can have shares at a time. No deployment has as many, and each costs time."""

Release = str | None
"""The release that members announce; None if they announce none."""


@dataclass(frozen=True, slots=True)
class Releases:
    """The release of every member that may have something, by its id, and the shares of those that have one.

    Shares are in ten-thousandths. `findings` are for the leader's log.
    """

    of_member: Mapping[str, Release]
    shares: Mapping[Release, int]
    findings: tuple[str, ...]


def named(release: Release) -> str:
    """The release in the words of a finding."""
    return "the members without a release" if release is None else f"release {release!r:.80}"


def releases_of(problem: Problem) -> Releases:
    """The releases and shares that the members of the problem announce."""
    with_partitions = frozenset(name for name, topic in problem.group.topics.items() if topic.partitions)
    announced: dict[Release, Counter[int | None]] = {}
    of_member: dict[str, Release] = {}
    for member_id in sorted(problem.group.members):
        if with_partitions.isdisjoint(problem.group.members[member_id].topics):
            continue
        facts = problem.facts.members[member_id]
        of_member[member_id] = facts.release
        announced.setdefault(facts.release, Counter())[facts.share] += 1

    shares: dict[Release, int] = {}
    findings: list[str] = []
    differing: list[Release] = []
    for release in sorted(announced, key=release_order):
        # Of shares announced equally often the lowest counts, and a share before none.
        counts = announced[release]
        share = min(counts, key=lambda share: (-counts[share], share is None, share or 0))
        if len(counts) > 1:
            differing.append(release)
        if share is not None:
            shares[release] = share
    if differing:
        first = differing[0]
        counts_most = f"{shares[first] / 100:g} %" if first in shares else "no share"
        findings.append(
            f"the members of {named(first)} announce different shares, and what most of them say counts: "
            f"{counts_most} ({len(differing)} such releases)"
        )
    if len(shares) > MOST_SHARING:
        by_members = sorted(shares, key=lambda release: (-announced[release].total(), release_order(release)))
        findings.append(
            f"{len(shares)} releases announce shares: those of the {MOST_SHARING} with most members count, "
            "the others are treated as without a share"
        )
        counting = set(by_members[:MOST_SHARING])
        shares = {release: share for release, share in shares.items() if release in counting}
    return Releases(of_member, shares, tuple(findings))


def release_order(release: Release) -> tuple[bool, str]:
    """A sort key; it decides ties and means nothing."""
    return release is not None, release or ""


@dataclass(frozen=True, slots=True)
class _Divided:
    """A topic that has to be divided; `readers` are the members of each part."""

    topic: Topic
    shares: TopicShares
    readers: Mapping[int, frozenset[str]]


def divide(problem: Problem, releases: Releases) -> Problem:
    """The problem with every shared topic in pieces, one for each release that gets some of it."""
    if not releases.shares:
        return problem
    numbers = {release: number for number, release in enumerate(releases.shares)}
    part_of = {
        member_id: numbers.get(release, len(numbers)) for member_id, release in releases.of_member.items()
    }
    divided, findings = _to_divide(problem, releases, part_of)
    quotas = round_shares([one.shares for one in divided])
    loads = {member_id: sum(map(len, owned.values())) for member_id, owned in problem.claims.owners.items()}
    pieces: list[Piece] = []
    for one, quota in zip(divided, quotas, strict=True):
        name = one.topic.name
        chosen = _choose(one.topic.partitions, quota, problem.owned(name), part_of, loads)
        for number, partitions in chosen.items():
            if partitions:
                units: list[Unit] = [((name, partition),) for partition in sorted(partitions)]
                pieces.append(Piece(piece_name(name, f"part {number}"), units, one.readers[number]))
    return problem.replace_topics([one.topic.name for one in divided], pieces).with_findings(*findings)


def _to_divide(
    problem: Problem, releases: Releases, part_of: Mapping[str, int]
) -> tuple[list[_Divided], list[str]]:
    """The topics that members of several parts subscribe to, by name, and findings about the shares."""
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
        if total > WHOLE_SHARE or (rest not in of_part and total < WHOLE_SHARE):
            findings[_on_scaling(total, [named(sharing[number]) for number in asked])] = None
        if rest in of_part and total <= WHOLE_SHARE:
            shares = {**asked, rest: WHOLE_SHARE - total}
        else:
            shares = scaled(asked) | ({rest: 0} if rest in of_part else {})
        readers = {number: frozenset(ids) for number, ids in of_part.items()}
        for topic in topics:
            owned = dict.fromkeys(shares, 0)
            for member_id, partitions in problem.owned(topic.name):
                owned[part_of[member_id]] += len(partitions)
            divided.append(_Divided(topic, TopicShares(topic.partitions, shares, owned), readers))
    divided.sort(key=lambda one: one.topic.name)
    return divided, sorted(findings)[:1]


def _on_scaling(total: int, releases: Collection[str]) -> str:
    listed = " and ".join([*releases][:2]) + (f" and {len(releases) - 2} more" if len(releases) > 2 else "")
    reason = (
        "more than everything" if total > WHOLE_SHARE else "and no member without a share takes what is left"
    )
    return f"{listed} ask for {total / 100:g} % together, {reason}: their shares are scaled to 100 %"


def _choose(
    partitions: int,
    quotas: Mapping[int, int],
    held: Sequence[tuple[str, Sequence[int]]],
    part_of: Mapping[str, int],
    loads: dict[str, int],
) -> dict[int, list[int]]:
    """The partitions of a topic that each part gets; `loads` shrink by the partitions taken from a member."""
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


@dataclass(frozen=True, slots=True)
class TopicShares:
    """A topic that several releases share, by their numbers.

    `shares`, none of which is negative, add up to `WHOLE_SHARE`. `owned` is how many of its partitions the
    members of each release own.
    """

    partitions: int
    shares: Mapping[int, int]
    owned: Mapping[int, int]

    def exact(self) -> dict[int, int]:
        """What each release should have, in ten-thousandths of a partition."""
        return {number: self.partitions * share for number, share in self.shares.items()}


def scaled(shares: Mapping[int, int]) -> dict[int, int]:
    """The same proportions with the sum `WHOLE_SHARE`; at least one of the shares must not be 0."""
    return _rounded({number: share * WHOLE_SHARE for number, share in shares.items()}, sum(shares.values()))


def _rounded(parts: Mapping[int, int], unit: int, last: Collection[int] = ()) -> dict[int, int]:
    """Each of the parts in units, rounded up or down, with the sum that all parts have together.

    The greatest remainders are rounded up, of equal ones that of the lower number; those of `last` come last.
    """
    rounded = {number: part // unit for number, part in parts.items()}
    broken = [number for number, part in parts.items() if part % unit]
    broken.sort(key=lambda number: (number in last, -(parts[number] % unit), number))
    for number in broken[: sum(parts.values()) // unit - sum(rounded.values())]:
        rounded[number] += 1
    return rounded


def round_shares(topics: Sequence[TopicShares]) -> list[dict[int, int]]:
    """How many partitions of each topic go to each release.

    Each number is its fraction rounded up or down, and so is the sum of each release. Sums that would be 0
    are rounded up first, then those with the greatest remainders; if subscriptions do not allow that, others.
    Cost: linear in the fractions, and for each topic that is exchanged at most the third power of the number
    of releases.
    """
    rounding = _Rounding(topics)
    exact: Counter[int] = Counter()
    for topic in topics:
        exact.update(topic.exact())
    floors = {number: parts // WHOLE_SHARE for number, parts in exact.items()}
    rounding.approach({number: -(-parts // WHOLE_SHARE) for number, parts in exact.items()})
    rounding.approach(floors)
    rounding.approach(_rounded(exact, WHOLE_SHARE, last=[number for number in floors if floors[number]]))
    return rounding.given


class _Rounding:
    """The rounding so far: at first every topic by itself, so that few partitions change hands.

    `given` are the numbers, topic by topic, and `totals` their sums. `chains[a][b][cost]` are the topics in
    which release `a` is rounded up and `b` is not, so that `a` can pass one on, as keys.
    """

    def __init__(self, topics: Sequence[TopicShares]) -> None:
        releases = sorted({number for topic in topics for number in topic.shares})
        self.given: list[dict[int, int]] = []
        self.totals = dict.fromkeys(releases, 0)
        self._up: list[set[int]] = []
        self._down: list[set[int]] = []
        self._kept: list[set[int]] = []
        """By topic, the releases that own more than their fraction rounded down."""
        self._chains: dict[int, dict[int, dict[int, dict[int, None]]]] = {
            a: {b: {-1: {}, 0: {}, 1: {}} for b in releases if b != a} for a in releases
        }
        for row, topic in enumerate(topics):
            exact = topic.exact()
            floors = {number: parts // WHOLE_SHARE for number, parts in exact.items()}
            kept = {number for number in floors if topic.owned.get(number, 0) > floors[number]}
            given = _rounded(exact, WHOLE_SHARE, last=floors.keys() - kept)
            up = {number for number in given if given[number] > floors[number]}
            self.given.append(given)
            self._up.append(up)
            self._down.append({number for number, parts in exact.items() if parts % WHOLE_SHARE} - up)
            self._kept.append(kept)
            for number, count in given.items():
                self.totals[number] += count
            for topics_of_chain in self._chains_with(row):
                topics_of_chain[row] = None

    def approach(self, wanted: Mapping[int, int]) -> None:
        """Pass partitions on from releases with a greater sum than is wanted to those with a lesser one."""
        while (chain := self._cheapest_chain(wanted)) is not None:
            for giver, taker in chain:
                cheapest = next(filter(None, self._chains[giver][taker].values()))
                self._exchange(next(iter(cheapest)), giver, taker)

    def _cheapest_chain(self, wanted: Mapping[int, int]) -> list[tuple[int, int]] | None:
        """Steps (giver, taker) from a release above what is wanted to one below: the cheapest, then shortest.

        None if there is none.
        """
        best: dict[int, tuple[int, int]] = {
            number: (0, 0) for number, total in self.totals.items() if total > wanted[number]
        }
        came_from: dict[int, int] = {}
        changed = bool(best)
        while changed:  # Bellman and Ford; costs may be negative, but not along a cycle
            changed = False
            for giver in sorted(best):
                for taker in self._chains[giver]:
                    cost = next((cost for cost, topics in self._chains[giver][taker].items() if topics), None)
                    if cost is None:
                        continue
                    reached = best[giver][0] + cost, best[giver][1] + 1
                    if taker not in best or reached < best[taker]:
                        best[taker] = reached
                        came_from[taker] = giver
                        changed = True
        ends = [(best[number], number) for number in best if self.totals[number] < wanted[number]]
        if not ends:
            return None
        chain: list[tuple[int, int]] = []
        taker = min(ends)[1]
        while taker in came_from:
            chain.append((came_from[taker], taker))
            taker = came_from[taker]
        return chain[::-1]

    def _exchange(self, row: int, giver: int, taker: int) -> None:
        for topics in self._chains_with(row):
            del topics[row]
        for number, change in ((giver, -1), (taker, 1)):
            self.given[row][number] += change
            self.totals[number] += change
            self._up[row] ^= {number}
            self._down[row] ^= {number}
        for topics in self._chains_with(row):
            topics[row] = None

    def _chains_with(self, row: int) -> Iterator[dict[int, None]]:
        """The places of the topic in `_chains`: from each release it rounds up to each that it does not.

        The cost of a chain is how many more partitions change hands if a partition is passed on.
        """
        kept = self._kept[row]
        for giver in self._up[row]:
            for taker in self._down[row]:
                yield self._chains[giver][taker][(giver in kept) - (taker in kept)]
