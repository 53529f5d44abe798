"""Groups of cooperative members, alone and with members of librdkafka, on a real broker.

Every client runs the same scenarios: a test module subclasses them and names its member programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from compat_tests.scenarios.eager import SHORT_SESSION_MS, by_size
from compat_tests.support.group_of_members import GroupOfMembers, Settled
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.group import pairs

LIBRDKAFKA = "compat_tests.support.librdkafka_member"
STRATEGY = "cooperative-sticky"

WARM_S = 0.5
"""How long a member that warms partitions takes for each."""

Partitions = set[tuple[str, int]]


class CooperativeGroup(GroupOfMembers):
    """A group whose members commit consumed offsets only on revocation."""

    def join(self, name: str, strategies: Sequence[str] = (STRATEGY,), **options: Any) -> None:
        self.start(name, strategies, **{"auto_commit": False, **options})

    def __enter__(self) -> CooperativeGroup:
        super().__enter__()
        return self

    def reported(self, name: str, event: str, *, since: int = 0) -> Partitions:
        """All partitions in a member's reports of this event, without its first `since` reports."""
        reports = self.members[name].reports(event)[since:]
        return {partition for report in reports for partition in pairs(report["partitions"])}

    def must_not_have_lost_anything(self) -> None:
        assert [name for name in self.members if self.reported(name, "lost")] == []

    def must_have_delivered_each_record_once(self, records_per_partition: int) -> None:
        consumed = self.wait_until_consumed(records_per_partition)
        assert {record for record, times in consumed.items() if times > 1} == set()


def owned(settled: Settled, name: str) -> Partitions:
    return {*pairs(settled.of(name))}


def assigned(group: CooperativeGroup, name: str) -> Partitions:
    reports = group.members[name].reports("assigned")
    return {*pairs(reports[-1]["partitions"])} if reports else set()


def shares(group: CooperativeGroup, *names: str) -> list[int]:
    return [len(assigned(group, name)) for name in names]


class CooperativeScenarios:
    program: ClassVar[str]

    def group(self, kafka: Kafka, **topics: int) -> CooperativeGroup:
        return CooperativeGroup(kafka, self.program, topics)


