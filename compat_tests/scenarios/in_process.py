"""Cooperative consumers in the test's process, of either client: listener, commits, positions, weights."""

from __future__ import annotations

import contextlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S, SOON_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import CooperativeOnly
from compat_tests.support.weights import lag, member_ids, silent_server, write
from kafka_assignors_strategies import Weighted

__all__ = ["ConsumerScenarios", "InProcess", "WeightScenarios", "polling_until"]


class InProcess(ABC):
    """What a client provides: its consumer, whose calls wait for their results, and its names.

    Attributes:
        program: the module of a member in a process of its own.
        plugin, sources: the modules of our assignors and of the sources of weights.
        topic_partition, listener_class: the client's TopicPartition, and a listener that records its calls.
        rebalance_timeout: the setting with which a rebalance waits for as long as a test may take.
        commit_errors: what a commit of a revoked partition may raise.
        stock_assignors: what the client's own consumer takes as an assignor.
    """

    program: str
    plugin: ModuleType
    sources: ModuleType
    topic_partition: Callable[[str, int], Any]
    listener_class: Callable[..., Any]
    rebalance_timeout: Mapping[str, int]
    commit_errors: tuple[type[Exception], ...]
    stock_assignors: Sequence[Any]

    @abstractmethod
    def construct(self, **settings: Any) -> None:
        """Make a consumer of the topic `orders`, and nothing else."""

    @abstractmethod
    def consuming(self, group: GroupOfMembers, listener: Any = None, **settings: Any) -> Any:
        """A context manager with a consumer of the group's topics, from their beginning, without autocommit.

        It has the methods of the client's consumer, and in addition `poll(timeout_ms)`, `commit` with numbers
        as offsets, `close()`, `coordinator`, and `member`, the state of the protocol. A listener has it as
        `consumer`.
        """

    @abstractmethod
    def ask(self, source: Any, topics: Mapping[str, int]) -> Any:
        """Ask a source of weights."""

    @abstractmethod
    def noted(self, source: Any, note: Callable[[Mapping[str, int]], object]) -> Any:
        """The source of weights; `note` is called first, and must not block."""

    def of(self, group: GroupOfMembers, *numbers: int) -> set[Any]:
        return {type(self).topic_partition(group.topic("orders"), number) for number in numbers}

    def listener(self, **actions: Callable[[set[Any]], Any]) -> Any:
        return type(self).listener_class(**actions)


def polling_until(condition: Callable[[], Any], *consumers: Any) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        for consumer in consumers:
            consumer.poll(timeout_ms=20)


def share(group: GroupOfMembers, *consumers: Any) -> None:
    """Poll until each consumer has a fair share and its listener has been called."""
    fair = sum(group.topics.values()) // len(consumers)

    def is_settled(consumer: Any) -> bool:
        member = consumer.member
        return member.call is None and member.phase.name == "IDLE" and len(consumer.assignment()) == fair

    polling_until(lambda: all(map(is_settled, consumers)), *consumers)


def joining(consumer: Any) -> bool:
    return bool(consumer.member.phase.name == "JOINING")


@contextlib.contextmanager
def with_a_member_that_does_not_join(group: GroupOfMembers, consumer: Any) -> Iterator[None]:
    """The group waits for a frozen member, which owns two partitions, because another one joins."""
    group.start("frozen", ["cooperative-sticky"], session_timeout_ms=int(HANG_S * 1000))
    polling_until(lambda: len(owned_by(group, "frozen")) == 2 and len(consumer.assignment()) == 2, consumer)
    group.freeze("frozen")
    group.start("newcomer", ["cooperative-sticky"])
    polling_until(lambda: joining(consumer), consumer)
    yield


def owned_by(group: GroupOfMembers, name: str) -> list[int]:
    reports = group.members[name].reports("assigned")
    return list(reports[-1]["partitions"].get(group.topic("orders"), [])) if reports else []


def read_first(consumer: Any, partitions: int) -> dict[int, int]:
    """The first offset that is read of each of so many partitions."""
    first: dict[int, int] = {}
    while len(first) < partitions:
        for tp, records in consumer.poll(timeout_ms=100).items():
            first.setdefault(tp.partition, records[0].offset)
    return first


