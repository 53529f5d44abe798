"""The rule for deployments: releases that get their shares, partitions that stay.

`rollout`: members announce the release that they run, and may announce the share of every topic that it
should have; these get it (`release_shares`). The rest of each topic is for the members of all other releases.
While several of those share a topic a deployment may be under way, and no member gives up a partition for
balance (`hold`): free partitions go to the members with the least load, the new, empty pods. A strategy that
balances at every step of a deployment moves each partition about twice.

**Cap.** No member keeps more than the most it can have when the deployment is over. The number of members at
that time is not known. Every release that shares a topic has at most as many members now as the one that
remains will have, unless the application is scaled down meanwhile; so the largest release is an estimate that
is never too high, and the cap takes no partition from a member that would keep it in the end. The solver's
levels give the cap for each topic, as if the largest release alone subscribed to it. With equal subscriptions
all free partitions fit in below the cap. Otherwise partitions that stay can make a member exceed it; then the
members that share its topics are released, and in the end all: either no member has more than its cap, or the
group is exactly balanced.

Source of the idea: PostHog's placement for rolling deployments (pull request 82575).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace

from kafka_assignors.criteria import FEWEST_MOVES
from kafka_assignors.group import Group, Member, TopicPartitions
from kafka_assignors.solver.classes import classify
from kafka_assignors.solver.levels import find_levels
from kafka_assignors.strategies.range_roundrobin import topics_by_subscribers
from kafka_assignors_strategies.rules.basic import LevelPartitions
from kafka_assignors_strategies.rules.release_shares import (
    Release,
    Releases,
    divide,
    named,
    release_order,
    releases_of,
)
from kafka_assignors_strategies.rules.rule import Place, Problem, Rule


@dataclass(frozen=True, slots=True)
class ShareByRelease(Rule):
    """Every release with a share gets it of every topic; nothing moves while several without one are mixed.

    Of each topic a release gets its share rounded up or down, and so it does of all topics together. It gets
    all of a topic to which no other release subscribes; otherwise a share of 0 gets no partition.
    """

    kind, place = "rollout", Place.RESTRICTION

    def restrict(self, problem: Problem) -> Problem:
        """The problem in pieces, each of one release with a share or of all without, and partly fixed."""
        releases = releases_of(problem)
        return hold(divide(problem.with_findings(*releases.findings), releases), releases)


_ATTEMPTS = 4
"""How often members that would exceed the cap are released before all members are."""


@dataclass(frozen=True, slots=True)
class _Mixed:
    """The topics that several releases share, and the group without those that will leave, nor claims."""

    topics: Set[str]
    releases: Set[Release]
    final: Group


def hold(problem: Problem, releases: Releases) -> Problem:
    """The problem with the partitions that members keep fixed, if several releases share a topic."""
    mixed = _mixed(problem, releases)
    if not mixed.topics:
        return problem
    caps = _caps(problem, mixed)
    members = problem.group.members
    holding = [member for member in members.values() if not mixed.topics.isdisjoint(member.topics)]
    problem = problem.with_findings(_on_holding(mixed, releases, max(caps[member.id] for member in holding)))
    one_subscription = len({member.topics for member in holding}) == 1
    nothing_else = all(
        name in mixed.topics or not topic.partitions
        for name, topic in problem.group.topics.items()
        if any(name in member.topics for member in holding)
    )
    loose: set[str] = set()
    for _ in range(_ATTEMPTS):
        held = problem.fix(_kept(problem, mixed.topics, caps, loose))
        if nothing_else and not loose:
            held = _favouring(held, [member.id for member in holding])
        # With equal subscriptions, the free partitions fit below the cap at the members with the least load.
        above = set[str]() if one_subscription else _above(held, caps)
        if not above:
            return held
        crowded = set[str]().union(*(members[member_id].topics for member_id in above))
        loose.update(member.id for member in members.values() if not crowded.isdisjoint(member.topics))
    return problem


def _favouring(held: Problem, members: Iterable[str]) -> Problem:
    """The problem with the members favoured that keep least: newcomers, not members that may leave.

    Otherwise, if partitions do not divide evenly, the last one of a leaving pod could go to an old pod and
    move again with it. Favour counts before movement, so it is for groups in which every partition is either
    fixed or free: any other partition would follow the favoured member, a different one in each rebalance.
    """
    fixed = held.fixed_loads
    keeps = {member_id: fixed.get(member_id, 0) for member_id in members}
    least = min(keeps.values())
    if least == max(keeps.values()):
        return held
    return replace(held, favoured=frozenset(member_id for member_id, load in keeps.items() if load == least))


def _on_holding(mixed: _Mixed, releases: Releases, most: int) -> str:
    counts = Counter(release for release in releases.of_member.values() if release in mixed.releases)
    first, second, *others = sorted(mixed.releases, key=lambda each: (-counts[each], release_order(each)))
    more = f" and {len(others)} more" if others else ""
    return (
        f"{named(first)} ({counts[first]} members) and {named(second)} ({counts[second]}){more} share "
        f"topics: while they do, partitions stay where they are, up to {most} at a member; a release that is "
        "to stay beside others needs a share"
    )


def _mixed(problem: Problem, releases: Releases) -> _Mixed:
    members = [problem.group.members[member_id] for member_id in sorted(problem.group.members)]
    shared: set[str] = set()
    sharing: set[Release] = set()
    remaining: dict[str, set[str]] = {member.id: set() for member in members}
    for positions, topics in topics_by_subscribers(problem.group, members):
        names = {topic.name for topic in topics}
        counts = Counter(releases.of_member[members[position].id] for position in positions)
        largest = min(counts, key=lambda release: (-counts[release], release_order(release)))
        for position in positions:
            if releases.of_member[members[position].id] == largest:
                remaining[members[position].id] |= names
        if len(counts) > 1:
            shared |= names
            sharing |= counts.keys()
    final = {member.id: Member(member.id, frozenset(remaining[member.id])) for member in members}
    return _Mixed(shared, sharing, Group(problem.group.topics, final))


def _caps(problem: Problem, mixed: _Mixed) -> dict[str, int]:
    """The most that each member may keep, by its id."""
    classes = classify(mixed.final, mixed.final.claims)
    most = {
        number: max(level.loads.values()) + (level.extra > 0)
        for level in find_levels(classes)
        for number in level.topic_classes
    }
    by_subscription: dict[frozenset[str], int] = {}
    for member in problem.group.members.values():
        if member.topics not in by_subscription:
            numbers = {classes.class_of_topic[n] for n in member.topics if n in classes.class_of_topic}
            by_subscription[member.topics] = max((most[number] for number in numbers), default=0)
    return {member.id: by_subscription[member.topics] for member in problem.group.members.values()}


def _kept(
    problem: Problem, topics: Set[str], caps: Mapping[str, int], loose: Set[str]
) -> dict[str, TopicPartitions]:
    """By member, the partitions of these topics that it keeps: those it owned, up to its cap."""
    kept: dict[str, TopicPartitions] = {}
    for member_id, owned in problem.claims.owners.items():
        of_topics = {name: owned[name] for name in sorted(owned) if name in topics}
        if of_topics and member_id not in loose:
            kept[member_id] = _first_of_each(of_topics, caps[member_id])
    return kept


def _first_of_each(owned: TopicPartitions, most: int) -> TopicPartitions:
    """At most `most` of these partitions; the others are taken from the topics with the most of them."""
    counts = [(-len(partitions), name) for name, partitions in owned.items()]
    heapify(counts)
    for _ in range(sum(map(len, owned.values())) - most):
        count, name = counts[0]
        heapreplace(counts, (count + 1, name))
    return {name: owned[name][:-count] for count, name in counts if count}


def _above(held: Problem, caps: Mapping[str, int]) -> set[str]:
    """The members that would have more than their cap, because of partitions that stay."""
    placed = LevelPartitions().balance(held, FEWEST_MOVES)
    fixed = held.fixed_loads
    return {
        member_id for member_id, cap in caps.items() if fixed.get(member_id, 0) + placed.load(member_id) > cap
    }
