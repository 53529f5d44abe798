"""Commits with an error code for each partition: accepted, failed permanently, or retriable."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kafka_assignors.rebalance.events import Partitions
from kafka_assignors.rebalance.member import MemberState
from tests.rebalance_model.world import Commit, TakenInPart, Violation


def parts_of(sent: Commit) -> Iterator[tuple[str, TakenInPart]]:
    """Every partial answer of a coordinator that knows the member: all except accepting the whole commit."""
    partitions = sorted(sent.partitions)
    for fates in itertools.product(("accepted", "failed", "again"), repeat=len(partitions)):
        fate_of = dict(zip(partitions, fates, strict=True))
        accepted, failed, again = (
            frozenset(partition for partition in partitions if fate_of[partition] == fate)
            for fate in ("accepted", "failed", "again")
        )
        if accepted != sent.partitions:
            label = f"{names_of(failed)} fails, {names_of(again)} may be tried again"
            yield label, TakenInPart(sent.membership, accepted, failed)


def check_parts(
    name: str, settled: Partitions, newer: Partitions, again: Partitions, after: MemberState
) -> None:
    """Check that a settled partition is not sent again, and that a retriable one is not forgotten.

    `newer` are the partitions with another open commit.
    """
    if more := (settled - newer) & after.commits.waiting:
        raise Violation(f"{name} commits {names_of(more)} again, which is settled")
    if forgotten := again & after.committable - after.commits.waiting:
        raise Violation(f"{name} forgets to commit {names_of(forgotten)}")


def names_of(partitions: Partitions) -> str:
    return "+".join(topic for topic, _ in sorted(partitions)) or "nothing"
