"""Groups that change while they run: slow members, restarts, changing subscriptions and topics.

Every client runs the same scenarios: a test module subclasses them and names its member program.
"""

from __future__ import annotations

from typing import Any, ClassVar

from compat_tests.scenarios.eager import SHORT_SESSION_MS, by_size, kept
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.kafka_cluster import Kafka

__all__ = ["DeletedTopicScenarios", "LifecycleScenarios", "LostWithTopicScenarios"]

POLL_INTERVAL_MS = 3000


class DeletedTopicScenarios:
    program: ClassVar[str]
    strategy: ClassVar[str] = "sticky"
    auto_commit_outlives_topics: ClassVar[bool] = True
    """Whether a member with automatic commits can go on when one of its topics is deleted."""

    def group(self, kafka: Kafka, **topics: int) -> GroupOfMembers:
        return GroupOfMembers(kafka, self.program, topics)

    def test_when_a_topic_is_deleted_the_group_goes_on_with_the_others(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=4, payments=4) as group:
            for name in ("a", "b"):
                group.start(name, [self.strategy], auto_commit=self.auto_commit_outlives_topics)
            before = group.settle()
            group.delete_topic("payments")
            group.produce(10)
            group.wait_until_consumed(10)

            # The next member to join finds a group that shares the remaining partitions.
            group.start("c", [self.strategy], topics=["orders"])
            after = group.settle(after=before)
            assert by_size(after) == [1, 1, 2]


class LifecycleScenarios(DeletedTopicScenarios):
    def test_a_member_that_does_not_poll_leaves_though_it_is_alive_and_comes_back_with_its_next_poll(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6) as group:
            group.start("busy", [self.strategy], max_poll_interval_ms=POLL_INTERVAL_MS)
            group.settle()
            group.start("b", [self.strategy])
            before = group.settle()

            group.tell("busy", busy=True)
            # The session does not expire: heartbeats go on until the client leaves the group.
            alone = group.settle("b", after=before)
            group.produce(10)
            group.wait_until_consumed(10)
            assert group.members["busy"].running

            group.tell("busy", busy=False)
            again = group.settle(after=alone)
            assert by_size(again) == [3, 3]
            assert kept(alone, again)["b"] == 3
            group.produce(10)
            consumed = group.wait_until_consumed(20)
            assert {record for record, times in consumed.items() if times > 1} == set()

    def test_a_rolling_restart_loses_no_record_and_delivers_none_twice(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=6) as group:
            names = ("a", "b", "c")
            for name in names:
                group.start(name, [self.strategy])
            settled = group.settle()
            for rounds, name in enumerate(names, start=1):
                group.produce(10)
                group.stop(name)
                # The new name keeps the records of both processes in the count.
                group.start(f"{name}2", [self.strategy])
                settled = group.settle(after=settled)
                assert by_size(settled) == [2, 2, 2]
                group.wait_until_consumed(10 * rounds)
            consumed = group.wait_until_consumed(10 * len(names))
            assert {record for record, times in consumed.items() if times > 1} == set()

    def test_a_member_that_changes_its_subscription_gets_its_new_topics_and_gives_up_the_old(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=4, payments=4) as group:
            for name in ("a", "b"):
                group.start(name, [self.strategy])
            both = group.settle()
            assert by_size(both) == [4, 4]

            group.subscribe("a", ["orders"])
            narrower = group.settle(after=both)
            assert narrower.of("a") == {group.topic("orders"): [0, 1, 2, 3]}
            assert narrower.of("b") == {group.topic("payments"): [0, 1, 2, 3]}

            group.subscribe("a", ["orders", "payments"])
            group.subscribe("b", ["payments"])
            group.produce(10)
            swapped = group.settle(after=narrower)
            assert kept(narrower, swapped) == {"a": 4, "b": 4}
            group.wait_until_consumed(10)


class LostWithTopicScenarios:
    """For clients that retry a commit until it succeeds before they join again."""

    program: ClassVar[str]
    strategy: ClassVar[str] = "sticky"

    def test_a_member_that_commits_automatically_is_lost_with_a_topic_that_it_read_and_the_others_take_over(
        self, kafka: Kafka
    ) -> None:
        with GroupOfMembers(kafka, self.program, {"orders": 4, "payments": 4}) as group:
            # The broker waits for the member to rejoin, for the longest rebalance timeout in the group.
            short: dict[str, Any] = {
                "session_timeout_ms": SHORT_SESSION_MS,
                "rebalance_timeout_ms": SHORT_SESSION_MS,
            }
            group.start("a", [self.strategy], **short)
            before = group.settle()
            group.produce(1)
            group.wait_until_consumed(1)
            group.delete_topic("payments")
            group.start("b", [self.strategy], topics=["orders"], **short)
            after = group.settle("b", after=before)
            assert after.count("b") == 4
            # The member is alive and does not report that it left the group; only a restart brings it back.
            assert group.members["a"].running
            group.kill("a")
            group.start("a", [self.strategy])
            assert by_size(group.settle(after=after)) == [2, 2]
