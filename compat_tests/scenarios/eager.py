"""Groups whose members run our strategies in their client's stock, eager consumer.

Every client runs the same scenarios: a test module subclasses `EagerScenarios` and names its member program.
"""

from __future__ import annotations

import struct
from typing import ClassVar

import pytest

from compat_tests.support.group_of_members import GroupOfMembers, Settled
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.strategies import load_strategy

__all__ = ["EagerScenarios", "SlowRevocationScenarios", "StaticMemberScenarios"]

OTHERS = "compat_tests.support.strategies_of_others"
LIBRDKAFKA = "compat_tests.support.librdkafka_member"

REMEMBERING = ("sticky", "cooperative-sticky")
FORGETTING = ("range", "roundrobin", f"{OTHERS}:Reversed")

SLOW_S = 2.0
"""How long a slow member takes to give partitions up: long beside the way of a SyncGroup response."""

SHORT_SESSION_MS = 4000
"""The session timeout of a member whose session ends in a test."""


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def string(value: bytes) -> bytes:
    return int16(len(value)) + value


def by_size(settled: Settled) -> list[int]:
    return sorted(settled.assignment.load(member_id) for member_id in settled.assignment.members)


def kept(before: Settled, after: Settled) -> dict[str, int]:
    """The number of partitions that each process of `after` has kept since `before`, by name."""

    def partitions(settled: Settled, name: str) -> set[tuple[str, int]]:
        return {(topic, number) for topic, numbers in settled.of(name).items() for number in numbers}

    return {
        name: len(partitions(before, name) & partitions(after, name))
        for name in after.names
        if name in before.names
    }