class CooperativeGroupScenarios(CooperativeScenarios):
    eager_program: ClassVar[str]

    def test_members_that_come_and_go_take_what_they_need_and_leave_the_rest_alone(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6, payments=6) as group:
            group.produce(20)
            group.join("a")
            group.join("b", auto_commit=True)
            two = group.settle()
            assert by_size(two) == [6, 6]
            revoked_before = {name: len(group.members[name].reports("revoked")) for name in ("a", "b")}

            group.join("c")
            three = group.settle(after=two)
            assert by_size(three) == [4, 4, 4]
            for name, since in revoked_before.items():
                assert owned(three, name) < owned(two, name)
                assert group.reported(name, "revoked", since=since) == owned(two, name) - owned(three, name)

            group.produce(20)
            group.stop("a")
            left = group.settle(after=three)
            for name in ("b", "c"):
                assert owned(three, name) < owned(left, name)
            assert group.reported("c", "revoked") == set()

            group.produce(20)
            group.must_have_delivered_each_record_once(60)
            group.must_not_have_lost_anything()

    def test_a_member_that_stood_still_for_too_long_has_lost_its_partitions_and_gets_a_share_again(
        self,
        kafka: Kafka,
    ) -> None:
        strategies = ["compat_tests.support.strategies_of_others:CooperativeOnly"]
        with self.group(kafka, orders=6) as group:
            group.join("a", strategies)
            group.join("b", strategies, session_timeout_ms=SHORT_SESSION_MS)
            before = group.settle()
            lost_before = len(group.members["b"].reports("lost"))
            group.freeze("b")
            without = group.settle("a", after=before)
            assert by_size(without) == [6]
            group.produce(20)
            group.wait_until_consumed(20)

            group.thaw("b")
            after = group.settle("a", "b", after=without)
            assert by_size(after) == [3, 3]
            assert group.reported("b", "lost", since=lost_before) == owned(before, "b")
            group.produce(20)
            group.must_have_delivered_each_record_once(40)

    def test_a_static_member_that_is_restarted_keeps_its_partitions_and_the_others_notice_nothing(
        self,
        kafka: Kafka,
    ) -> None:
        with self.group(kafka, orders=6) as group:
            group.join("a", instance_id="pod-0")
            group.join("b", instance_id="pod-1")
            before = group.settle()
            generations = len(group.members["a"].reports("assigned"))
            group.produce(10)
            group.wait_until_consumed(10)
            group.stop("b")
            group.join("b2", instance_id="pod-1")
            group.wait_for("b2 to have it all", lambda: group.reported("b2", "added") == owned(before, "b"))
            assert len(group.members["a"].reports("assigned")) == generations
            group.produce(10)
            group.must_have_delivered_each_record_once(20)

    def test_added_partitions_and_new_topics_of_a_pattern_find_a_consumer(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=2) as group:
            group.join("a", pattern=f".*-{group.run}")
            first = group.settle()
            group.add_partitions("orders", 4)
            more = group.settle(after=first)
            group.create_topic("payments", 2)
            all_of_them = group.settle(after=more)
            assert by_size(all_of_them) == [6]
            assert group.reported("a", "revoked") == set()

    def test_an_upgrade_in_two_rolling_restarts_delivers_each_record_once(self, kafka: Kafka) -> None:
        def roll(
            old: Sequence[str], new: Sequence[str], settled: Settled, strategies: Sequence[str]
        ) -> Settled:
            for before, after in zip(old, new, strict=True):
                group.produce(10)
                group.stop(before)
                group.join(after, strategies)
                settled = group.settle(after=settled)
            return settled

        with self.group(kafka, orders=6) as group:
            for name in ("a0", "b0"):
                group.start(name, ["range"], program=self.eager_program)
            settled = group.settle()
            # A member that skips the first restart is told how to change over.
            group.join("hasty")
            refused = group.wait_for_report("hasty", "failed", "INCONSISTENT_GROUP_PROTOCOL")["error"]
            assert "InconsistentGroupProtocolError" in refused
            assert "do not list the strategies of this one (cooperative-sticky)" in refused
            settled = roll(["a0", "b0"], ["a1", "b1"], settled, [STRATEGY, "range"])
            settled = roll(["a1", "b1"], ["a2", "b2"], settled, [STRATEGY])
            group.join("c2")
            settled = group.settle(after=settled)
            assert by_size(settled) == [2, 2, 2]
            group.produce(10)
            group.must_have_delivered_each_record_once(50)

    def test_a_group_shared_with_librdkafka_delivers_each_record_once(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=6) as group:
            group.produce(10)
            group.start("librdkafka", [STRATEGY], program=LIBRDKAFKA)
            group.wait_for("librdkafka to own it all", lambda: shares(group, "librdkafka") == [6])
            group.join("ours", warm_s=WARM_S)  # The leader knows no warm-up: what moves is cold.
            group.wait_for("both to have a share", lambda: shares(group, "librdkafka", "ours") == [3, 3])
            assert group.reported("ours", "warming") == set()
            group.produce(10)
            group.join("ours-too")
            three = group.settle("librdkafka", "ours", "ours-too")
            assert by_size(three) == [2, 2, 2]
            group.stop("librdkafka")  # Now "ours" leads.
            left = group.settle("ours", "ours-too", after=three)
            assert by_size(left) == [3, 3]
            group.start("librdkafka-again", [STRATEGY], program=LIBRDKAFKA)
            group.settle("ours", "ours-too", "librdkafka-again", after=left)
            group.produce(10)
            group.must_have_delivered_each_record_once(30)