def read_by_partition(consumer: Any, records: int) -> dict[Any, int]:
    """The number of records of each partition, once so many have been read."""
    read: dict[Any, int] = {}
    while sum(read.values()) < records:
        for tp, found in consumer.poll(timeout_ms=100).items():
            read[tp] = read.get(tp, 0) + len(found)
    return read


class ConsumerScenarios(InProcess):
    @pytest.mark.parametrize(
        ("strategies", "kind", "message"),
        [
            (lambda ours: [ours.CooperativeStickyAssignor], TypeError, r"pass \[CooperativeS"),
            (lambda ours: [], ValueError, "is empty: pass"),
            (lambda ours: ours.CooperativeStickyAssignor(), TypeError, "must be a list"),
            (lambda ours: ours.CooperativeStickyAssignor, TypeError, "must be a list"),
            (lambda ours: "cooperative-sticky", TypeError, "must be a list"),
            (lambda ours: ["cooperative-sticky"], TypeError, "such as CooperativeStickyAssignor"),
            (
                lambda ours: [ours.CooperativeStickyAssignor(), ours.CooperativeStickyAssignor()],
                ValueError,
                "2 assignors with the name 'cooperative-sticky'",
            ),
            (
                lambda ours: [ours.assignor(CooperativeOnly()), ours.StickyAssignor()],
                ValueError,
                "'test-cooperative-only' runs under the cooperative protocol alone and 'sticky' under the",
            ),
        ],
    )
    def test_strategies_that_are_no_list_of_ours_are_refused_at_construction(
        self, strategies: Callable[[Any], Any], kind: type[Exception], message: str
    ) -> None:
        given = strategies(self.plugin)
        with pytest.raises(kind, match=message):
            self.construct(group_id="g", partition_assignment_strategy=given)

    def test_what_is_no_assignor_of_ours_is_refused(self) -> None:
        for given in (*self.stock_assignors, "range", "roundrobin", object):
            with pytest.raises(TypeError, match=f"is not an assignor of {self.plugin.__name__}"):
                self.construct(group_id="g", partition_assignment_strategy=[given])

    @pytest.mark.parametrize("settings", [{"group_id": None}, {"group_id": "g", "client_rack": 1}])
    def test_a_group_and_a_rack_that_are_no_names_are_refused_at_construction(
        self, settings: dict[str, Any]
    ) -> None:
        with pytest.raises(TypeError, match=f"{[*settings][-1]} must be"):
            self.construct(**settings)

    def test_several_strategies_are_offered_in_one_join(self, kafka: Kafka) -> None:
        ours: Any = self.plugin
        strategies = [ours.CooperativeStickyAssignor(), ours.StickyAssignor(), ours.RangeAssignor()]
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            self.consuming(group, partition_assignment_strategy=strategies) as consumer,
        ):
            share(group, consumer)
            assert consumer.member.membership.generation == 1

    def test_listener_commits_revoked_partitions_and_a_later_commit_of_them_fails(self, kafka: Kafka) -> None:
        committed: dict[Any, int] = {}

        def commit(revoked: set[Any]) -> None:
            positions = {tp: first.position(tp) for tp in revoked}
            first.commit(positions)
            committed.update(positions)

        listener = self.listener(revoked=commit)
        with GroupOfMembers(kafka, self.program, {"orders": 4}) as group:
            group.produce(10)
            with self.consuming(group, listener) as first:
                read_by_partition(first, 40)
                with self.consuming(group) as second:
                    share(group, first, second)
                    (moved,) = listener.told("revoked")
                    assert moved == second.assignment()
                    assert committed == dict.fromkeys(moved, 10)
                    assert {tp: second.position(tp) for tp in moved} == committed
                    with pytest.raises(self.commit_errors):
                        first.commit({next(iter(moved)): 3})
                    assert {tp: second.committed(tp) for tp in moved} == committed

    def test_a_position_that_the_listener_sets_is_where_consumption_begins(self, kafka: Kafka) -> None:
        def seek(assigned: set[Any]) -> None:
            for tp in assigned:
                listener.consumer.seek(tp, 7)

        listener = self.listener(assigned=seek)
        with GroupOfMembers(kafka, self.program, {"orders": 4}) as group:
            group.produce(10)
            with self.consuming(group, listener) as consumer:
                assert read_first(consumer, 4) == dict.fromkeys(range(4), 7)

    def test_a_consumer_that_closes_revokes_what_it_owns_and_leaves_at_once(self, kafka: Kafka) -> None:
        listener = self.listener()
        with GroupOfMembers(kafka, self.program, {"orders": 4}) as group, self.consuming(group) as second:
            with self.consuming(group, listener) as first:
                share(group, first, second)
                mine = first.assignment()
            assert listener.calls[-1] == ("revoked", mine)
            share(group, second)

    def test_a_consumer_that_unsubscribes_gives_all_partitions_back_and_may_subscribe_again(
        self, kafka: Kafka
    ) -> None:
        listener = self.listener()
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            self.consuming(group, listener) as consumer,
        ):
            share(group, consumer)
            consumer.unsubscribe()
            assert consumer.poll(timeout_ms=50) == {}
            polling_until(lambda: listener.told("revoked") == [self.of(group, 0, 1, 2, 3)])

            consumer.subscribe(list(group.topics), listener=listener)
            share(group, consumer)
            group.produce(10)
            assert read_first(consumer, 4) == dict.fromkeys(range(4), 0)

    def test_partitions_can_be_assigned_by_hand_as_with_the_stock_consumer(self, kafka: Kafka) -> None:
        with GroupOfMembers(kafka, self.program, {"orders": 4}) as group, self.consuming(group) as consumer:
            consumer.unsubscribe()
            (tp,) = self.of(group, 1)
            consumer.assign([tp])
            group.produce(10)
            assert read_by_partition(consumer, 10) == {tp: 10}
            consumer.commit()
            assert consumer.committed(tp) == 10

            consumer.unsubscribe()
            consumer.subscribe(list(group.topics))
            group.produce(5)
            assert read_first(consumer, 4) == {0: 0, 1: 10, 2: 0, 3: 0}

    def test_a_subscribed_topic_that_is_created_later_is_consumed(self, kafka: Kafka) -> None:
        """With the client's default metadata age of five minutes, which is longer than `HANG_S`."""
        with GroupOfMembers(kafka, self.program, {"orders": 2}) as group, self.consuming(group) as consumer:
            consumer.subscribe([group.topic("orders"), f"late-{group.run}"])
            polling_until(lambda: len(consumer.assignment()) == 2, consumer)
            group.create_topic("late", 1)
            polling_until(lambda: len(consumer.assignment()) == 3, consumer)

    def test_records_and_commits_flow_while_the_group_waits_for_a_member_that_does_not_join(
        self, kafka: Kafka
    ) -> None:
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            self.consuming(group) as first,
            with_a_member_that_does_not_join(group, first),
        ):
            group.produce(10)
            read = read_by_partition(first, 20)
            first.commit()
            assert {tp: first.committed(tp) for tp in read} == dict.fromkeys(read, 10)
            assert joining(first)
            group.thaw("frozen")
            polling_until(lambda: len(owned_by(group, "newcomer")) == 1, first)

    def test_a_consumer_can_close_while_the_group_waits_for_a_member_that_does_not_join(
        self, kafka: Kafka
    ) -> None:
        listener = self.listener()
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            self.consuming(group, listener, enable_auto_commit=True) as first,
            with_a_member_that_does_not_join(group, first),
        ):
            mine = first.assignment()
            began = time.monotonic()
            first.close()
            assert time.monotonic() - began < SOON_S
            assert listener.calls[-1] == ("revoked", mine)