class EagerScenarios:
    program: ClassVar[str]

    def group(self, kafka: Kafka, **topics: int) -> GroupOfMembers:
        return GroupOfMembers(kafka, self.program, topics)

    # ---- what is assigned, and what is consumed

    @pytest.mark.parametrize("name", FORGETTING)
    def test_members_get_what_the_core_says_and_each_record_reaches_them_once(
        self, kafka: Kafka, name: str
    ) -> None:
        strategy = load_strategy(name)
        with self.group(kafka, orders=7, payments=3) as group:
            group.produce(20)
            for member in ("a", "b", "c"):
                group.start(member, [name])
            formed = group.settle()
            assert formed.assignment == group.expected(strategy, formed)

            group.start("d", [name])
            joined = group.settle(after=formed)
            assert joined.assignment == group.expected(strategy, joined)

            group.stop("a")
            left = group.settle(after=joined)
            assert left.assignment == group.expected(strategy, left)

            group.produce(20)
            consumed = group.wait_until_consumed(40)
            assert {record for record, times in consumed.items() if times > 1} == set()

    @pytest.mark.parametrize("name", REMEMBERING)
    def test_members_keep_what_balance_allows_and_each_record_reaches_them_once(
        self, kafka: Kafka, name: str
    ) -> None:
        strategy = load_strategy(name)
        with self.group(kafka, orders=7, payments=3) as group:
            group.produce(20)
            for member in ("a", "b", "c"):
                group.start(member, [name])
            formed = group.settle()
            assert by_size(formed) == [3, 3, 4]

            group.start("d", [name])
            joined = group.settle(after=formed)
            assert by_size(joined) == [2, 2, 3, 3]
            assert sum(kept(formed, joined).values()) == 10 - joined.count("d")
            assert joined.assignment == group.expected(strategy, joined, before=formed)

            group.stop("b")
            left = group.settle(after=joined)
            assert by_size(left) == [3, 3, 4]
            assert kept(joined, left) == {member: joined.count(member) for member in ("a", "c", "d")}
            assert left.assignment == group.expected(strategy, left, before=joined)

            group.produce(20)
            consumed = group.wait_until_consumed(40)
            assert {record for record, times in consumed.items() if times > 1} == set()

    def test_members_with_different_topics_get_their_own(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=4, payments=4) as group:
            group.start("a", ["sticky"], topics=["orders"])
            group.start("b", ["sticky"], topics=["payments"])
            group.start("c", ["sticky"])
            settled = group.settle()
            assert by_size(settled) == [2, 3, 3]
            assert settled.of("a").keys() == {group.topic("orders")}
            assert settled.of("b").keys() == {group.topic("payments")}

    def test_partitions_that_are_added_find_an_owner_even_where_the_leader_does_not_read_the_topic(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=4, payments=2) as group:
            group.start("leader", ["sticky"], topics=["orders"])
            group.wait_for("the leader", lambda: group.members["leader"].reports("assigned"))
            group.start("b", ["sticky"], topics=["payments"])
            before = group.settle()
            group.add_partitions("payments", 5)
            after = group.settle(after=before)
            assert after.of("b") == {group.topic("payments"): [0, 1, 2, 3, 4]}

    def test_members_that_subscribe_by_pattern_share_topics_that_appear_later(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=4) as group:
            pattern = f"^.*{group.topic('orders').removeprefix('orders')}$"
            for member in ("a", "b"):
                group.start(member, ["roundrobin"], pattern=pattern)
            before = group.settle()
            group.create_topic("payments", 4)
            after = group.settle(after=before)
            assert by_size(after) == [4, 4]

    # ---- members that fail

    def test_when_the_leader_is_killed_the_others_keep_theirs_and_share_its_partitions(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=9) as group:
            group.produce(20)
            group.start("leader", ["sticky"], session_timeout_ms=SHORT_SESSION_MS)
            group.settle()
            for member in ("b", "c"):
                group.start(member, ["sticky"])
                group.settle()
            before = group.settle()

            group.kill("leader")
            after = group.settle("b", "c", after=before)
            assert by_size(after) == [4, 5]
            assert kept(before, after) == {"b": 3, "c": 3}
            group.produce(20)
            group.wait_until_consumed(40)

    def test_claim_from_before_a_lost_session_yields_to_the_new_owner(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=8) as group:
            group.start("leader", ["sticky"])
            group.settle()
            group.start("sleeper", ["sticky"], session_timeout_ms=SHORT_SESSION_MS)
            asleep = group.settle()
            group.freeze("sleeper")
            alone = group.settle("leader", after=asleep)
            assert alone.count("leader") == 8

            group.thaw("sleeper")
            again = group.settle("leader", "sleeper", after=alone)
            assert by_size(again) == [4, 4]
            # The claim carries the generation in which the sleeper owned the partitions, so it loses.
            group.wait_for_report("leader", "logged", "claims them in a later generation")

    def test_a_member_with_impossible_claims_is_named_and_harms_no_other_member(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=6) as group:
            group.start("leader", ["sticky"])
            group.settle()
            group.start("b", ["sticky"])
            before = group.settle()
            orders = group.topic("orders").encode()
            claim = int32(1) + string(orders) + int32(2) + int32(-5) + int32(10**9) + int32(1)
            liar = int16(0) + int32(1) + string(orders) + int32(len(claim)) + claim
            group.start("liar", [f"garbage:sticky:{liar.hex()}"])
            report = group.wait_for_report("leader", "logged", "member 'liar-")
            assert "2 partitions" in report["message"]

            settled = group.settle("leader", "b", "liar", after=before)
            assert {name: settled.count(name) for name in settled.names} == {"leader": 2, "b": 2, "liar": 2}

    # ---- what the leader learns of the members

    def test_racks_of_members_and_replicas_reach_the_strategy(self, kafka: Kafka) -> None:
        rack = next(iter(kafka.racks().values()))
        with self.group(kafka, orders=4) as group:
            for member, at in (("a", "elsewhere"), ("b", rack), ("c", None)):
                group.start(member, [f"{OTHERS}:NearestRack"], rack=at)
            assert group.settle().count("b") == 4

    def test_leader_reads_the_member_data_of_the_strategy(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=4) as group:
            for member in ("pod-0", "pod-1"):
                group.start(member, [f"{OTHERS}:ToldByInstance"], instance_id=member)
            settled = group.settle()
            assert settled.count("pod-1") == 4

    # ---- several strategies, several kinds of members

    def test_of_two_configured_strategies_the_group_runs_the_one_all_have(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=6, payments=3) as group:
            # Two such members of stock aiokafka can go on interrupting each other: each joins several times.
            group.start("a", ["sticky", "range"])
            alone = group.settle()
            group.start("b", ["stock:range"])
            both = group.settle(after=alone)
            assert both.assignment == group.expected(load_strategy("range"), both)

    @pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
    def test_stock_members_of_the_same_name_lead_and_follow(self, kafka: Kafka, name: str) -> None:
        strategy = load_strategy(name)
        with self.group(kafka, orders=7, payments=3) as group:
            group.start("stock", [f"stock:{name}"])
            group.settle()
            group.start("ours", [name])
            under_stock = group.settle()
            assert by_size(under_stock) == ([4, 6] if name == "range" else [5, 5])

            group.stop("stock")
            alone = group.settle(after=under_stock)
            group.start("stock again", [f"stock:{name}"])
            under_ours = group.settle(after=alone)
            before = alone if name in REMEMBERING else None
            assert under_ours.assignment == group.expected(strategy, under_ours, before)

    # ---- mistakes

    def test_an_answer_that_leaves_partitions_out_never_leaves_the_leader_and_is_explained(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=4) as group:
            group.start("a", [f"{OTHERS}:Forgetful"])
            error = group.wait_for("a to fail", lambda: group.members["a"].reports("failed"))[0]["error"]
            assert "test-forgetful" in error
            assert f"left 1 of the 4 partitions of '{group.topic('orders')}' without an owner" in error


