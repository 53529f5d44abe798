"""Cooperative consumers of either client in the middle of a join, which a slow strategy prolongs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from compat_tests.hostile.raw_member import RawMember
from compat_tests.scenarios.in_process import InProcess, joining, polling_until, share
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import StuckWithThree
from kafka_assignors.wire import Subscription, encode_subscription

__all__ = ["JoinScenarios"]


def newcomer(group: GroupOfMembers, name: str) -> RawMember:
    """A member that accepts every assignment, and claims no partition when it joins again."""
    return RawMember(
        group.kafka.bootstrap,
        group.id,
        metadata=encode_subscription(Subscription(3, (group.topic("orders"),))),
        client_id=name,
        protocol="cooperative-sticky",
        session_timeout_ms=int(HANG_S * 1000),
        rebalance_timeout_ms=int(HANG_S * 1000),
    )


class JoinScenarios(InProcess):
    @contextmanager
    def waiting(
        self,
        group: GroupOfMembers,
        strategy: StuckWithThree,
        *,
        of_follower: Mapping[str, int] | None = None,
        **listeners: Any,
    ) -> Iterator[dict[str, Any]]:
        """A leader and a follower with half of the partitions each, when a third member has joined.

        The strategy of the leader blocks until it is released, and the follower waits for its assignment.
        `of_follower` are settings of the follower, and `listeners` may be of both.
        """
        ours: Any = self.plugin
        strategies = [ours.assignor(strategy, shared_name=True)]
        patient = {"session_timeout_ms": int(HANG_S * 1000), **self.rebalance_timeout}
        of_leader = {"partition_assignment_strategy": strategies, **patient}
        of_follower = {**patient, **(of_follower or {})}
        with self.consuming(group, listeners.get("leader"), **of_leader) as leader:
            share(group, leader)  # The first member leads.
            with self.consuming(group, listeners.get("follower"), **of_follower) as follower:
                share(group, leader, follower)
                try:
                    with newcomer(group, "third"):
                        polling_until(
                            lambda: strategy.stuck.is_set() and follower.member.phase.name == "SYNCING",
                            follower,
                        )
                        yield {"leader": leader, "follower": follower}
                        strategy.released.set()
                finally:
                    strategy.released.set()

    def test_a_rebalance_that_begins_before_the_sync_group_response_loses_no_partition(
        self, kafka: Kafka
    ) -> None:
        strategy, listeners = StuckWithThree(), {name: self.listener() for name in ("leader", "follower")}
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            self.waiting(group, strategy, **listeners) as both,
        ):
            before = {name: set(consumer.assignment()) for name, consumer in both.items()}
            for listener in listeners.values():
                listener.calls.clear()
            # The follower's SyncGroup response is REBALANCE_IN_PROGRESS, and the leader's will be too.
            with newcomer(group, "fourth"):
                polling_until(lambda: joining(both["follower"]), both["follower"])
                strategy.released.set()
                polling_until(
                    lambda: all(len(one.assignment()) == 1 for one in both.values()), *both.values()
                )
                for name, listener in listeners.items():
                    owned = both[name].assignment()
                    assert owned < before[name]
                    assert listener.told("revoked") == [before[name] - owned]
                    assert listener.told("lost") == []

    def test_a_follower_waits_for_its_assignment_for_longer_than_its_request_timeout(
        self, kafka: Kafka
    ) -> None:
        strategy, impatient = StuckWithThree(), {"request_timeout_ms": 2000, "fetch_max_wait_ms": 500}
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            self.waiting(group, strategy, of_follower=impatient) as both,
        ):
            follower, begin = both["follower"], time.monotonic()
            polling_until(lambda: time.monotonic() > begin + 4, follower)
            assert follower.member.phase.name == "SYNCING"
            strategy.released.set()
            polling_until(lambda: follower.member.phase.name == "IDLE", follower)

    @pytest.mark.parametrize("role", ["leader", "follower"])
    def test_a_consumer_that_is_closed_during_a_join_can_still_commit(self, kafka: Kafka, role: str) -> None:
        def commit(revoked: set[Any]) -> None:
            if strategy.stuck.is_set():  # A leader has revoked before, when the follower joined.
                threading.Timer(0.5, strategy.released.set).start()
                both[role].commit(dict.fromkeys(revoked, 7))

        strategy, listener = StuckWithThree(), self.listener(revoked=commit)
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            self.waiting(group, strategy, **{role: listener}) as both,
        ):
            mine = both[role].assignment()
            both[role].close()
            assert listener.calls[-1] == ("revoked", mine)
            assert listener.told("lost") == []
            (other,) = (consumer for name, consumer in both.items() if name != role)
            assert [other.committed(tp) for tp in mine] == [7, 7]

    def test_a_consumer_that_unsubscribes_while_it_waits_for_its_assignment_can_join_again(
        self, kafka: Kafka
    ) -> None:
        # The broker never answers the SyncGroup of a member that has left.
        strategy, listener = StuckWithThree(), self.listener()
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            self.waiting(group, strategy, follower=listener) as both,
        ):
            follower = both["follower"]
            mine = follower.assignment()
            follower.unsubscribe()
            polling_until(lambda: listener.calls[-1] == ("revoked", mine), follower)
            follower.subscribe(list(group.topics), listener=listener)
            strategy.released.set()
            polling_until(
                lambda: follower.assignment() and follower.member.phase.name == "IDLE", *both.values()
            )
            assert follower.assignment() < self.of(group, 0, 1, 2, 3)
