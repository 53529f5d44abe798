"""CooperativeKafkaConsumers in the test's process: listener, commits, positions, subscriptions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, KafkaError
from kafka.structs import MemberState

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import CooperativeOnly
from kafka_assignors_kafka_python import (
    CooperativeKafkaConsumer,
    CooperativeStickyAssignor,
    RangeAssignor,
    StickyAssignor,
    assignor,
)
from kafka_assignors_kafka_python.cooperative.inside import require_inside

PROGRAM = "compat_tests.kafka_python.cooperative_member"


class Listener(ConsumerRebalanceListener):
    """Records its calls in order, and runs the test's action for each."""

    def __init__(self, **actions: Callable[[set[TopicPartition]], Any]) -> None:
        self.calls: list[tuple[str, set[TopicPartition]]] = []
        self._actions = actions

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._told("revoked", revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self._told("lost", lost)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._told("assigned", assigned)

    def _told(self, what: str, partitions: set[TopicPartition]) -> None:
        self.calls.append((what, partitions))
        self._actions.get(what, lambda _: None)(partitions)

    def told(self, what: str) -> list[set[TopicPartition]]:
        return [partitions for call, partitions in self.calls if call == what and partitions]


class AsyncListener(AsyncConsumerRebalanceListener):
    """Awaits the test's action when partitions are revoked."""

    def __init__(self, revoked: Callable[[set[TopicPartition]], Any]) -> None:
        self._revoked = revoked

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._revoked(revoked)

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        pass

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


@contextlib.contextmanager
def consuming(
    group: GroupOfMembers, listener: object = None, **settings: Any
) -> Iterator[CooperativeKafkaConsumer]:
    consumer = CooperativeKafkaConsumer(
        **{
            "bootstrap_servers": group.kafka.bootstrap,
            "group_id": group.id,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
            "enable_auto_commit": False,
            **settings,
        }
    )
    try:
        consumer.subscribe(list(group.topics), listener=listener)
        yield consumer
    finally:
        consumer.close()


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def polling_until(condition: Callable[[], Any], *consumers: CooperativeKafkaConsumer) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        for consumer in consumers:
            consumer.poll(timeout_ms=20)


def share(group: GroupOfMembers, *consumers: CooperativeKafkaConsumer) -> None:
    """Poll until each consumer has a fair share and its listener has been called."""
    fair = sum(group.topics.values()) // len(consumers)

    def is_settled(consumer: CooperativeKafkaConsumer) -> bool:
        is_told = consumer._coordinator.member.call is None
        return is_told and len(consumer.assignment()) == fair and state_of(consumer) == MemberState.STABLE

    polling_until(lambda: all(map(is_settled, consumers)), *consumers)


def state_of(consumer: CooperativeKafkaConsumer) -> str:
    # Not read from `group_metadata`, because joins then wait for the next poll.
    state: str = consumer._coordinator.state
    return state


def committed(positions: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {tp: OffsetAndMetadata(position, "", -1) for tp, position in positions.items()}


def of(group: GroupOfMembers, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(group.topic("orders"), number) for number in numbers}


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"partition_assignment_strategy": [CooperativeStickyAssignor]}, TypeError, r"pass \[CooperativeS"),
        ({"partition_assignment_strategy": [RangePartitionAssignor]}, TypeError, "is not an assignor of"),
        ({"partition_assignment_strategy": []}, ValueError, "is empty: pass"),
        ({"partition_assignment_strategy": CooperativeStickyAssignor()}, TypeError, "must be a list"),
        ({"partition_assignment_strategy": CooperativeStickyAssignor}, TypeError, "must be a list"),
        ({"partition_assignment_strategy": "cooperative-sticky"}, TypeError, "must be a list"),
        (
            {"partition_assignment_strategy": ["cooperative-sticky"]},
            TypeError,
            "such as CooperativeStickyAssignor",
        ),
        (
            {"partition_assignment_strategy": [CooperativeStickyAssignor(), CooperativeStickyAssignor()]},
            ValueError,
            "2 assignors with the name 'cooperative-sticky'",
        ),
        (
            {"partition_assignment_strategy": [assignor(CooperativeOnly()), StickyAssignor()]},
            ValueError,
            "'test-cooperative-only' runs under the cooperative protocol alone and 'sticky' under the eager",
        ),
        ({"group_id": None}, TypeError, "group_id must be"),
        ({"client_rack": 1}, TypeError, "client_rack must be"),
    ],
)
def test_cooperative_consumer_refuses_invalid_settings_at_construction(
    settings: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        CooperativeKafkaConsumer("orders", **{"group_id": "g", **settings})


def test_a_release_that_lacks_what_we_need_is_refused_and_what_it_lacks_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"kafka-python \d.*, whose object has no _sensors"):
        require_inside(object(), object())


