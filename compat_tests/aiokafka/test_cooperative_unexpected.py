"""CooperativeAIOKafkaConsumers after unexpected errors and a sleep; how they stop, raise errors and lead."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import ConsumerStoppedError, KafkaConnectionError, KafkaError
from aiokafka.protocol.fetch import FetchRequest

from compat_tests.aiokafka import in_process
from compat_tests.scenarios.unexpected import UnexpectedScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, CooperativeStickyAssignor, assignor
from kafka_assignors_aiokafka.cooperative.requests import RequestingCoordinator
from kafka_assignors_aiokafka.cooperative.subscription import (
    CooperativeAssignment,
    CooperativeSubscriptionState,
)
from kafka_assignors_aiokafka.cooperative.topics import WatchingCoordinator
from kafka_assignors_strategies import Weighted

pytestmark = pytest.mark.exhaustive


class TestUnexpected(UnexpectedScenarios, in_process.AIOKafkaInProcess):
    requesting, watching, stock = RequestingCoordinator, WatchingCoordinator, GroupCoordinator

    def refresh_metadata(self, consumer: Any) -> None:
        client = consumer._coordinator._client
        in_process.waited_for(client.force_metadata_update)

    def hold_requests(self, consumer: Any) -> Callable[[], object]:
        coordinator, answering = consumer._coordinator, asyncio.Event()
        send = coordinator._send_req

        async def send_when_awake(request: Any) -> Any:
            await answering.wait()
            return await send(request)

        coordinator._send_req = send_when_awake
        return lambda: in_process.waited_for(answering.set)

    def must_deliver_nothing(self, consumer: Any) -> None:
        with pytest.raises(asyncio.TimeoutError):  # Otherwise they would be delivered at once.
            in_process.waited_for(lambda: asyncio.wait_for(consumer.consumer.getone(), 2))

    def open_connections(self, consumer: Any) -> int:
        return sum(each.connected() for each in consumer._coordinator._client._conns.values())

    @pytest.mark.parametrize(
        ("owner", "name"),
        [(RequestingCoordinator, "offset_commit"), (CooperativeAssignment, "all_consumed_offsets")],
    )
    def test_an_unexpected_error_of_an_automatic_commit_is_told_too(
        self, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
    ) -> None:
        automatic = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}
        self.goes_on_after(kafka, monkeypatch, owner, name, **automatic)


# ---- a consumer stops in every state, with any listener, and more than once


@contextlib.asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Check that the tasks started in the block end."""
    before = asyncio.all_tasks()
    yield
    await in_process.until(lambda: asyncio.all_tasks() <= before)


@pytest.mark.parametrize("resists", [False, True])
@in_process.with_group(orders=4)
async def test_a_listener_that_hangs_does_not_keep_a_consumer_that_stops_in_the_group(
    group: GroupOfMembers, resists: bool
) -> None:
    async def hang(_: set[TopicPartition]) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                if not resists:
                    raise

    released = asyncio.Event()
    listener = in_process.Listener(revoked=hang)
    async with (
        nothing_left(),
        in_process.consuming(group) as other,
        in_process.consuming(group, listener) as consumer,
    ):
        await consumer.wait_for_assignment()
        consumer._coordinator._max_poll_interval = 1.0  # Set after the start, which may be slow.
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.stop(), 0.1)
        await asyncio.wait_for(consumer.stop(), HANG_S)
        await in_process.until(lambda: len(other.assignment()) == 4)
        released.set()


@pytest.mark.parametrize("cancelled", ["the call", "its task"])
@in_process.with_group(orders=4)
async def test_a_stop_that_is_cancelled_goes_on_with_the_next_one(
    group: GroupOfMembers, cancelled: str
) -> None:
    async def commit_later(revoked: set[TopicPartition]) -> None:
        await released.wait()
        await consumer.commit(dict.fromkeys(revoked, 7))

    released = asyncio.Event()
    listener = in_process.Listener(revoked=commit_later)
    async with nothing_left():
        consumer = in_process.consumer_of(group)
        consumer.subscribe(list(group.topics), listener=listener)
        await asyncio.wait_for(consumer.start(), HANG_S)
        stopping = asyncio.create_task(consumer.stop())
        await in_process.until(lambda: listener.told("revoked"))
        (stopping if cancelled == "the call" else consumer._stopping).cancel()
        await asyncio.wait([stopping])
        assert stopping.cancelled()
        released.set()
        await asyncio.wait_for(consumer.stop(), HANG_S)
        await asyncio.wait_for(consumer.stop(), HANG_S)
    async with in_process.consuming(group) as successor:
        assert successor.assignment() == in_process.of(group, 0, 1, 2, 3)
        assert {await successor.committed(tp) for tp in successor.assignment()} == {7}


