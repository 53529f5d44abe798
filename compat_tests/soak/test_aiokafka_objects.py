"""Repeated actions of aiokafka consumers add no objects, tasks, threads or descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError

from compat_tests.soak.conftest import BESIDES, FULL, QUIET, Broker
from compat_tests.soak.repetition import ROUNDS, added_by_each_round, sample
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.rebalance.events import HeartbeatAnswered
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, StickyAssignor, assignor
from kafka_assignors_aiokafka.cooperative import FencedInstanceIdError
from kafka_assignors_strategies import Standby

CONSUMERS = (CooperativeAIOKafkaConsumer, AIOKafkaConsumer)
STAYING = [
    pytest.param(CooperativeAIOKafkaConsumer, False, id="cooperative"),
    pytest.param(AIOKafkaConsumer, True, id="eager-static"),
    pytest.param(CooperativeAIOKafkaConsumer, True, id="cooperative-static", marks=pytest.mark.exhaustive),
    pytest.param(AIOKafkaConsumer, False, id="eager", marks=pytest.mark.exhaustive),
]
"""The class of a member that stays while another one joins and leaves, and whether it is a static member."""
TURN_MS = 10


class Nothing(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


class Raising(Nothing):
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        raise ValueError("the application's own mistake")


def make(
    broker: Broker, group: str, *topics: str, made: Any = CooperativeAIOKafkaConsumer, **settings: Any
) -> Any:
    """A consumer with short intervals; a stock one gets an assignor of ours."""
    if made is AIOKafkaConsumer:
        settings = {"partition_assignment_strategy": [StickyAssignor()], **settings}
    return made(
        *topics,
        **{
            "bootstrap_servers": broker.bootstrap,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": TURN_MS,
            "session_timeout_ms": 30_000,
            "retry_backoff_ms": TURN_MS,
            "fetch_max_wait_ms": TURN_MS,
            "auto_commit_interval_ms": 2 * TURN_MS,
            **settings,
        },
    )


@contextlib.asynccontextmanager
async def consuming(
    broker: Broker, group: str, *topics: str, owns: int, **settings: Any
) -> AsyncIterator[Any]:
    """A started consumer that owns `owns` partitions."""
    consumer = make(broker, group, *topics, **settings)
    await asyncio.wait_for(consumer.start(), HANG_S)
    try:
        await until(lambda: len(consumer.assignment()) == owns and consumer._coordinator.generation > 0)
        yield consumer
    finally:
        await consumer.stop()


async def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(TURN_MS / 1000)


async def read_for_ever(consumer: Any) -> None:
    while True:
        await consumer.getmany(timeout_ms=TURN_MS)


async def grown(repeat: Callable[[], Awaitable[object]], times: int) -> dict[str, int]:
    """The objects that each of `ROUNDS` rounds of `times` repetitions adds."""
    samples = []
    for _ in range(ROUNDS):
        for _ in range(times):
            await repeat()
        await drop_cancelled_timers()
        samples.append(sample())
    return added_by_each_round(samples, times)


async def drop_cancelled_timers() -> None:
    """Make the loop drop cancelled timers: it does so only if most of more than 100 are cancelled."""
    loop = asyncio.get_running_loop()
    for timer in [loop.call_later(60, print) for _ in range(1000)]:
        timer.cancel()
    await asyncio.sleep(0)


class Heartbeats:
    """Counts the heartbeat responses of a cooperative consumer."""

    def __init__(self, consumer: CooperativeAIOKafkaConsumer) -> None:
        self.answered = 0
        coordinator: Any = consumer._coordinator
        self._handle = coordinator.handle
        coordinator.handle = self._count

    def _count(self, event: Any) -> None:
        self._handle(event)
        self.answered += isinstance(event, HeartbeatAnswered)

    async def turn(self, consumer: CooperativeAIOKafkaConsumer) -> None:
        """Ask for records, at least once, until another heartbeat is answered."""
        before = self.answered
        while self.answered == before:
            await consumer.getmany(timeout_ms=TURN_MS)


@contextlib.asynccontextmanager
async def quiet_member(broker: Broker, situation: str, made: Any) -> AsyncIterator[Any]:
    group = broker.new_group()
    if situation in ("idle", "paused"):
        topic, owns = (QUIET, 1) if situation == "idle" else (FULL, 2)
        async with consuming(broker, group, topic, owns=owns, made=made) as consumer:
            if situation == "paused":
                consumer.pause(*consumer.assignment())
                await consumer.seek_to_beginning()
            yield consumer
        return
    active: dict[str, Any] = {"made": made}
    standby: dict[str, Any] = {"made": made}
    if situation == "standby":
        active["partition_assignment_strategy"] = [assignor(Standby())]
        standby["partition_assignment_strategy"] = [assignor(Standby(standby=True))]
    async with (
        # The assignor is sticky, so the first member keeps the only partition.
        consuming(broker, group, QUIET, owns=1, **active) as first,
        consuming(broker, group, QUIET, owns=0, **standby) as second,
    ):
        await until(lambda: len(first.assignment()) == 1)
        yield second


class TestQuietMembers:
    @pytest.mark.parametrize("situation", ["idle", "without-partitions", "paused", "standby"])
    def test_turns_and_heartbeats_of_a_cooperative_one_add_nothing(
        self, broker: Broker, situation: str
    ) -> None:
        async def main() -> None:
            async with quiet_member(broker, situation, CooperativeAIOKafkaConsumer) as consumer:
                heartbeats = Heartbeats(consumer)
                owned = len(consumer.assignment())
                assert await grown(lambda: heartbeats.turn(consumer), times=25) == {}
                assert len(consumer.assignment()) == owned

        asyncio.run(main())

    @pytest.mark.parametrize("situation", ["idle", "without-partitions"])
    def test_turns_with_an_assignor_of_ours_add_nothing(self, broker: Broker, situation: str) -> None:
        async def main() -> None:
            async with quiet_member(broker, situation, AIOKafkaConsumer) as consumer:
                assert await grown(lambda: consumer.getmany(timeout_ms=TURN_MS), times=25) == {}

        asyncio.run(main())

    @pytest.mark.parametrize("call", ["getone", "getmany"])
    def test_cancelled_calls_for_records_add_nothing(self, broker: Broker, call: str) -> None:
        async def main() -> None:
            async with quiet_member(broker, "idle", CooperativeAIOKafkaConsumer) as consumer:

                async def cancel() -> None:
                    asked = consumer.getone() if call == "getone" else consumer.getmany(timeout_ms=60_000)
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(asked, TURN_MS / 1000)

                assert await grown(cancel, times=25) == {}

        asyncio.run(main())


class TestBusyMembers:
    def test_records_and_automatic_commits_add_nothing(self, broker: Broker) -> None:
        async def main() -> None:
            async with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
                await consumer.seek_to_end()

                async def read() -> None:
                    broker.produce()
                    await consumer.getone()
                    await consumer.getone()

                assert await grown(read, times=10) == {}

        asyncio.run(main())

    @pytest.mark.parametrize("end", ["answered", "cancelled"])
    def test_commits_in_flight_add_nothing(self, broker: Broker, end: str) -> None:
        async def main() -> None:
            async with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:

                async def commit() -> None:
                    under_way = [
                        asyncio.ensure_future(consumer.commit({tp: offset}))
                        for offset in range(10)
                        for tp in consumer.assignment()
                    ]
                    await asyncio.sleep(0)
                    if end == "cancelled":
                        for each in under_way:
                            each.cancel()
                    await asyncio.gather(*under_way, return_exceptions=True)
                    await consumer.commit(dict.fromkeys(consumer.assignment(), 10))

                assert await grown(commit, times=10) == {}

        asyncio.run(main())

    def test_seeks_pauses_and_lookups_add_nothing(self, broker: Broker) -> None:
        async def main() -> None:
            async with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
                owned = list(consumer.assignment())

                async def churn() -> None:
                    consumer.pause(*owned)
                    await consumer.getmany(timeout_ms=TURN_MS)
                    consumer.seek(owned[0], 3)
                    consumer.resume(*owned)
                    await consumer.getmany(timeout_ms=TURN_MS)
                    await consumer.seek_to_beginning(owned[1])
                    assert await consumer.position(owned[1]) is not None
                    await consumer.seek_to_committed()
                    await consumer.committed(owned[0])
                    await consumer.end_offsets(owned)

                assert await grown(churn, times=10) == {}

        asyncio.run(main())


class TestRebalances:
    @pytest.mark.parametrize(("made", "static"), STAYING)
    def test_a_member_that_joins_and_leaves_adds_nothing(
        self, broker: Broker, made: Any, static: bool
    ) -> None:
        async def main() -> None:
            group = broker.new_group()
            instance_id = "one" if static else None
            async with consuming(
                broker, group, FULL, owns=2, made=made, group_instance_id=instance_id
            ) as consumer:

                async def rebalance() -> None:
                    async with consuming(broker, group, FULL, owns=1, made=made):
                        await until(lambda: len(consumer.assignment()) == 1)
                    await until(lambda: len(consumer.assignment()) == 2)

                assert await grown(rebalance, times=4) == {}

        asyncio.run(main())

    def test_changed_subscriptions_add_nothing(self, broker: Broker) -> None:
        async def main() -> None:
            async with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:

                async def change() -> None:
                    consumer.subscribe([FULL, BESIDES], listener=Nothing())
                    await until(lambda: len(consumer.assignment()) == 3)
                    consumer.subscribe([FULL], listener=Nothing())
                    await until(lambda: len(consumer.assignment()) == 2)
                    consumer.unsubscribe()
                    consumer.subscribe(pattern=f"^{BESIDES}$")
                    await until(lambda: len(consumer.assignment()) == 1)
                    consumer.unsubscribe()

                assert await grown(change, times=4) == {}

        asyncio.run(main())

    def test_a_listener_that_raises_adds_nothing(self, broker: Broker) -> None:
        async def main() -> None:
            async with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
                consumer.subscribe([FULL], listener=Raising())

                async def rejoin() -> None:
                    consumer.enforce_rebalance()
                    with pytest.raises(KafkaError):
                        await read_for_ever(consumer)

                assert await grown(rejoin, times=6) == {}

        asyncio.run(main())

    def test_a_member_that_the_group_removes_adds_nothing(self, broker: Broker) -> None:
        async def main() -> None:
            group = broker.new_group()
            async with consuming(broker, group, FULL, owns=2) as consumer:
                coordinator = consumer._coordinator

                async def remove() -> None:
                    member = coordinator.member_id
                    # As an administrator would do it, without the knowledge of the consumer.
                    await coordinator.leave_group(member, "")
                    await until(
                        lambda: coordinator.member_id not in ("", member) and len(consumer.assignment()) == 2
                    )

                assert await grown(remove, times=4) == {}

        asyncio.run(main())


class TestErrors:
    @pytest.mark.parametrize("call", ["getmany", "none", "cancelled getone"])
    def test_refused_heartbeats_add_nothing(self, broker: Broker, call: str) -> None:
        async def main() -> None:
            group = broker.new_group()
            async with consuming(broker, group, FULL, owns=2, enable_auto_commit=False) as consumer:
                heartbeats = Heartbeats(consumer)

                async def refused() -> None:
                    before = heartbeats.answered
                    while heartbeats.answered == before:
                        with contextlib.suppress(GroupAuthorizationFailedError, asyncio.TimeoutError):
                            if call == "getmany":
                                await consumer.getmany(timeout_ms=TURN_MS)
                            elif call == "none":
                                await asyncio.sleep(TURN_MS / 1000)
                            else:
                                await asyncio.wait_for(consumer.getone(), TURN_MS / 1000)

                broker.refuse(group)
                try:
                    with pytest.raises(GroupAuthorizationFailedError):
                        await read_for_ever(consumer)
                    assert await grown(refused, times=20) == {}
                finally:
                    broker.accept(group)

        asyncio.run(main())

    def test_connections_that_are_reset_add_nothing(self, broker: Broker) -> None:
        async def main() -> None:
            client = "to-be-reset"
            settings = {"bootstrap_servers": broker.proxy.bootstrap, "client_id": client}
            async with consuming(broker, broker.new_group(), FULL, owns=2, **settings) as consumer:
                heartbeats = Heartbeats(consumer)

                async def reset() -> None:
                    broker.reset_connections(client)
                    await heartbeats.turn(consumer)
                    await heartbeats.turn(consumer)

                assert await grown(reset, times=2) == {}

        asyncio.run(main())

    def test_a_fatal_error_adds_nothing_when_it_is_raised_again(self, broker: Broker) -> None:
        async def main() -> None:
            group = broker.new_group()
            async with (
                consuming(broker, group, FULL, owns=2, group_instance_id="one") as fenced,
                consuming(broker, group, FULL, owns=2, group_instance_id="one"),
            ):

                async def read() -> None:
                    with pytest.raises(FencedInstanceIdError):
                        await read_for_ever(fenced)

                assert await grown(read, times=25) == {}

        asyncio.run(main())


class TestLives:
    @pytest.mark.parametrize("made", CONSUMERS)
    def test_consumers_that_were_stopped_leave_nothing(self, broker: Broker, made: Any) -> None:
        async def main() -> None:
            group = broker.new_group()

            async def live() -> None:
                async with consuming(broker, group, FULL, owns=2, made=made):
                    pass

            assert await grown(live, times=3) == {}

        asyncio.run(main())

    def test_consumers_that_never_subscribed_leave_nothing(self, broker: Broker) -> None:
        async def main() -> None:
            async def live() -> None:
                consumer = make(broker, broker.new_group())
                await consumer.start()
                await consumer.stop()

            assert await grown(live, times=3) == {}

        asyncio.run(main())
