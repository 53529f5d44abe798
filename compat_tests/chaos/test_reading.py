"""Reports of members become entries of the ledger."""

from __future__ import annotations

import math

from compat_tests.chaos.ledger import Delivery, Ending
from compat_tests.chaos.reading import deliveries_of, ownerships_of


def assigned(at: float, member_id: str, *partitions: int) -> dict[str, object]:
    return {"event": "assigned", "at": at, "member_id": member_id, "partitions": {"t": list(partitions)}}


def gone(event: str, at: float, *partitions: int) -> dict[str, object]:
    return {"event": event, "at": at, "partitions": {"t": list(partitions)}}


def test_an_ownership_begins_with_its_announcement_and_ends_as_the_member_was_told() -> None:
    reports = [
        assigned(1, "m-1", 0, 1, 2, 3),
        gone("revoking", 1.5, 0),
        gone("revoked", 2, 0),
        assigned(3, "m-1", 1, 2, 3),
        gone("lost", 4, 1),
        assigned(5, "m-2", 0, 2),
    ]
    found = {
        (one.partition[1], one.member_id, one.since, one.until, one.ending, one.told_at, one.number)
        for one in ownerships_of("m", reports, math.inf)
    }
    assert found == {
        (0, "m-1", 1, 2, Ending.REVOKED, 1.5, 1),
        (1, "m-1", 1, 4, Ending.LOST, math.inf, 1),
        (3, "m-1", 1, 5, Ending.SILENT, math.inf, 1),
        (2, "m-1", 1, math.inf, Ending.OPEN, math.inf, 1),
        (0, "m-2", 5, math.inf, Ending.OPEN, math.inf, 3),
    }


def test_ownerships_of_a_killed_process_end_as_died() -> None:
    (one,) = ownerships_of("m", [assigned(1, "m-1", 0)], 9.5)
    assert (one.until, one.ending) == (9.5, Ending.DIED)


def test_offsets_with_gaps_are_several_deliveries() -> None:
    report = {"event": "consumed", "at": 1.5, "topic": "t", "partition": 0, "offsets": [3, 4, 6, 7, 9]}
    assert list(deliveries_of("m", [report])) == [
        Delivery(1.5, "m", ("t", 0), 3, 4),
        Delivery(1.5, "m", ("t", 0), 6, 7),
        Delivery(1.5, "m", ("t", 0), 9, 9),
    ]
