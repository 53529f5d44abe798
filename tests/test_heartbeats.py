"""The time of the next heartbeat."""

from __future__ import annotations

import itertools

import pytest

from kafka_assignors.rebalance.session import HeartbeatPace


def waits(pace: HeartbeatPace, count: int) -> list[float]:
    found = []
    for _ in range(count):
        found.append(pace.wait_s(0.0))
        pace.waited()
    return found


def test_at_rest_heartbeats_come_at_their_interval() -> None:
    assert waits(HeartbeatPace(3.0, 300.0), 3) == [3.0, 3.0, 3.0]


def test_after_an_assignment_they_come_soon_and_then_ever_later() -> None:
    pace = HeartbeatPace(3.0, 300.0)
    pace.assigned()
    found = waits(pace, 9)
    assert found[0] < 0.1
    assert all(later == pytest.approx(min(2 * sooner, 3.0)) for sooner, later in itertools.pairwise(found))
    assert found[-1] == 3.0


def test_an_interval_that_is_shorter_anyway_stays() -> None:
    pace = HeartbeatPace(0.01, 300.0)
    pace.assigned()
    assert waits(pace, 2) == [0.01, 0.01]


def test_an_unanswered_heartbeat_is_repeated_after_the_backoff_and_at_the_interval_at_the_latest() -> None:
    pace = HeartbeatPace(3.0, 300.0)
    pace.failed(0.1)
    assert waits(pace, 2) == pytest.approx([0.1, 0.2])
    pace.failed(60.0)
    assert pace.wait_s(0.0) == 3.0


def test_the_end_of_the_poll_interval_is_seen() -> None:
    pace = HeartbeatPace(3.0, 10.0)
    assert pace.wait_s(6.0) == 3.0
    assert 1.0 < pace.wait_s(9.0) < 1.1
    assert pace.wait_s(10.5) == 3.0
