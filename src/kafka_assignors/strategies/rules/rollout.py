"""`rollout`: releases get their shares, and rolling deployments move each partition once.

Members announce the release of the application that they run, and may announce the share of every topic that
the release should have: a canary of a tenth has a tenth, at once, and keeps it for any number of members
(`release_shares`). The rest of each topic is for the members of all other releases. While several of those
are in the group a deployment may be under way; then partitions stay until their member leaves (`hold`).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.strategies.rules.base import Restriction
from kafka_assignors.strategies.rules.hold import hold
from kafka_assignors.strategies.rules.problem import Problem
from kafka_assignors.strategies.rules.release_shares import divide, releases_of

__all__ = ["ShareByRelease"]


@dataclass(frozen=True, slots=True)
class ShareByRelease(Restriction):
    """Every release with a share gets it of every topic; nothing moves while several without one are mixed.

    Of each topic a release gets its share rounded up or down, and so it does of all topics together. It gets
    all of a topic to which no other release subscribes; otherwise a share of 0 gets no partition.
    """

    kind = "rollout"

    def restrict(self, problem: Problem) -> Problem:
        """The problem in pieces, each of one release with a share or of all without, and partly fixed."""
        releases = releases_of(problem)
        return hold(divide(problem.with_findings(*releases.findings), releases), releases)
