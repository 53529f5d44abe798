"""Groups whose members run our strategies in their client's stock, eager consumer.

Every client runs the same scenarios: a test module subclasses `EagerScenarios` and names its member program.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest

from compat_tests.support.group_of_members import GroupOfMembers, Settled
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import CooperativeOnly, Reversed
from kafka_assignors.group import pairs
from kafka_assignors.strategies import load_strategy

OTHERS = "compat_tests.support.strategies_of_others"
LIBRDKAFKA = "compat_tests.support.librdkafka_member"

SLOW_S = 2.0
"""How long a slow member takes to give partitions up: long beside the way of a SyncGroup response."""

SHORT_SESSION_MS = 4000
"""The session timeout of a member whose session ends in a test."""


def by_size(settled: Settled) -> list[int]:
    return sorted(settled.assignment.load(member_id) for member_id in settled.assignment.members)


def kept(before: Settled, after: Settled) -> dict[str, int]:
    """The number of partitions that each process of `after` has kept since `before`, by name."""
    return {
        name: len({*pairs(before.of(name))} & {*pairs(after.of(name))})
        for name in after.names
        if name in before.names
    }


class GroupScenarios:
    """Groups whose members run one program."""

    program: ClassVar[str]

    def group(self, kafka: Kafka, **topics: int) -> GroupOfMembers:
        return GroupOfMembers(kafka, self.program, topics)


class EagerScenarios(GroupScenarios):
    @pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", f"{OTHERS}:Reversed"])
    def test_members_get_what_the_core_says_and_each_record_reaches_them_once(
        self, kafka: Kafka, name: str
    ) -> None:
        strategy, is_sticky = load_strategy(name), name.endswith("sticky")
        with self.group(kafka, orders=7, payments=3) as group:
            group.produce(20)
            for member in ("a", "b", "c"):
                group.start(member, [name])
            formed = group.settle()

            group.start("d", [name])
            joined = group.settle(after=formed)
            assert joined.assignment == group.expected(strategy, joined, formed if is_sticky else None)

            group.stop("b")
            left = group.settle(after=joined)
            assert left.assignment == group.expected(strategy, left, joined if is_sticky else None)
            if is_sticky:
                assert sum(kept(formed, joined).values()) == 10 - joined.count("d")
                assert kept(joined, left) == {member: joined.count(member) for member in ("a", "c", "d")}

            group.produce(20)
            consumed = group.wait_until_consumed(40)
            assert {record for record, times in consumed.items() if times > 1} == set()

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

    def test_of_two_configured_strategies_the_group_runs_the_one_all_have(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=6, payments=3) as group:
            # Two such members of stock aiokafka can go on interrupting each other: each joins several times.
            group.start("a", ["sticky", "range"])
            alone = group.settle()
            group.start("b", ["stock:range"])
            both = group.settle(after=alone)
            assert both.assignment == group.expected(load_strategy("range"), both)

    def test_stock_members_of_the_same_name_lead_and_follow(self, kafka: Kafka) -> None:
        strategy = load_strategy("sticky")
        with self.group(kafka, orders=7, payments=3) as group:
            group.start("stock", ["stock:sticky"])
            group.settle()
            group.start("ours", ["sticky"])
            under_stock = group.settle()
            assert by_size(under_stock) == [5, 5]

            group.stop("stock")
            alone = group.settle(after=under_stock)
            group.start("stock again", ["stock:sticky"])
            under_ours = group.settle(after=alone)
            assert under_ours.assignment == group.expected(strategy, under_ours, alone)

    def test_an_answer_that_leaves_partitions_out_never_leaves_the_leader_and_is_explained(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=4) as group:
            group.start("a", [f"{OTHERS}:Forgetful"])
            error = group.wait_for("a to fail", lambda: group.members["a"].reports("failed"))[0]["error"]
            assert "test-forgetful" in error
            assert f"left 1 of the 4 partitions of '{group.topic('orders')}' without an owner" in error

    def test_what_a_slow_cooperative_member_holds_has_one_owner(self, kafka: Kafka) -> None:
        """A stock consumer leads, and the member takes its time to give partitions up."""
        with self.group(kafka, orders=9) as group:
            group.start("leader", ["cooperative-sticky"])
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
            assert group.owned_twice() == []


TWINS = "2 assignors with the name 'sticky'"


class EagerConsumerScenarios(ABC):
    """Stock consumers in the test's process.

    Attributes:
        plugin: the module of our assignors.
        stock_sticky: the client's own assignor with the name of one of ours.
        refusals: what the client raises for assignors that it cannot use.
    """

    program: ClassVar[str]
    plugin: Any
    stock_sticky: Any
    refusals: tuple[type[Exception], ...]

    @abstractmethod
    def consumer(self, group: GroupOfMembers, *assignors: Any) -> Any:
        """A consumer of the group's topics, whose methods wait for their results, with `poll` and `close`."""

    @contextlib.contextmanager
    def polling(self, group: GroupOfMembers, assignor: Any) -> Iterator[Any]:
        """A consumer that is polled on a thread of its own."""
        consumer, stopping = self.consumer(group, assignor), threading.Event()

        def poll() -> None:
            while not stopping.is_set():
                consumer.poll(timeout_ms=500)
            consumer.close()

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            yield consumer
        finally:
            stopping.set()
            thread.join(HANG_S)

    def must_keep_their_own(self, kafka: Kafka, make: Callable[[], Any]) -> None:
        """Two consumers keep what they own, up to what a third one needs."""
        with (
            GroupOfMembers(kafka, self.program, {"orders": 6}) as group,
            self.polling(group, make()) as first,
        ):
            settled_in_process(group, [first])
            with self.polling(group, make()) as second:
                before = settled_in_process(group, [first, second])
                with self.polling(group, make()) as third:
                    after = settled_in_process(group, [first, second, third])
        assert after[0] < before[0]
        assert after[1] < before[1]

    def must_refuse(self, kafka: Kafka, assignors: Sequence[Any], message: str) -> None:
        def consume() -> None:
            # kafka-python 2 reveals its settings only when it joins.
            with contextlib.closing(self.consumer(group, *assignors)) as consumer:
                consumer.poll(timeout_ms=10_000)

        with (
            GroupOfMembers(kafka, self.program, {"orders": 2}) as group,
            pytest.raises(self.refusals, match=message),
        ):
            consume()

    def test_consumers_that_share_an_assignor_are_separate_members(self, kafka: Kafka) -> None:
        shared = self.plugin.StickyAssignor()
        # Each consumer claims its own partitions: two claims on the same partitions cancel each other.
        self.must_keep_their_own(kafka, lambda: shared)

    @pytest.mark.parametrize(
        ("assignors", "message"),
        [
            (lambda ours, stock: [ours.StickyAssignor(), ours.StickyAssignor(rack="a")], TWINS),
            (lambda ours, stock: [stock, ours.StickyAssignor()], TWINS),
            (
                lambda ours, stock: [ours.StickyAssignor(), ours.assignor(CooperativeOnly())],
                "'test-cooperative-only' runs under .* alone.*: use Cooperative",
            ),
            (
                lambda ours, stock: [ours.assignor(Reversed(), weights=lambda topics: {})],
                "'test-reversed' has a source of weights.*: use Cooperative",
            ),
        ],
    )
    def test_assignors_that_it_cannot_use_are_refused_as_early_as_the_client_shows_them(
        self, kafka: Kafka, assignors: Callable[[Any, Any], list[Any]], message: str
    ) -> None:
        self.must_refuse(kafka, assignors(self.plugin, self.stock_sticky), message)


def settled_in_process(group: GroupOfMembers, consumers: Sequence[Any]) -> list[set[Any]]:
    """Wait until the consumers own all partitions, in equal shares."""
    total = sum(group.topics.values())

    def shares() -> list[set[Any]] | None:
        owned = [set(consumer.assignment()) for consumer in consumers]
        are_fair = {len(share) for share in owned} == {total // len(consumers)}
        return owned if are_fair and len(set().union(*owned)) == total else None

    return group.wait_for("equal shares", shares)
