"""Groups of cooperative members, alone and with members of librdkafka and Java, on a real broker.

Every client runs the same scenarios: a test module subclasses them and names its member programs.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from compat_tests.scenarios.eager import SHORT_SESSION_MS, by_size
from compat_tests.support.group_of_members import JAVA_MEMBER, GroupOfMembers, Settled
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster

__all__ = [
    "CooperativeGroup",
    "CooperativeGroupScenarios",
    "LostCoordinatorScenarios",
    "Partitions",
    "RollingBrokersScenarios",
    "flat",
    "owned",
]

LIBRDKAFKA = "compat_tests.support.librdkafka_member"
STRATEGY = "cooperative-sticky"

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
        return {partition for report in reports for partition in flat(report["partitions"])}

    def must_not_have_lost_anything(self) -> None:
        assert [name for name in self.members if self.reported(name, "lost")] == []

    def must_have_delivered_each_record_once(self, records_per_partition: int) -> None:
        consumed = self.wait_until_consumed(records_per_partition)
        assert {record for record, times in consumed.items() if times > 1} == set()


def flat(by_topic: Mapping[str, Sequence[int]]) -> Partitions:
    return {(topic, number) for topic, numbers in by_topic.items() for number in numbers}


def owned(settled: Settled, name: str) -> Partitions:
    return flat(settled.of(name))


def assigned(group: CooperativeGroup, name: str) -> Partitions:
    reports = group.members[name].reports("assigned")
    return flat(reports[-1]["partitions"]) if reports else set()


def shares(group: CooperativeGroup, *names: str) -> list[int]:
    return [len(assigned(group, name)) for name in names]


class CooperativeGroupScenarios:
    program: ClassVar[str]
    eager_program: ClassVar[str]

    def group(self, kafka: Kafka, **topics: int) -> CooperativeGroup:
        return CooperativeGroup(kafka, self.program, topics)

    def test_members_that_come_and_go_take_what_they_need_and_leave_the_rest_alone(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6, payments=6) as group:
            group.produce(20)
            group.join("a")
            group.join("b")
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

    def test_a_strategy_that_knows_only_the_cooperative_protocol_keeps_what_stays(self, kafka: Kafka) -> None:
        strategies = ["compat_tests.support.strategies_of_others:CooperativeOnly"]
        with self.group(kafka, orders=6) as group:
            group.produce(20)
            group.join("a", strategies)
            group.join("b", strategies)
            two = group.settle()
            assert by_size(two) == [3, 3]
            revoked_before = {name: len(group.members[name].reports("revoked")) for name in ("a", "b")}
            group.join("c", strategies)
            three = group.settle(after=two)
            assert by_size(three) == [2, 2, 2]
            for name, since in revoked_before.items():
                assert owned(three, name) < owned(two, name)
                assert group.reported(name, "revoked", since=since) == owned(two, name) - owned(three, name)
            group.produce(20)
            group.must_have_delivered_each_record_once(40)
            group.must_not_have_lost_anything()

    def test_a_member_that_died_costs_the_others_nothing(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=6) as group:
            group.join("a")
            group.join("b", session_timeout_ms=SHORT_SESSION_MS)
            group.join("c")
            before = group.settle()
            group.kill("b")
            after = group.settle(after=before)
            assert by_size(after) == [3, 3]
            for name in ("a", "c"):
                assert owned(before, name) < owned(after, name)
            group.produce(20)
            group.wait_until_consumed(20)
            assert group.reported("a", "lost") | group.reported("c", "lost") == set()

    def test_a_member_that_stood_still_for_too_long_has_lost_its_partitions_and_gets_a_share_again(
        self,
        kafka: Kafka,
    ) -> None:
        with self.group(kafka, orders=6) as group:
            group.join("a")
            group.join("b", session_timeout_ms=SHORT_SESSION_MS)
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

    def test_a_rolling_restart_delivers_each_record_once(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=6) as group:
            for name in ("a", "b", "c"):
                group.join(name)
            settled = group.settle()
            for round, name in enumerate(("a", "b", "c")):
                group.produce(10)
                group.stop(name)
                group.join(f"{name}{round}")
                settled = group.settle(after=settled)
                assert by_size(settled) == [2, 2, 2]
            group.produce(10)
            group.must_have_delivered_each_record_once(40)
            group.must_not_have_lost_anything()

    def test_automatic_commits_deliver_each_record_once(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=6) as group:
            group.join("a", auto_commit=True)
            group.join("b", auto_commit=True)
            two = group.settle()
            group.produce(20)
            group.join("c", auto_commit=True)
            three = group.settle(after=two)
            group.produce(20)
            group.stop("a")
            group.settle(after=three)
            group.produce(20)
            group.must_have_delivered_each_record_once(60)

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

    def test_a_member_whose_instance_id_another_process_took_ends_with_an_error_that_says_so(
        self,
        kafka: Kafka,
    ) -> None:
        with self.group(kafka, orders=6) as group:
            group.join("a", instance_id="pod-0")
            group.settle()
            group.join("thief", instance_id="pod-0")
            failed = group.wait_for_report("a", "failed", "group.instance.id")
            assert "FencedInstanceIdError" in failed["error"]
            group.settle("thief")

    def test_a_member_that_is_busy_for_too_long_leaves_and_comes_back_when_it_polls(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6) as group:
            group.join("a")
            group.join("b", max_poll_interval_ms=2000)
            before = group.settle()
            group.tell("b", busy=True)
            without = group.settle("a", after=before)
            assert by_size(without) == [6]
            assert group.reported("b", "lost") == set()
            group.tell("b", busy=False)
            after = group.settle("a", "b", after=without)
            assert by_size(after) == [3, 3]
            assert group.reported("b", "lost") == owned(before, "b")

    def test_topics_can_be_subscribed_to_and_left_while_the_others_are_consumed(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=4, payments=4) as group:
            group.join("a", topics=["orders"])
            group.wait_for("a to own orders", lambda: len(group.reported("a", "added")) == 4)
            group.subscribe("a", ["orders", "payments"])
            both = group.settle()
            assert by_size(both) == [8]
            assert group.reported("a", "revoked") == set()

            group.subscribe("a", ["payments"])
            gone = {(group.topic("orders"), number) for number in range(4)}
            group.wait_for("a to have given orders up", lambda: group.reported("a", "revoked") == gone)
            group.must_not_have_lost_anything()

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

    def test_a_list_that_is_eager_altogether_shares_a_group_with_the_clients_own_range(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6) as group:
            group.produce(10)
            group.join("a", ["range"])
            settled = group.settle()
            assert by_size(settled) == [6]
            for name, sizes in (("stock", [3, 3]), ("c", [2, 2, 2])):
                before, since = owned(settled, "a"), len(group.members["a"].reports("revoked"))
                if name == "stock":
                    group.start(name, ["stock:range"], program=self.eager_program)
                else:
                    group.join(name, ["range"])
                settled = group.settle(after=settled)
                assert by_size(settled) == sizes
                assert group.reported("a", "revoked", since=since) == before
                group.produce(10)
            group.stop("a")
            assert by_size(group.settle(after=settled)) == [3, 3]
            group.must_have_delivered_each_record_once(30)
            group.must_not_have_lost_anything()

    def test_a_group_changes_over_to_capacity_and_loads_are_in_proportion(self, kafka: Kafka) -> None:
        capacities = {"a": 1, "b": 1, "c": 2}
        with self.group(kafka, orders=12) as group:
            for name in capacities:
                group.join(f"old-{name}")
            settled = group.settle()
            assert by_size(settled) == [4, 4, 4]
            for name, capacity in capacities.items():
                group.produce(20)
                group.stop(f"old-{name}")
                group.join(name, [f"capacity:{capacity}", STRATEGY])
                settled = group.settle(after=settled)
            group.wait_for("loads in proportion", lambda: shares(group, *capacities) == [3, 3, 6])
            group.produce(20)
            group.must_have_delivered_each_record_once(80)

            before = group.settle()
            group.join("eager", ["capacity:2"], program=self.eager_program)
            after = group.settle(after=before)
            assert [after.count(name) for name in (*capacities, "eager")] == [2, 2, 4, 4]
            for name in capacities:
                assert owned(after, name) < owned(before, name)
            group.must_not_have_lost_anything()

    @pytest.mark.parametrize("leader", ["ours", "librdkafka"])
    def test_a_group_shared_with_librdkafka_delivers_each_record_once(
        self, kafka: Kafka, leader: str
    ) -> None:
        def join(name: str) -> None:
            if name.startswith("librdkafka"):
                group.start(name, [STRATEGY], program=LIBRDKAFKA)
            else:
                group.join(name)

        first, second = ("ours", "librdkafka") if leader == "ours" else ("librdkafka", "ours")
        with self.group(kafka, orders=6) as group:
            group.produce(10)
            join(first)
            group.wait_for(f"{first} to own it all", lambda: len(assigned(group, first)) == 6)
            join(second)
            group.wait_for("both to have a share", lambda: shares(group, first, second) == [3, 3])
            group.produce(10)
            join("ours-too")
            three = group.settle(first, second, "ours-too")
            assert by_size(three) == [2, 2, 2]
            group.stop(first)
            left = group.settle(second, "ours-too", after=three)
            assert by_size(left) == [3, 3]
            group.produce(10)
            group.must_have_delivered_each_record_once(30)

    def test_a_group_shared_with_java_has_every_partition_consumed_under_any_leader(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6) as group:
            group.join("leader")
            alone = group.settle()
            group.start("java", [STRATEGY], program=JAVA_MEMBER)
            two = group.settle(after=alone)
            group.join("follower")
            three = group.settle(after=two)
            # The oldest remaining member leads next.
            group.stop("leader")
            java_leads = group.settle(after=three)
            group.stop("follower")
            java_alone = group.settle(after=java_leads)
            group.join("late")
            group.settle(after=java_alone)
            group.join("later")
            shared = group.settle("java", "late", "later", after=java_alone)
            for settled in (two, three, java_leads, java_alone, shared):
                assert len(set(by_size(settled))) == 1
            group.must_not_have_lost_anything()


class LostCoordinatorScenarios:
    program: ClassVar[str]

    def test_when_the_coordinator_dies_the_group_goes_on_with_another_and_no_member_loses_a_partition(
        self,
        kafka3: KafkaCluster,
    ) -> None:
        with CooperativeGroup(kafka3, self.program, {"orders": 6}, replication_factor=3) as group:
            # The sessions outlast the detection of the dead broker and the election of the next coordinator.
            for name in ("a", "b"):
                group.join(name)
            before = group.settle()
            group.produce(10)
            group.wait_until_consumed(10)
            dead = coordinator_of(kafka3, group.id)
            kafka3.kill(dead)
            try:
                group.produce(10)
                group.wait_until_consumed(20)
                group.join("c")
                after = group.settle(after=before)
                assert by_size(after) == [2, 2, 2]
                for name in ("a", "b"):
                    assert owned(after, name) < owned(before, name)
                group.produce(10)
                group.must_have_delivered_each_record_once(30)
                group.must_not_have_lost_anything()
            finally:
                kafka3.start(dead)


class RollingBrokersScenarios:
    program: ClassVar[str]

    def test_brokers_restarted_in_turn_under_load_cost_no_record_and_double_none(
        self, kafka3: KafkaCluster
    ) -> None:
        with CooperativeGroup(kafka3, self.program, {"orders": 6}, replication_factor=3) as group:
            group.join("a", auto_commit=True)
            group.join("b")
            group.settle()
            with SteadyWriter(group):
                for broker in sorted(kafka3.pids):
                    kafka3.restart(broker)
            wait_until_the_logs_are_consumed(group)
            group.must_not_have_lost_anything()
            # The new member continues at the committed offsets of the others.
            group.join("c")
            group.stop("a", "b")
            group.settle("c")
            last = SteadyWriter(group)
            with last:
                group.wait_for("more records", lambda: last.acknowledged > 6)
            wait_until_the_logs_are_consumed(group)
            consumed = group.consumed()
            assert max(consumed.values()) == 1
            # A record that the producer retries while brokers restart may be in the log twice. None is lost.
            for partition in range(6):
                offsets = sorted(offset for _, number, offset in consumed if number == partition)
                assert offsets == list(range(len(offsets)))


class SteadyWriter:
    """Writes to all partitions of a group's topics from entering the context to leaving it.

    Attributes:
        acknowledged: how many records the brokers have acknowledged.
    """

    def __init__(self, group: CooperativeGroup) -> None:
        from confluent_kafka import Producer

        self._group = group
        self._producer: Any = Producer(
            {"bootstrap.servers": group.kafka.bootstrap, "linger.ms": 5, "enable.idempotence": True}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged = 0

    def __enter__(self) -> SteadyWriter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(HANG_S) == 0

    def _write(self) -> None:
        while not self._stopping.wait(0.05):
            for topic, partitions in self._group.topics.items():
                for partition in range(partitions):
                    self._producer.produce(topic, b"a record", partition=partition, on_delivery=self._done)
            self._producer.poll(0)

    def _done(self, error: object, _: Any) -> None:
        assert error is None, error
        self.acknowledged += 1


def wait_until_the_logs_are_consumed(group: CooperativeGroup) -> None:
    """Wait until every offset that is in the group's topics at the call was delivered."""
    admin = AdminClient({"bootstrap.servers": group.kafka.bootstrap})
    latest = {
        TopicPartition(topic, partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
        for topic, partitions in group.topics.items()
        for partition in range(partitions)
    }
    written = {
        (asked.topic, asked.partition, offset)
        for asked, end in admin.list_offsets(latest, request_timeout=HANG_S).items()
        for offset in range(end.result().offset)
    }
    assert written
    group.wait_for("all records to be consumed", lambda: written <= group.consumed().keys())


def coordinator_of(kafka3: KafkaCluster, group_id: str) -> int:
    admin = AdminClient({"bootstrap.servers": kafka3.bootstrap})
    try:
        described = admin.describe_consumer_groups([group_id])[group_id].result(HANG_S)
    except KafkaException as error:
        raise AssertionError(f"no coordinator of {group_id}: {error}") from error
    return int(described.coordinator.id)