class SlowRevocationScenarios:
    """A stock consumer leads a cooperative member that takes its time to give partitions up."""

    program: ClassVar[str]

    @pytest.mark.parametrize("leader", ["cooperative-sticky", "naive:cooperative-sticky"])
    def test_what_a_slow_cooperative_member_holds_has_two_owners_only_if_the_leader_does_not_see_it(
        self, kafka: Kafka, leader: str
    ) -> None:
        with GroupOfMembers(kafka, self.program, {"orders": 9}) as group:
            group.start("leader", [leader])
            alone = group.settle()
            group.start("slow", ["cooperative-sticky"], program=LIBRDKAFKA, revoke_s=SLOW_S)
            pair = group.settle(after=alone)
            assert by_size(pair) == [4, 5]
            # The leader keeps three partitions, and there are at most two that the slow member does not hold.
            group.start("c", ["cooperative-sticky"])
            # librdkafka does not report its generation, so another rebalance may follow.
            group.wait_for(
                "three partitions for each", lambda: by_size(group.settle(after=pair)) == [3, 3, 3]
            )
            three = group.settle(after=pair)
            group.stop("c")
            group.settle(after=three)
            assert bool(group.owned_twice()) == leader.startswith("naive")


class StaticMemberScenarios:
    """For clients that know static members (KIP-345)."""

    program: ClassVar[str]

    def group(self, kafka: Kafka, **topics: int) -> GroupOfMembers:
        return GroupOfMembers(kafka, self.program, topics)

    def test_a_static_member_is_known_by_its_instance_and_gets_its_partitions_back(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6) as group:
            for member in ("pod-0", "pod-1", "pod-2"):
                group.start(member, ["sticky"], instance_id=member)
                group.settle()
            before = group.settle()
            group.stop("pod-1")
            group.start("pod-1", ["sticky"], instance_id="pod-1")
            group.wait_for("pod-1 to come back", lambda: group.members["pod-1"].reports("assigned"))
            after = group.settle()
            assert after.names["pod-1"] != before.names["pod-1"]
            assert after.generation == before.generation
            assert kept(before, after) == {"pod-0": 2, "pod-1": 2, "pod-2": 2}
