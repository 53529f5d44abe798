"""The racks that a leader remembers, and the strategies for which it follows them."""

from __future__ import annotations

import pytest

from kafka_assignors.assignor import Assignor
from kafka_assignors.messages import RackWatch
from kafka_assignors.strategies import CooperativeSticky, RackAwareSticky, Range, RoundRobin, Sticky, Strategy


def test_a_restarting_broker_keeps_its_last_known_rack() -> None:
    watch = RackWatch()
    assert watch.see([(1, "a"), (2, "b")]) == {1: "a", 2: "b"}
    assert watch.see([(1, "a")]) == {1: "a", 2: "b"}


def test_a_running_broker_is_in_the_rack_of_the_latest_metadata() -> None:
    watch = RackWatch()
    watch.see([(1, "a"), (2, "b"), (3, "c")])
    assert watch.see([(1, None), (2, "c"), (3, "c")]) == {2: "c", 3: "c"}


def test_racks_returned_earlier_do_not_change_later() -> None:
    # A strategy may still read the earlier racks in another thread.
    watch = RackWatch()
    first = watch.see([(1, "a")])
    watch.see([(1, "b")])
    assert first == {1: "a"}


@pytest.mark.parametrize("strategy", [RackAwareSticky(), Range()], ids=lambda s: s.name)
def test_a_rack_aware_strategy_follows_replicas_if_a_member_has_a_rack(strategy: Strategy) -> None:
    assert Assignor(strategy).must_follow_racks([None, "a"])
    assert not Assignor(strategy).must_follow_racks([None, None])


@pytest.mark.parametrize("strategy", [RoundRobin(), Sticky(), CooperativeSticky()], ids=lambda s: s.name)
def test_a_strategy_without_racks_does_not_follow_replicas(strategy: Strategy) -> None:
    assert not Assignor(strategy).must_follow_racks(["a", "b"])
