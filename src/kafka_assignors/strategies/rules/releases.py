"""Which release each member runs, and what share of the partitions each release asks for.

The release is any text, and no order is known between two of them: what is a promotion to one is a rollback
to the other. Members that announce none are a release of their own. A member that may not have anything, such
as one that drains, does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_assignors.strategies.rules.problem import Problem

__all__ = ["MOST_SHARING", "Release", "Releases", "named", "release_order", "releases_of"]

MOST_SHARING = 16
"""How many releases can have shares at a time. Nobody deploys as many, and the work grows with them."""

Release = str | None
"""What members announce; None where they announce none."""


@dataclass(frozen=True, slots=True)
class Releases:
    """The release of every member that may have something, by its id, and the shares of those that have one.

    Shares are in ten-thousandths. `findings` are for the leader's log.
    """

    of_member: Mapping[str, Release]
    shares: Mapping[Release, int]
    findings: tuple[str, ...]


def named(release: Release) -> str:
    """A release, as a sentence has it."""
    return "the members without a release" if release is None else f"release {release!r:.80}"


def releases_of(problem: Problem) -> Releases:
    """What the members of the problem announce, put together."""
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
        share = min(announced[release], key=lambda share: (-announced[release][share], _rank(share)))
        if len(announced[release]) > 1:
            differing.append(release)
        if share is not None:
            shares[release] = share
    if differing:
        first = differing[0]
        findings.append(
            f"the members of {named(first)} announce different shares, and what most of them say counts: "
            f"{_share_text(shares.get(first))} ({len(differing)} such releases)"
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


def _rank(share: int | None) -> int:
    """Of shares that are announced equally often the lowest counts, and a share before none."""
    return 1 << 62 if share is None else share


def _share_text(share: int | None) -> str:
    return "no share" if share is None else f"{share / 100:g} %"
