"""CooperativeAIOKafkaConsumers in the test's process: subscriptions, and other releases of aiokafka."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Any

import aiokafka.client
import aiokafka.consumer.consumer
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import IllegalStateError

from compat_tests.aiokafka import in_process
from compat_tests.scenarios.in_process import ConsumerScenarios, WeightScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.listener import WarmUpTask
from kafka_assignors_aiokafka.cooperative.requests import OffsetFetchRequest_v7


class TestConsumer(ConsumerScenarios, in_process.AIOKafkaInProcess):
    pass


class TestWeights(WeightScenarios, in_process.AIOKafkaInProcess):
    pass


@in_process.with_group(records=10, orders=4)
async def test_partitions_that_stay_keep_their_buffers_positions_and_pauses(group: GroupOfMembers) -> None:
    async with in_process.consuming(group) as first:
        await in_process.until(lambda: len(first._fetcher._records) == 4)
        for tp in first.assignment():
            await first.getmany(tp, max_records=3)
        buffered = dict(first._fetcher._records)
        first.pause(*first.assignment())
        async with in_process.consuming(group) as second:
            await in_process.until(lambda: len(second.assignment()) == 2)
            stayed = first.assignment()
            assert len(stayed) == 2
            assert first._fetcher._records == {tp: buffered[tp] for tp in stayed}
            assert first.paused() == stayed
            assert {await first.position(tp) for tp in stayed} == {3}
            assert second.paused() == set()
    assert first._fetcher._records.keys() <= buffered.keys()


@in_process.with_group(records=10, orders=4)
async def test_with_a_pattern_start_returns_with_the_first_assignment(group: GroupOfMembers) -> None:
    consumer = in_process.consumer_of(group, auto_offset_reset="latest")
    consumer.subscribe(pattern=f"^orders-{group.run}$")
    try:
        await asyncio.wait_for(consumer.start(), HANG_S)
        assert consumer.assignment() == in_process.of(group, 0, 1, 2, 3)
        # A seek while a reset is under way gets the offset of that one, as in aiokafka.
        assert {await consumer.position(tp) for tp in consumer.assignment()} == {10}
        assert await asyncio.wait_for(consumer.seek_to_beginning(), HANG_S)
        assert {await consumer.position(tp) for tp in consumer.assignment()} == {0}
    finally:
        await consumer.stop()


@in_process.with_group(orders=4)
async def test_after_unsubscribing_there_is_nothing_to_commit_but_for_the_listener(
    group: GroupOfMembers,
) -> None:
    async def commit(revoked: set[TopicPartition]) -> None:
        assert consumer.assignment() == revoked
        await released.wait()
        await asyncio.create_task(consumer.commit(dict.fromkeys(revoked, 7)))

    released = asyncio.Event()
    listener = in_process.Listener(revoked=commit)
    async with in_process.consuming(group, listener) as consumer:
        (tp, *_) = consumer.assignment()
        await consumer.commit({tp: 3})
        consumer.unsubscribe()
        for _ in range(2):  # During the listener call, and after it.
            assert consumer.assignment() == set()
            assert consumer.subscription() == set()
            for offsets in ({tp: 4}, None):
                with pytest.raises(IllegalStateError, match="Not subscribed"):
                    await consumer.commit(offsets)
            with pytest.raises(IllegalStateError):
                await consumer.position(tp)
            with pytest.raises(IllegalStateError):
                consumer.seek(tp, 0)
            await in_process.until(lambda: listener.told("revoked"))
            released.set()
            await in_process.until(lambda: not consumer._coordinator._member.in_group)
        assert await consumer.committed(tp) == 7
        assert await consumer.getmany() == {}


@in_process.with_group(orders=4)
async def test_start_returns_when_the_listener_was_told_what_is_owned_and_so_is_another_listener(
    group: GroupOfMembers,
) -> None:
    first, second = in_process.Listener(), in_process.Listener()
    async with in_process.consuming(group, first) as consumer:
        assert first.calls == [("assigned", in_process.of(group, 0, 1, 2, 3))]
        consumer.subscribe(list(group.topics), listener=second)
        await in_process.until(lambda: second.told("assigned") == [in_process.of(group, 0, 1, 2, 3)])
        assert consumer.assignment() == in_process.of(group, 0, 1, 2, 3)
        consumer.subscribe(list(group.topics), listener=second)
        consumer.enforce_rebalance()
        await in_process.until(lambda: len(second.calls) == 2)
        assert second.calls[-1] == ("assigned", set())
    assert first.calls == [("assigned", in_process.of(group, 0, 1, 2, 3))]
    assert second.calls[-1] == ("revoked", in_process.of(group, 0, 1, 2, 3))


def test_an_empty_rack_is_no_rack_as_in_the_stock_consumer() -> None:
    async def construct() -> None:
        consumer = CooperativeAIOKafkaConsumer(group_id="g", client_rack="")
        assert consumer._rack_of_member is None
        await consumer.stop()

    asyncio.run(construct())


@in_process.with_group(orders=2)
async def test_a_member_that_joins_later_can_wait_for_its_first_partition(group: GroupOfMembers) -> None:
    async with in_process.consuming(group) as first, in_process.consuming(group) as second:
        found = await second.wait_for_assignment(timeout_ms=HANG_S * 1000)
        assert found == second.assignment()
        assert len(found) == 1
        assert await first.wait_for_assignment() == first.assignment()
        async with in_process.consuming(group) as standby:
            assert await standby.wait_for_assignment(timeout_ms=100) == set()
            waiting = asyncio.create_task(standby.wait_for_assignment())
            await first.stop()
            assert len(await asyncio.wait_for(waiting, HANG_S)) == 1
    with pytest.raises(IllegalStateError, match="after start"):
        await in_process.consumer_of(group).wait_for_assignment()


# ---- missing topics, with the client's default metadata age of five minutes, which is longer than `HANG_S`


@in_process.with_group(records=3, orders=1)
async def test_a_topic_that_is_deleted_and_created_again_is_consumed_from_its_beginning(
    group: GroupOfMembers,
) -> None:
    async def read(consumer: CooperativeAIOKafkaConsumer, offsets: list[int]) -> None:
        while True:
            offsets.append((await consumer.getone()).offset)

    async with in_process.consuming(group) as consumer:
        offsets: list[int] = []
        reading = asyncio.ensure_future(read(consumer, offsets))
        await in_process.until(lambda: len(offsets) == 3)
        await consumer.commit()
        await asyncio.to_thread(group.delete_topic, "orders")
        await in_process.until(lambda: consumer.assignment() == set())
        await asyncio.to_thread(group.create_topic, "orders", 1)
        await asyncio.to_thread(group.produce, 9)
        await in_process.until(lambda: offsets == [*range(3), *range(9)])
        reading.cancel()


def test_the_tags_of_a_later_broker_are_skipped_and_none_are_sent() -> None:
    request = OffsetFetchRequest_v7(0, "g", [("t", [1], 0)], True, 0)
    assert request.encode() == b"\0\2g\2\2t\2\0\0\0\1\0\1\0"
    tags = b"\2\0\3abc\x82\1\1d"  # number, and of each the tag, the length, and the bytes
    partition = bytes([0, 0, 0, 1, *bytes(7), 5, *bytes(4)]) + b"\2m" + b"\0\0" + tags
    response = tags + bytes(4) + b"\2" + b"\2t" + b"\2" + partition + tags + bytes(2) + tags
    assert request.RESPONSE_TYPE.decode(BytesIO(response)).topics == [("t", [(1, 5, "m", 0)])]


# ---- other releases of aiokafka


def test_an_argument_of_a_later_aiokafka_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    later: Any = {"of_a_later_release": 1}
    with pytest.raises(TypeError, match="of_a_later_release"):
        CooperativeAIOKafkaConsumer("orders", group_id="g", **later)
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        AIOKafkaConsumer, "__init__", lambda self, *topics, **settings: given.update(settings)
    )
    with pytest.raises(RuntimeError):  # aiokafka's own constructor has not run.
        CooperativeAIOKafkaConsumer("orders", group_id="g", **later)
    assert given["of_a_later_release"] == 1


def test_a_release_with_another_subscription_state_is_refused_at_construction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def construct() -> None:
        CooperativeAIOKafkaConsumer("orders", group_id="g")

    newer = type("NewerSubscriptionState", (SubscriptionState,), {})
    monkeypatch.setattr(aiokafka.consumer.consumer, "SubscriptionState", newer)
    wrong = r"uses NewerSubscriptionState where SubscriptionState is expected: install a release"
    with pytest.raises(RuntimeError, match=wrong):
        asyncio.run(construct())


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ("class", "uses NewerGroupCoordinator where GroupCoordinator is expected: install a release"),
        ("attribute", "GroupCoordinator has no _do_fetch_commit_offsets: install a release"),
    ],
    ids=["class", "attribute"],
)
@in_process.with_group(orders=4)
async def test_a_release_with_another_coordinator_is_refused_by_start_and_does_not_join(
    group: GroupOfMembers, monkeypatch: pytest.MonkeyPatch, changed: str, wrong: str
) -> None:
    if changed == "class":
        newer = type("NewerGroupCoordinator", (GroupCoordinator,), {})
        monkeypatch.setattr(aiokafka.consumer.consumer, "GroupCoordinator", newer)
    else:
        monkeypatch.delattr(GroupCoordinator, "_do_fetch_commit_offsets")
    consumer = CooperativeAIOKafkaConsumer(
        *group.topics, bootstrap_servers=group.kafka.bootstrap, group_id=group.id
    )
    with pytest.raises(RuntimeError, match=wrong):
        await asyncio.wait_for(consumer.start(), HANG_S)
    await consumer.stop()
    await in_process.until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


# ---- calls of a listener's warm-up methods that end in unusual ways

WARMING = frozenset({("t", 0)})


class Stop(BaseException):
    """What an application raises to end a part of itself."""


class StoppedListener:
    async def on_partitions_warming(self, partitions: Any) -> None:
        raise Stop

    async def on_warming_cancelled(self, partitions: Any) -> None:
        raise asyncio.CancelledError  # As of a task of the listener's that it has cancelled and awaits.


def test_what_the_listener_raises_does_not_end_the_task_that_waits_for_it() -> None:
    async def test() -> None:
        call = WarmUpTask(StoppedListener(), WARMING)
        with pytest.raises(RuntimeError, match="Stop"):
            await call.ended(60)
        await call.tell_cancelled(WARMING, 60)

    asyncio.run(test())
