"""What a leader knows when it assigns, and groups that KIP-848 converts.

Every client runs the same scenarios: a test module subclasses them and names its member program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from compat_tests.scenarios.eager import OTHERS, GroupScenarios, by_size
from compat_tests.support.group_of_members import GroupOfMembers, Settled
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.strategies import load_strategy
from kafka_assignors.wire.consumer_protocol import Subscription, encode_subscription

KIP848 = "compat_tests.support.kip848_member"

WITNESS = f"{OTHERS}:Witness"

SHARED, OF_ITS_OWN = "cooperative-sticky", "rack-aware-sticky"
"""Strategies with a name that other clients use too, and with one of its own, whose groups stay classic."""

ONE_HOUR_MS = 3_600_000
"""A metadata age so long that no periodic refresh hides a missing metadata request of the leader."""


def first_assigned(group: GroupOfMembers, name: str, after: int) -> Mapping[str, list[int]]:
    """The partitions of a member in its first assignment later than generation `after`."""

    def find() -> dict[str, Any] | None:
        reports = group.members[name].reports("assigned")
        return next((report for report in reports if report["generation"] > after), None)

    report: dict[str, Any] = group.wait_for(f"{name} to be assigned after generation {after}", find)
    partitions: Mapping[str, list[int]] = report["partitions"]
    return partitions


def last_seen(group: GroupOfMembers, leader: str) -> dict[str, Any]:
    """The group in the last call of the leader's strategy, which is `Witness`."""
    seen = [r["message"] for r in group.members[leader].reports("logged") if '"topics"' in r["message"]]
    decoded: dict[str, Any] = json.loads(seen[-1])
    return decoded


class LeaderScenarios(GroupScenarios):
    asks_for_topics: ClassVar[bool] = True
    """Whether a leader asks for topics that it does not know before it assigns."""

    def start(
        self, group: GroupOfMembers, member: str, assignor: str, topic: str = "orders", **options: Any
    ) -> None:
        """Start a member that requests metadata only if it has a reason.

        The polls are long: kafka-python 3 discards a join that completes between two polls, and joins again.
        """
        group.start(
            member, [assignor], topics=[topic], metadata_max_age_ms=ONE_HOUR_MS, poll_ms=4000, **options
        )

    def pair(self, group: GroupOfMembers, assignor: str, **options: Any) -> Settled:
        """Start a leader and a member named "b"."""
        for member in ("leader", "b"):
            self.start(group, member, assignor, **options)
            group.wait_for_report(member, "assigned", "orders")
        return group.settle()

    # ---- what the leader knows of the topics

    def test_a_topic_that_only_a_newcomer_reads_is_assigned(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=4) as group:
            before = self.pair(group, "sticky")
            group.create_topic("payments", 3)
            self.start(group, "c", "sticky", "payments")
            payments = {group.topic("payments"): [0, 1, 2]}
            if self.asks_for_topics:
                assert first_assigned(group, "c", before.generation) == payments
            after = group.settle(after=before)
            assert after.of("c") == payments
            # Otherwise the leader joins again when it has learned of the topic, and once more if its own
            # metadata changed a moment before.
            assert after.generation <= before.generation + (1 if self.asks_for_topics else 3)

    # ---- what the leader knows of the members

    def test_leader_reads_the_subscription_of_each_version(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=4) as group:
            alone = self.alone(group)
            orders = group.topic("orders")
            for version in range(4):
                subscription = Subscription(
                    version,
                    (orders,),
                    b"",
                    {orders: [version]} if version >= 1 else {},
                    alone.generation if version >= 2 else -1,
                    "east" if version >= 3 else None,
                )
                joins_with = encode_subscription(subscription).hex()
                group.start(f"v{version}", [f"garbage:test-witness:{joins_with}"])
            # The members are named by their client ids, with which a member id begins in both clients.
            wanted = [f"v{version}-" for version in range(4)]

            def told() -> dict[str, Any] | None:
                members = last_seen(group, "leader")["members"]
                by_name = {name: m for name in wanted for id, m in members.items() if id.startswith(name)}
                return by_name if len(by_name) == len(wanted) else None

            members: dict[str, Any] = group.wait_for("the leader to assign to all", told)
        assert [members[name]["topics"] for name in wanted] == [[orders]] * 4
        owned = [members[name]["owned"] for name in wanted]
        assert owned == [{}, {orders: [1]}, {orders: [2]}, {orders: [3]}]
        generation = alone.generation
        assert [members[name]["generation"] for name in wanted] == [-1, -1, generation, generation]
        assert [members[name]["rack"] for name in wanted] == [None, None, None, "east"]

    def test_racks_of_members_and_replicas_and_data_of_members_reach_the_strategy(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=4) as group:
            alone = self.alone(group)
            group.start("pod-1", [WITNESS], rack="east", instance_id="pod-1")
            both = group.settle(after=alone)
            seen = last_seen(group, "leader")
            pod = seen["members"][both.names["pod-1"]]
            assert (pod["rack"], bytes.fromhex(pod["data"])) == ("east", b"pod-1")
            assert seen["topics"] == {group.topic("orders"): [[*kafka.racks().values()]] * 4}

    def alone(self, group: GroupOfMembers) -> Settled:
        group.start("leader", [WITNESS])
        return group.settle()


