"""What a leader remembers of racks, and when it has to follow them."""

from __future__ import annotations

import pytest

from kafka_assignors.racks import RackWatch, must_follow_racks
from kafka_assignors.strategies import (
    CooperativeSticky,
    RackAwareSticky,
    Range,
    RoundRobin,
    Sticky,
    Strategy,
)


def test_a_broker_that_restarts_keeps_the_rack_it_had() -> None:
    watch = RackWatch()
    assert watch.see([(1, "a"), (2, "b")]) == {1: "a", 2: "b"}
    assert watch.see([(1, "a")]) == {1: "a", 2: "b"}


def test_a_broker_that_runs_is_in_the_rack_it_says() -> None:
    watch = RackWatch()
    watch.see([(1, "a"), (2, "b"), (3, "c")])
    assert watch.see([(1, None), (2, "c"), (3, "c")]) == {2: "c", 3: "c"}


def test_what_was_seen_earlier_does_not_change_afterwards() -> None:
    # A strategy may still be reading it, in another thread.
    watch = RackWatch()
    first = watch.see([(1, "a")])
    watch.see([(1, "b")])
    assert first == {1: "a"}


@pytest.mark.parametrize("strategy", [RackAwareSticky(), Range()], ids=lambda s: s.name)
def test_these_strategies_follow_replicas_where_a_member_has_a_rack(strategy: Strategy) -> None:
    assert must_follow_racks(strategy, [None, "a"])
    assert not must_follow_racks(strategy, [None, None])


@pytest.mark.parametrize("strategy", [RoundRobin(), Sticky(), CooperativeSticky()], ids=lambda s: s.name)
def test_these_move_nothing_because_a_replica_has_moved(strategy: Strategy) -> None:
    assert not must_follow_racks(strategy, ["a", "b"])
