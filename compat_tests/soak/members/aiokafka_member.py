"""`python -m compat_tests.soak.members.aiokafka_member ORDER` runs an aiokafka consumer until killed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from compat_tests.soak.members import member
from compat_tests.soak.members.member import Order, Samples, Turns
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, StickyAssignor, assignor
from kafka_assignors_strategies import Standby


def make(order: Order) -> Any:
    """The consumer, not started."""
    made: Any = AIOKafkaConsumer
    settings = order.settings
    if order.consumer == member.COOPERATIVE:
        made = CooperativeAIOKafkaConsumer
    if order.consumer != member.STOCK and order.role in (member.BUSY, member.STANDBY):
        strategy = Standby(standby=order.role == member.STANDBY)
        settings["partition_assignment_strategy"] = [assignor(strategy)]
    elif order.consumer == member.EAGER:
        settings["partition_assignment_strategy"] = [StickyAssignor()]
    return made(*order.topics, **settings)


async def turn(consumer: Any, order: Order, turns: Turns) -> None:
    """Ask for records once, and do what the role requires."""
    if order.role == member.IDLE and turns.is_each(2):
        # A cancelled call must not add objects either.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.getone(), member.TURN_MS / 1000)
        turns.next(0)
        return
    batch = await consumer.getmany(timeout_ms=member.TURN_MS)
    turns.next(sum(map(len, batch.values())))
    if order.role == member.PAUSED:
        consumer.pause(*consumer.assignment())
    if order.role == member.BUSY:
        await use(consumer, batch, turns)
    if order.role == member.REBALANCING and turns.is_each(60):
        wanted = order.topics if turns.is_each(120) else (*order.topics, f"{order.topics[0]}-besides")
        consumer.subscribe(wanted)


async def use(consumer: Any, batch: Any, turns: Turns) -> None:
    """Commit, sometimes several offsets at the same time; pause, resume and seek."""
    offsets = {tp: records[-1].offset + 1 for tp, records in batch.items() if records}
    with contextlib.suppress(CommitFailedError, IllegalStateError):
        if offsets and turns.is_each(2):
            await consumer.commit(offsets)
        elif offsets and turns.is_each(5):
            await asyncio.gather(*(consumer.commit({tp: at}) for tp, at in offsets.items()))
        if turns.is_each(20):
            consumer.pause(*consumer.assignment())
        if turns.is_each(20, after=2):
            consumer.resume(*consumer.assignment())
        if turns.is_each(30):
            for tp, at in offsets.items():
                consumer.seek(tp, max(0, at - 5))


async def stay(order: Order) -> None:
    samples, turns = Samples(order), Turns()
    consumer = make(order)
    await consumer.start()
    while True:
        try:
            await turn(consumer, order, turns)
        except KafkaError as error:
            print(f"turn {turns.number}: {error!r}", flush=True)
            await asyncio.sleep(1)
        samples.take_if_due(turns=turns.number, records=turns.records, assigned=len(consumer.assignment()))


async def restart(order: Order) -> None:
    """Start and stop one consumer after the other; samples are taken between two consumers."""
    samples, turns, number = Samples(order), Turns(), 0
    while True:
        consumer = make(order)
        await consumer.start()
        for _ in range(8):
            turns.next(sum(map(len, (await consumer.getmany(timeout_ms=member.TURN_MS)).values())))
        await consumer.stop()
        del consumer
        number += 1
        await asyncio.sleep(4)
        samples.take_if_due(turns=turns.number, records=turns.records, restarts=number)


if __name__ == "__main__":
    given = Order.from_arguments()
    asyncio.run(restart(given) if given.role == member.RESTARTING else stay(given))
