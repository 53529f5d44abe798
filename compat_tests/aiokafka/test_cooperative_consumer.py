"""CooperativeAIOKafkaConsumers in the test's process: listener, commits, positions, subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata

from compat_tests.aiokafka.cooperative_consumers import Listener, consuming, of, until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S, SOON_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import CooperativeOnly
from kafka_assignors_aiokafka import (
    CooperativeAIOKafkaConsumer,
    CooperativeStickyAssignor,
    FencedInstanceIdError,
    RangeAssignor,
    StickyAssignor,
    assignor,
)

FENCED_INSTANCE_ID = 82
PROGRAM = "compat_tests.aiokafka.cooperative_member"


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
    async def construct() -> None:
        CooperativeAIOKafkaConsumer("orders", **{"group_id": "g", **settings})

    with pytest.raises(kind, match=message):
        asyncio.run(construct())


def test_several_strategies_are_offered_in_one_join(kafka: Kafka) -> None:
    async def consume() -> None:
        strategies = [CooperativeStickyAssignor(), StickyAssignor(), RangeAssignor()]
        async with consuming(group, partition_assignment_strategy=strategies) as consumer:
            assert consumer.assignment() == of(group, 0, 1, 2, 3)
            assert consumer._coordinator.generation == 1

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(consume())


def test_listener_commits_revoked_partitions_and_a_later_commit_of_them_fails(kafka: Kafka) -> None:
    async def consume() -> None:
        committed: dict[TopicPartition, int] = {}

        async def commit(revoked: set[TopicPartition]) -> None:
            positions = {tp: await first.position(tp) for tp in revoked}
            await first.commit(positions)
            committed.update(positions)

        listener = Listener(revoked=commit)
        async with consuming(group, listener) as first:
            read: set[TopicPartition] = set()
            while len(read) < 4:
                read |= (await first.getmany(timeout_ms=100)).keys()
            async with consuming(group) as second:
                await until(lambda: len(second.assignment()) == 2)
                (moved,) = listener.told("revoked")
                assert moved == second.assignment()
                assert committed == dict.fromkeys(moved, 10)
                assert {tp: await second.position(tp) for tp in moved} == committed
                with pytest.raises((IllegalStateError, CommitFailedError)):
                    await first.commit({next(iter(moved)): 3})
                assert {tp: await second.committed(tp) for tp in moved} == committed

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


def test_partitions_that_stay_keep_their_buffers_positions_and_pauses(kafka: Kafka) -> None:
    async def consume() -> None:
        async with consuming(group) as first:
            await until(lambda: len(first._fetcher._records) == 4)
            for tp in first.assignment():
                await first.getmany(tp, max_records=3)
            buffered = dict(first._fetcher._records)
            first.pause(*first.assignment())
            async with consuming(group) as second:
                await until(lambda: len(second.assignment()) == 2)
                stayed = first.assignment()
                assert len(stayed) == 2
                assert first._fetcher._records == {tp: buffered[tp] for tp in stayed}
                assert first.paused() == stayed
                assert {await first.position(tp) for tp in stayed} == {3}
                assert second.paused() == set()
        assert first._fetcher._records.keys() <= buffered.keys()

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


def test_a_position_that_the_listener_sets_is_where_consumption_begins(kafka: Kafka) -> None:
    async def consume() -> None:
        def seek(assigned: set[TopicPartition]) -> None:
            for tp in assigned:
                consumer.seek(tp, 7)

        consumer = CooperativeAIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap, group_id=group.id, auto_offset_reset="earliest"
        )
        consumer.subscribe(list(group.topics), listener=Listener(assigned=seek))
        await consumer.start()
        try:
            first_offsets: dict[TopicPartition, int] = {}
            while len(first_offsets) < 4:
                for tp, records in (await consumer.getmany(timeout_ms=100)).items():
                    first_offsets.setdefault(tp, records[0].offset)
            assert first_offsets == dict.fromkeys(of(group, 0, 1, 2, 3), 7)
        finally:
            await consumer.stop()

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("what", ["revoked", "lost", "assigned"])
def test_next_read_raises_the_error_of_a_listener_and_the_consumer_goes_on(
    kafka: Kafka, what: str, asynchronous: bool
) -> None:
    refusals: list[set[TopicPartition]] = []

    def refuse(partitions: set[TopicPartition]) -> None:
        # Raise once, and not in the first assignment, where `start` would raise the error.
        if partitions and not refusals and (what, len(partitions)) != ("assigned", 4):
            refusals.append(partitions)
            raise ValueError("I will not")

    async def refuse_later(partitions: set[TopicPartition]) -> None:
        await asyncio.sleep(0)
        refuse(partitions)

    read: set[TopicPartition] = set()

    async def read_while(wanted: Callable[[], bool], consumer: CooperativeAIOKafkaConsumer) -> None:
        while wanted():
            read.update(await asyncio.wait_for(consumer.getmany(timeout_ms=50), HANG_S))

    async def consume() -> None:
        listener = Listener(**{what: refuse_later if asynchronous else refuse})
        settings: dict[str, Any] = {"max_poll_interval_ms": 1000} if what == "lost" else {}
        async with consuming(group, listener, **settings) as first:
            async with consuming(group) as second:
                # The first consumer loses its partitions because it does not poll.
                await until(lambda: len(second.assignment()) == (4 if what == "lost" else 2))
            # The second consumer has stopped, so the first is assigned its partitions.
            refused = rf"on_partitions_{what} of .* failed: .*I will not"
            with pytest.raises(KafkaError, match=refused) as raised:
                await read_while(lambda: True, first)
            assert isinstance(raised.value.__cause__, ValueError)
            await read_while(lambda: read != of(group, 0, 1, 2, 3), first)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


def test_a_consumer_that_stops_revokes_what_it_owns_and_leaves_at_once(kafka: Kafka) -> None:
    async def consume() -> None:
        listener = Listener()
        async with consuming(group) as second:
            async with consuming(group, listener) as first:
                await until(lambda: len(first.assignment()) == 2)
                mine = first.assignment()
            assert listener.calls[-1] == ("revoked", mine)
            await until(lambda: len(second.assignment()) == 4)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(consume())


def test_a_consumer_that_unsubscribes_gives_all_partitions_back_and_may_subscribe_again(kafka: Kafka) -> None:
    async def consume() -> None:
        listener = Listener()
        async with consuming(group, listener) as consumer:
            consumer.unsubscribe()
            assert await consumer.getmany(timeout_ms=50) == {}
            await until(lambda: listener.told("revoked") == [of(group, 0, 1, 2, 3)])

            consumer.subscribe(list(group.topics), listener=listener)
            await until(lambda: consumer.assignment() == of(group, 0, 1, 2, 3))
            assert (await asyncio.wait_for(consumer.getone(), HANG_S)).offset == 0

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


def test_partitions_can_be_assigned_by_hand_as_with_the_stock_consumer(kafka: Kafka) -> None:
    async def consume() -> None:
        async with CooperativeAIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap, group_id=group.id, auto_offset_reset="earliest"
        ) as consumer:
            (tp,) = of(group, 1)
            consumer.assign([tp])
            record = await asyncio.wait_for(consumer.getone(), HANG_S)
            assert (record.partition, record.offset) == (1, 0)
            await consumer.commit()
            assert await consumer.committed(tp) == 1

            consumer.unsubscribe()
            consumer.subscribe(list(group.topics))
            await until(lambda: len(consumer.assignment()) == 4)
            read: dict[int, int] = {}
            while len(read) < 4:
                for tp, records in (await consumer.getmany(timeout_ms=100)).items():
                    read.setdefault(tp.partition, records[0].offset)
            assert read == {0: 0, 1: 1, 2: 0, 3: 0}

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


def test_records_and_commits_flow_while_the_group_waits_for_a_member_that_does_not_join(
    kafka: Kafka,
) -> None:
    async def consume() -> None:
        async with consuming(group) as first:
            group.start("frozen", ["cooperative-sticky"], session_timeout_ms=int(HANG_S * 1000))
            await until(lambda: len(first.assignment()) == 2)
            await until(lambda: len(owned_by("frozen")) == 2)
            group.freeze("frozen")
            group.start("newcomer", ["cooperative-sticky"])
            await until(lambda: first._coordinator._member.phase.name == "JOINING")

            await asyncio.to_thread(group.produce, 10)
            read: dict[TopicPartition, int] = {}
            while sum(read.values()) < 20:
                for tp, records in (await first.getmany(timeout_ms=100)).items():
                    read[tp] = read.get(tp, 0) + len(records)
            await asyncio.wait_for(first.commit(), SOON_S)
            assert {tp: await first.committed(tp) for tp in read} == dict.fromkeys(read, 10)
            assert first._coordinator._member.phase.name == "JOINING"

            group.thaw("frozen")
            await until(lambda: len(owned_by("newcomer")) == 1)
            assert first._coordinator.generation > 0

    def owned_by(name: str) -> list[int]:
        reports = group.members[name].reports("assigned")
        return list(reports[-1]["partitions"].get(group.topic("orders"), [])) if reports else []

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(consume())


def test_a_consumer_can_stop_while_the_group_waits_for_a_member_that_does_not_join(kafka: Kafka) -> None:
    async def consume() -> None:
        listener = Listener()
        async with consuming(group, listener, enable_auto_commit=True) as first:
            group.start("frozen", ["cooperative-sticky"], session_timeout_ms=int(HANG_S * 1000))
            await until(lambda: len(first.assignment()) == 2)
            await until(lambda: any(r["partitions"] for r in group.members["frozen"].reports("added")))
            await until(lambda: first._coordinator._member.phase.name == "IDLE")
            group.freeze("frozen")
            group.start("newcomer", ["cooperative-sticky"])
            await until(lambda: first._coordinator._member.phase.name == "JOINING")
            mine = first.assignment()
            await asyncio.wait_for(first.stop(), SOON_S)
            assert listener.calls[-1] == ("revoked", mine)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(consume())


def test_a_fenced_consumer_can_neither_commit_nor_read_and_the_other_keeps_its_commits(
    kafka: Kafka,
) -> None:
    async def consume() -> None:
        async with consuming(group, group_instance_id="pod-0") as zombie:
            (tp, *_) = zombie.assignment()
            await zombie.commit({tp: 3})
            coordinator = zombie._coordinator
            was = coordinator._member.membership
            async with consuming(group, group_instance_id="pod-0") as successor:
                assert successor.assignment() == of(group, 0, 1, 2, 3)
                await successor.commit({tp: 7})
                with pytest.raises(CommitFailedError):
                    await zombie.commit({tp: 4})
                for _ in range(2):
                    with pytest.raises(FencedInstanceIdError, match="another process joined with the same"):
                        await asyncio.wait_for(zombie.getone(), HANG_S)

                # The broker refuses every request of the zombie, even if the zombie had not stopped.
                offset = {tp: OffsetAndMetadata(4, "")}
                assert await coordinator.send_heartbeat(was) == FENCED_INSTANCE_ID
                assert await coordinator.offset_commit(was, offset) == {tuple(tp): FENCED_INSTANCE_ID}
                assert await successor.committed(tp) == 7
                await asyncio.wait_for(zombie.stop(), HANG_S)
                assert successor._coordinator._member.in_group

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


def test_consumers_of_one_process_share_an_assignor_and_nothing_else(kafka: Kafka) -> None:
    async def consume() -> None:
        shared: dict[str, Any] = {"partition_assignment_strategy": [CooperativeStickyAssignor()]}
        async with (
            consuming(group, **shared) as first,
            consuming(group, **shared) as second,
            consuming(group, group_id=f"{group.id}-other", **shared) as alone,
        ):
            await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
            assert first.assignment() | second.assignment() == of(group, 0, 1, 2, 3)
            assert alone.assignment() == of(group, 0, 1, 2, 3)
            for consumer in (first, second, alone):
                read: dict[TopicPartition, int] = {}
                while sum(read.values()) < 10 * len(consumer.assignment()):
                    for tp, records in (await consumer.getmany(timeout_ms=100)).items():
                        read[tp] = read.get(tp, 0) + len(records)
                assert read == dict.fromkeys(consumer.assignment(), 10)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())