def test_several_strategies_are_offered_in_one_join(kafka: Kafka) -> None:
    strategies = [CooperativeStickyAssignor(), StickyAssignor(), RangeAssignor()]
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        consuming(group, partition_assignment_strategy=strategies) as consumer,
    ):
        share(group, consumer)
        assert consumer.group_metadata().generation_id == 1


@pytest.mark.parametrize("poll_ms", [0, 1, 2, 3, 5])
def test_polls_that_are_over_long_before_a_join_get_their_partitions_and_records(
    kafka: Kafka, poll_ms: int
) -> None:
    # kafka-python's own consumer occasionally hangs for good when a poll ends at the wrong moment.
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(1)
        for _ in range(4):
            with consuming(group) as consumer:
                deadline, read = time.monotonic() + HANG_S, set()
                while len(read) < 4:
                    assert time.monotonic() < deadline
                    read |= consumer.poll(timeout_ms=poll_ms).keys()


def test_listener_commits_revoked_partitions_and_a_later_commit_of_them_fails(kafka: Kafka) -> None:
    saved: dict[TopicPartition, int] = {}

    def commit(revoked: set[TopicPartition]) -> None:
        positions = {tp: first.position(tp) for tp in revoked}
        first.commit(committed(positions))
        saved.update(positions)

    listener = Listener(revoked=commit)
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group, consuming(group, listener) as first:
        group.produce(10)
        read: set[TopicPartition] = set()
        while len(read) < 4:
            read |= first.poll(timeout_ms=100).keys()
        with consuming(group) as second:
            share(group, first, second)
            (moved,) = listener.told("revoked")
            assert moved == second.assignment()
            assert saved == dict.fromkeys(moved, 10)
            assert {tp: second.position(tp) for tp in moved} == saved
            with pytest.raises(CommitFailedError, match="revoked or lost"):
                first.commit(committed({next(iter(moved)): 3}))
            assert {tp: second.committed(tp) for tp in moved} == saved


def test_offsets_are_committed_in_a_transaction_unless_the_partitions_are_lost(kafka: Kafka) -> None:
    def commit(offset: int) -> None:
        producer.begin_transaction()
        producer.send_offsets_to_transaction(committed({tp: offset}), consumer.group_metadata())
        producer.commit_transaction()

    listener = Listener()
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        contextlib.closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin,
        contextlib.closing(
            KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=group.id)
        ) as producer,
        consuming(group, listener) as consumer,
    ):
        producer.init_transactions()
        share(group, consumer)
        (tp,) = of(group, 0)
        commit(3)
        until(lambda: consumer.committed(tp) == 3)  # EndTxn returns before the markers are written.

        admin.remove_group_members(group.id, [MemberToRemove(consumer.group_metadata().member_id)])
        until(lambda: state_of(consumer) == MemberState.UNJOINED)  # A heartbeat detects the removal.
        # The broker accepts offsets from a non-member. This one was a member, and its user has not been told.
        with pytest.raises(KafkaError):
            commit(7)
        assert consumer.committed(tp) == 3
        polling_until(lambda: listener.told("lost"), consumer)


def test_an_async_listener_can_await_a_commit(kafka: Kafka) -> None:
    async def commit(revoked: set[TopicPartition]) -> None:
        await first.commit_async(committed({tp: first.position(tp) for tp in revoked}))

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        with consuming(group, AsyncListener(commit)) as first:
            read: set[TopicPartition] = set()
            while len(read) < 4:
                read |= first.poll(timeout_ms=100).keys()
            with consuming(group) as second:
                share(group, first, second)
                assert {second.position(tp) for tp in second.assignment()} == {10}


def test_partitions_that_stay_keep_their_buffers_positions_and_pauses(kafka: Kafka) -> None:
    def buffers(consumer: CooperativeKafkaConsumer) -> dict[TopicPartition, object]:
        fetcher = consumer._fetcher
        return {**fetcher._paused_completed_fetches, **fetcher._paused_partition_records}

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        with consuming(group, max_poll_records=3) as first:
            read: dict[TopicPartition, int] = {}
            while len(read) < 4:
                for tp, records in first.poll(timeout_ms=100).items():
                    read[tp] = read.get(tp, 0) + len(records)
                    first.pause(tp)
            positions = {tp: first.position(tp) for tp in first.assignment()}
            assert positions == read
            polling_until(lambda: len(buffers(first)) == 4, first)
            buffered = buffers(first)
            with consuming(group) as second:
                share(group, first, second)
                stayed = first.assignment()
                assert len(stayed) == 2
                assert all(buffers(first)[tp] is buffered[tp] for tp in stayed)
                assert first.paused() == stayed
                assert {tp: first.position(tp) for tp in stayed} == {tp: read[tp] for tp in stayed}
                assert second.paused() == set()
                first.resume(*stayed)
                while sum(read[tp] for tp in stayed) < 20:
                    for tp, records in first.poll(timeout_ms=100).items():
                        assert records[0].offset == read[tp]
                        read[tp] += len(records)