class ConversionScenarios:
    """A KIP-848 member joins cooperative ones: the broker converts their group, or refuses the member."""

    program: ClassVar[str]

    def test_a_group_under_a_name_of_its_own_stays_classic_and_the_broker_refuses_the_new_member(
        self, kafka: Kafka
    ) -> None:
        with GroupOfMembers(kafka, self.program, {"orders": 6}) as group:
            for member in ("a", "b"):
                group.start(member, [OF_ITS_OWN])
            before = group.settle()

            group.start("kip848", [], program=KIP848)
            group.wait_for_report("kip848", "refused", "group id does not exist")
            group.stop("kip848")
            for member in ("a", "b"):
                assigned = [report["generation"] for report in group.members[member].reports("assigned")]
                assert max(assigned) <= before.generation  # the refused member does not make them join
            # A new generation shows that the group goes on.
            group.start("c", [OF_ITS_OWN])
            joined = group.settle("a", "b", "c", after=before)
            assert by_size(joined) == [2, 2, 2]
            # Cooperative members need two generations, and a few more under load; a storm makes hundreds.
            assert joined.generation < before.generation + 20

    def test_a_guarded_group_is_converted_after_its_members_restart_without_the_guard_and_back(
        self, kafka: Kafka
    ) -> None:
        strategy = load_strategy(SHARED)
        with GroupOfMembers(kafka, self.program, {"orders": 6}) as group:
            for member in ("a", "b"):
                group.start(member, [f"guarded:{SHARED}"])
            settled = group.settle()
            group.start("too early", [], program=KIP848)
            group.wait_for_report("too early", "refused", "group id does not exist")
            group.stop("too early")

            for member in ("a", "b"):
                group.stop(member)
                group.start(member, [SHARED])
                settled = group.settle("a", "b", after=settled)
            group.start("kip848", [], program=KIP848)
            converted = group.settle("a", "b", "kip848", after=settled)
            assert by_size(converted) == [2, 2, 2]
            for member in ("a", "b"):
                report = group.wait_for_report(member, "logged", "uses the protocol of KIP-848")
                assert f"({strategy.name})" in report["message"]
                assert repr(group.id) in report["message"]

            # After the last member of KIP-848 has left, the strategy runs again.
            group.stop("kip848")
            after = group.settle("a", "b", after=converted)
            assert after.assignment == group.expected(strategy, after, before=converted)

            group.start("kip848 again", [], program=KIP848)
            again = group.settle("a", "b", "kip848 again", after=after)
            assert by_size(again) == [2, 2, 2]
            for member in ("a", "b"):  # once
                told = [r["message"] for r in group.members[member].reports("logged")]
                assert len([message for message in told if "KIP-848" in message]) == 1
