"""Converts the members' reports to entries of the ledger."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compat_tests.chaos.ledger import CommitFailure, Delivery, Ending, Generation, Ownership, Partition
from compat_tests.interop import recorded_group
from kafka_assignors.group import pairs


def ownerships_of(member: str, reports: Iterable[Mapping[str, Any]], ended_at: float) -> Iterator[Ownership]:
    """The ownerships of a member, by its reports.

    `ended_at` is when its process was killed or ended; infinity while it runs.
    """
    owned: dict[Partition, tuple[float, str, int]] = {}
    number = 0
    told_at: dict[Partition, float] = {}

    def end(partitions: Iterable[Partition], at: float, ending: Ending) -> Iterator[Ownership]:
        for partition in partitions:
            if partition in owned:
                since, member_id, announced = owned.pop(partition)
                told = told_at.pop(partition, math.inf)
                yield Ownership(since, at, member, member_id, partition, ending, told, announced)

    for report in reports:
        match report["event"]:
            case "assigned":
                now, number = {*pairs(report["partitions"])}, number + 1
                yield from end([one for one in owned if one not in now], report["at"], Ending.SILENT)
                for partition in now - owned.keys():
                    owned[partition] = (report["at"], report["member_id"], number)
            case "revoking":
                told_at.update(dict.fromkeys(pairs(report["partitions"]), report["at"]))
            case "revoked":
                yield from end(pairs(report["partitions"]), report["at"], Ending.REVOKED)
            case "lost":
                yield from end(pairs(report["partitions"]), report["at"], Ending.LOST)
    yield from end(list(owned), ended_at, Ending.DIED if ended_at < math.inf else Ending.OPEN)


def deliveries_of(member: str, reports: Iterable[Mapping[str, Any]]) -> Iterator[Delivery]:
    """The deliveries to a member. A report with gaps in its offsets becomes several deliveries."""
    for report in reports:
        if report["event"] == "consumed":
            partition = (report["topic"], report["partition"])
            for first, last in _spans(report["offsets"]):
                yield Delivery(report["at"], member, partition, first, last)


def failures_of(member: str, reports: Iterable[Mapping[str, Any]]) -> Iterator[CommitFailure]:
    """The commits that failed according to the member."""
    for report in reports:
        if report["event"] == "commit_failed":
            yield CommitFailure(report["at"], member, frozenset(pairs(report["partitions"])), report["error"])


def generation_of(recorded: recorded_group.Generation, at: float) -> Generation:
    """A generation as a broker recorded it, at this time on the ledger's clock."""
    return Generation(
        at,
        recorded.number,
        recorded.leader,
        {member_id: name for name, member_id in recorded.names.items()},
        {member_id: frozenset(pairs(share)) for member_id, share in recorded.assignment.members.items()},
        recorded.joined_from,
    )


def _spans(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = previous = offsets[0]
    for offset in offsets[1:]:
        if offset != previous + 1:
            yield first, previous
            first = offset
        previous = offset
    yield first, previous