def test_partitions_lost_before_the_next_poll_are_neither_announced_nor_reported_as_lost(
    kafka: Kafka,
) -> None:
    listener = Listener()
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        consuming(group, listener, max_poll_interval_ms=10_000) as consumer,
    ):
        consumer.poll(timeout_ms=0)
        until(lambda: len(consumer.assignment()) == 4)
        until(lambda: state_of(consumer) == MemberState.UNJOINED)
        polling_until(lambda: listener.calls, consumer)
        assert listener.calls == [("assigned", of(group, 0, 1, 2, 3))]


def test_a_revocation_that_was_due_is_a_loss_once_another_member_has_the_partitions(kafka: Kafka) -> None:
    listener = Listener()
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        consuming(group, listener, max_poll_interval_ms=10_000) as first,
    ):
        share(group, first)
        with consuming(group) as second:
            polling_until(lambda: first._coordinator.member.call is not None, second)
            polling_until(lambda: len(second.assignment()) == 4, second)
            polling_until(lambda: listener.told("lost"), first)
            assert listener.told("lost") == [of(group, 0, 1, 2, 3)]
            assert listener.told("revoked") == []


def test_a_position_that_the_listener_sets_is_where_consumption_begins(kafka: Kafka) -> None:
    def seek(assigned: set[TopicPartition]) -> None:
        for tp in assigned:
            consumer.seek(tp, 7)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        with consuming(group, Listener(assigned=seek)) as consumer:
            first_offsets: dict[TopicPartition, int] = {}
            while len(first_offsets) < 4:
                for tp, records in consumer.poll(timeout_ms=100).items():
                    first_offsets.setdefault(tp, records[0].offset)
            assert first_offsets == dict.fromkeys(of(group, 0, 1, 2, 3), 7)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_poll_raises_the_error_of_a_listener_and_the_consumer_goes_on(
    kafka: Kafka, asynchronous: bool
) -> None:
    refusals = [ValueError("I will not")]

    def refuse_once(_: set[TopicPartition]) -> None:
        if refusals:
            raise refusals.pop()

    async def refuse_later(revoked: set[TopicPartition]) -> None:
        refuse_once(revoked)

    listener = AsyncListener(refuse_later) if asynchronous else Listener(revoked=refuse_once)
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        consuming(group, listener) as first,
        consuming(group) as second,
    ):
        share(group, first)
        with pytest.raises(KafkaError, match=r"on_partitions_revoked of .* failed: .*I will not") as raised:
            share(group, second, first)
        assert isinstance(raised.value.__cause__, ValueError)
        share(group, first, second)
        group.produce(10)
        polling_until(lambda: first.poll(timeout_ms=100), first)


def test_close_raises_the_error_of_a_listener_after_the_consumer_has_left(kafka: Kafka) -> None:
    def refuse(_: set[TopicPartition]) -> None:
        raise ValueError("I will not")

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group, consuming(group) as second:
        with consuming(group, Listener(revoked=refuse)) as first:
            share(group, first)
            with pytest.raises(KafkaError, match="I will not"):
                first.close()
        share(group, second)


def test_a_consumer_that_is_closed_revokes_what_it_owns_and_leaves_at_once(kafka: Kafka) -> None:
    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group, consuming(group) as second:
        with consuming(group, listener) as first:
            share(group, first, second)
            mine = first.assignment()
        assert listener.calls[-1] == ("revoked", mine)
        share(group, second)


def test_a_consumer_that_unsubscribes_gives_all_partitions_back_and_may_subscribe_again(kafka: Kafka) -> None:
    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group, consuming(group, listener) as consumer:
        group.produce(10)
        share(group, consumer)
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        assert listener.told("revoked") == [of(group, 0, 1, 2, 3)]
        assert consumer.poll(timeout_ms=50) == {}

        consumer.subscribe(list(group.topics), listener=listener)
        share(group, consumer)
        group.produce(10)  # The polls so far may have delivered all earlier records.
        record = next(iter(consumer))
        assert TopicPartition(record.topic, record.partition) in consumer.assignment()