class WeightScenarios(InProcess):
    """Leaders that request weights."""

    @contextlib.contextmanager
    def weighing(
        self, group: GroupOfMembers, weights: Any, count: int = 2, **settings: Any
    ) -> Iterator[list[Any]]:
        """So many consumers with this source of weights."""
        ours: Any = self.plugin
        with contextlib.ExitStack() as stack:
            strategies = [ours.assignor(Weighted(), weights=weights, weights_timeout_s=HANG_S)]
            settings = {"session_timeout_ms": 45_000, "partition_assignment_strategy": strategies, **settings}
            yield [stack.enter_context(self.consuming(group, **settings)) for _ in range(count)]

    def test_members_share_the_lag_and_not_the_number(self, kafka: Kafka) -> None:
        with GroupOfMembers(kafka, self.program, {"orders": 6}) as group:
            lag(group, {2: 500, 4: 20})
            weights = self.sources.LagWeights(group.id, base=10, bootstrap_servers=kafka.bootstrap)
            with self.weighing(group, weights) as consumers:
                until_shares([{2}, {0, 1, 3, 4, 5}], consumers)

    def test_members_share_what_comes_in_and_not_what_is_there(self, kafka: Kafka) -> None:
        with GroupOfMembers(kafka, self.program, {"orders": 6}) as group:
            lag(group, {4: 500, 2: 20})
            # Every partition lags, partition 4 most. Only the records between two looks count.
            weights = self.sources.RateWeights(group.id, base=0, bootstrap_servers=kafka.bootstrap)
            assert self.ask(weights, group.topics) == dict.fromkeys(group.topics, [None] * 6)
            write(group, {2: 1000, **dict.fromkeys((0, 1, 3, 4, 5), 20)})
            time.sleep(1.1)
            ((first, usual, hot, *others),) = self.ask(weights, group.topics).values()
            assert usual is not None
            assert hot == pytest.approx(50 * usual, rel=0.01)
            assert {first, *others} == {usual}
            with self.weighing(group, weights) as consumers:
                until_shares([{2}, {0, 1, 3, 4, 5}], consumers)

    def test_members_move_when_the_file_says_so(self, kafka: Kafka, tmp_path: Path) -> None:
        file = tmp_path / "weights.json"

        def weigh(*weights: int) -> None:
            file.write_text(json.dumps({"topics": dict.fromkeys(group.topics, weights)}))

        with GroupOfMembers(kafka, self.program, {"orders": 4}) as group:
            weigh(9, 1, 1, 1)
            with self.weighing(group, self.sources.WeightsFile(file)) as consumers:
                until_shares([{0}, {1, 2, 3}], consumers)
                weigh(5, 5, 5, 5)
                consumers[0].enforce_rebalance()
                polling_until(lambda: [len(one.assignment()) for one in consumers] == [2, 2], *consumers)

    def test_the_group_does_not_wait_for_brokers_that_do_not_answer(
        self, kafka: Kafka, caplog: pytest.LogCaptureFixture
    ) -> None:
        asked: list[Mapping[str, int]] = []
        looking: list[Future[list[str]]] = []

        def note(topics: Mapping[str, int]) -> None:
            asked.append(topics)
            looking.append(looks.submit(member_ids, group))

        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            silent_server() as address,
            ThreadPoolExecutor() as looks,
        ):
            weights = self.noted(self.sources.LagWeights(group.id, bootstrap_servers=address), note)
            # The assignor allows HANG_S, but the session limits the wait to five seconds.
            began = time.monotonic()
            with self.weighing(group, weights, 1, session_timeout_ms=15_000) as consumers:
                until_shares([{0, 1, 2, 3}], consumers)
                took = time.monotonic() - began
                polling_until(lambda: time.monotonic() > began + took + 1, *consumers)
                # An expelled member would have come back with another id.
                assert [one.result(HANG_S) for one in looking] == [member_ids(group)]
            assert asked == [dict(group.topics)]
        assert took >= 5
        # There may be a second rebalance for another reason; a source is asked again only after its answer.
        warnings = [m for m in caplog.messages if "no weights from" in m]
        assert "it did not answer within 5 s; all weights count as unknown" in warnings[0]
        assert all("all weights count as unknown" in warning for warning in warnings)
        assert "weighted: no weight of the 4 partitions is known: each counts as 1" in caplog.messages


def until_shares(expected: list[set[int]], consumers: list[Any]) -> None:
    """Poll until the consumers own these partitions, in any order."""

    def shares() -> list[list[int]]:
        return sorted(sorted(tp.partition for tp in consumer.assignment()) for consumer in consumers)

    polling_until(lambda: shares() == sorted(map(sorted, expected)), *consumers)