@in_process.with_group(orders=1)
async def test_calls_that_wait_for_an_assignment_end_when_the_consumer_stops(
    group: GroupOfMembers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nothing_left(), in_process.consuming(group), in_process.consuming(group) as consumer:
        assert await consumer.wait_for_assignment(timeout_ms=100) == set()
        # This is the state after the process was frozen.
        monkeypatch.setattr(CooperativeSubscriptionState, "reassignment_in_progress", True)
        calls = [
            asyncio.create_task(call)
            for call in (
                consumer.getmany(timeout_ms=60_000),
                consumer.getone(),
                consumer.wait_for_assignment(),
            )
        ]
        await in_process.until(lambda: len(consumer._subscription._assignment_waiters) == 3)
        await asyncio.wait_for(consumer.stop(), HANG_S)
        ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), HANG_S)
        assert ended[0] == {}
        assert [type(one) for one in ended[1:]] == [ConsumerStoppedError] * 2


@in_process.with_group(orders=4)
async def test_a_consumer_stops_while_a_failed_fetch_waits_for_its_next_try(
    group: GroupOfMembers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nothing_left(), in_process.consuming(group, retry_backoff_ms=60_000) as consumer:
        send = consumer._client.send

        async def refuse_fetches(node_id: int, request: Any, **group: Any) -> Any:
            if isinstance(request, FETCHES):
                refused.set()
                raise KafkaConnectionError("no")
            return await send(node_id, request, **group)

        refused = asyncio.Event()
        monkeypatch.setattr(consumer._client, "send", refuse_fetches)
        await asyncio.wait_for(refused.wait(), HANG_S)
        await asyncio.sleep(0)
        await asyncio.wait_for(consumer.stop(), HANG_S)


FETCHES = tuple(FetchRequest) if isinstance(FetchRequest, list) else FetchRequest


# ---- each error is raised once, in a call of the user

REFUSED = "on_partitions_revoked of .* failed: .*I will not"


def refuse(_: set[TopicPartition]) -> None:
    raise ValueError("I will not")


@in_process.with_group(orders=4)
async def test_a_cancelled_call_leaves_the_error_of_a_listener_to_the_next_one_or_to_one_that_waits(
    group: GroupOfMembers,
) -> None:
    async with in_process.consuming(group, in_process.Listener(revoked=refuse)) as consumer:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.getmany(timeout_ms=60_000), 0.1)
        async with in_process.consuming(group) as other:
            await in_process.until(lambda: len(other.assignment()) == 2)
            with pytest.raises(KafkaError, match=REFUSED):
                await consumer.getmany()
        assert await consumer.getmany() == {}

        await in_process.until(lambda: len(consumer.assignment()) == 4)
        cancelled = asyncio.create_task(consumer.getmany(timeout_ms=60_000))
        waiting = asyncio.create_task(consumer.getone())
        await in_process.until(lambda: len(consumer._fetcher._fetch_waiters) == 2)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        async with in_process.consuming(group):
            with pytest.raises(KafkaError, match=REFUSED):
                await asyncio.wait_for(waiting, HANG_S)


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.getone(),
        lambda consumer: consumer.getmany(timeout_ms=60_000),
        lambda consumer: consumer.wait_for_assignment(),
    ],
    ids=["getone", "getmany", "wait_for_assignment"],
)
@in_process.with_group(orders=1)
async def test_an_error_that_comes_while_a_call_looks_for_records_is_raised_in_it(
    group: GroupOfMembers, call: Callable[[CooperativeAIOKafkaConsumer], Any]
) -> None:
    async with in_process.consuming(group), in_process.consuming(group) as consumer:
        waiting = asyncio.create_task(call(consumer))
        state = consumer._subscription
        await in_process.until(lambda: state._fetch_waiters or state._assignment_waiters)
        # The call has been woken, and is about to look for records.
        for waiter in (*state._fetch_waiters, *state._assignment_waiters):
            waiter.set_result(None)
        consumer._subscription.tell(KafkaError("what it has to know"))
        with pytest.raises(KafkaError, match="what it has to know"):
            await asyncio.wait_for(waiting, HANG_S)
        assert await consumer.getmany() == {}


@in_process.with_group(orders=1)
async def test_an_error_before_the_first_subscription_is_not_lost(group: GroupOfMembers) -> None:
    consumer = CooperativeAIOKafkaConsumer(bootstrap_servers=group.kafka.bootstrap, group_id=group.id)
    await asyncio.wait_for(consumer.start(), HANG_S)
    try:
        await asyncio.sleep(0)  # The fetcher waits for an assignment.
        consumer._subscription.tell(KafkaError("what it has to know"))
        with pytest.raises(KafkaError, match="what it has to know"):
            await asyncio.wait_for(consumer.getmany(), HANG_S)
    finally:
        await consumer.stop()


# ---- leaders and sources of weights use no thread of the application's executor


def ones(topics: Mapping[str, int]) -> dict[str, list[int]]:
    return {name: [1] * count for name, count in topics.items()}


@pytest.mark.parametrize(
    "make",
    [CooperativeStickyAssignor, lambda: assignor(Weighted(), weights=ones)],
    ids=["sticky", "with weights"],
)
@in_process.with_group(orders=4)
async def test_a_leader_needs_no_thread_of_the_default_executor(group: GroupOfMembers, make: Any) -> None:
    released, loop = threading.Event(), asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    blocked = loop.run_in_executor(None, released.wait)
    try:
        async with in_process.consuming(group, partition_assignment_strategy=[make()]) as consumer:
            await in_process.until(lambda: len(consumer.assignment()) == 4)
        assert not blocked.done()
    finally:
        released.set()