def test_partitions_can_be_assigned_by_hand_as_with_the_stock_consumer(kafka: Kafka) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group, consuming(group) as consumer:
        group.produce(10)
        consumer.unsubscribe()
        (tp,) = of(group, 1)
        consumer.assign([tp])
        record = next(consumer)
        assert (record.partition, record.offset) == (1, 0)
        consumer.commit()
        assert consumer.committed(tp) == 1

        consumer.unsubscribe()
        consumer.subscribe(list(group.topics))
        read: dict[int, int] = {}
        while len(read) < 4:
            for tp, records in consumer.poll(timeout_ms=100).items():
                read.setdefault(tp.partition, records[0].offset)
        assert read == {0: 0, 1: 1, 2: 0, 3: 0}


def test_poll_does_not_miss_that_it_knows_where_to_begin(kafka: Kafka) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group, consuming(group) as consumer:
        group.produce(1)
        consumer.unsubscribe()
        consumer.assign(of(group, 0))
        fetcher = consumer._fetcher
        send_fetches = fetcher.send_fetches

        def send_fetches_and_be_slow() -> None:
            send_fetches()
            if fetcher._reset_task is not None:
                until(lambda: fetcher._reset_task.is_done)

        fetcher.send_fetches = send_fetches_and_be_slow
        assert consumer.poll(timeout_ms=HANG_S * 1000)


def test_poll_does_not_miss_records_that_come_while_it_sends_fetches(kafka: Kafka) -> None:
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group,
        contextlib.closing(KafkaProducer(bootstrap_servers=kafka.bootstrap)) as producer,
        consuming(group, fetch_max_wait_ms=15_000) as consumer,
    ):

        def produce() -> None:
            producer.send(group.topic("orders"), b"a record", partition=0).get(timeout=HANG_S)

        produce()
        consumer.unsubscribe()
        consumer.assign(of(group, 0, 1))
        assert consumer.poll(timeout_ms=HANG_S * 1000)
        consumer.poll()
        fetcher = consumer._fetcher
        send_fetches = fetcher.send_fetches
        of_the_other: list[Any] = []

        def be_slow_and_send_fetches() -> None:
            fetcher.send_fetches = send_fetches
            produce()
            until(lambda: fetcher._completed_fetches)
            of_the_other.extend(send_fetches())

        fetcher.send_fetches = be_slow_and_send_fetches
        assert consumer.poll(timeout_ms=HANG_S * 1000)
        assert [fetch.is_done for fetch in of_the_other] == [False]  # The poll did not wait for this fetch.


def test_records_and_commits_flow_while_the_group_waits_for_a_member_that_does_not_join(
    kafka: Kafka,
) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group, consuming(group) as first:

        def owned_by(name: str) -> list[int]:
            reports = group.members[name].reports("assigned")
            return list(reports[-1]["partitions"].get(group.topic("orders"), [])) if reports else []

        share(group, first)
        group.start("frozen", ["cooperative-sticky"], session_timeout_ms=int(HANG_S * 1000))
        polling_until(lambda: len(owned_by("frozen")) == 2 and len(first.assignment()) == 2, first)
        group.freeze("frozen")
        group.start("newcomer", ["cooperative-sticky"])
        polling_until(lambda: state_of(first) == MemberState.REBALANCING, first)

        group.produce(10)
        read: dict[TopicPartition, int] = {}
        while sum(read.values()) < 20:
            for tp, records in first.poll(timeout_ms=100).items():
                read[tp] = read.get(tp, 0) + len(records)
        first.commit()
        assert {tp: first.committed(tp) for tp in read} == dict.fromkeys(read, 10)
        assert state_of(first) == MemberState.REBALANCING

        group.thaw("frozen")
        polling_until(lambda: len(owned_by("newcomer")) == 1, first)


def test_a_consumer_can_be_closed_while_the_group_waits_for_a_member_that_does_not_join(kafka: Kafka) -> None:
    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        with consuming(group, listener, enable_auto_commit=True) as first:
            share(group, first)
            group.start("frozen", ["cooperative-sticky"], session_timeout_ms=int(HANG_S * 1000))
            polling_until(
                lambda: len(first.assignment()) == 2 and group.members["frozen"].reports("added"), first
            )
            group.freeze("frozen")
            group.start("newcomer", ["cooperative-sticky"])
            polling_until(lambda: state_of(first) == MemberState.REBALANCING, first)
            mine = first.assignment()
        assert listener.calls[-1] == ("revoked", mine)
