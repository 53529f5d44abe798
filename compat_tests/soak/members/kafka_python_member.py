"""`python -m compat_tests.soak.members.kafka_python_member ORDER` runs a consumer until it is killed."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata
from kafka.errors import CommitFailedError, KafkaError

from compat_tests.soak.members import member
from compat_tests.soak.members.member import Order, Samples, Turns
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, StickyAssignor, assignor
from kafka_assignors_strategies import Standby


def make(order: Order) -> Any:
    """The consumer; it joins in its first `poll`."""
    made: Any = KafkaConsumer
    settings = order.settings
    if order.consumer == member.COOPERATIVE:
        made = CooperativeKafkaConsumer
    if order.consumer != member.STOCK and order.role in (member.BUSY, member.STANDBY):
        strategy = Standby(standby=order.role == member.STANDBY)
        settings["partition_assignment_strategy"] = [assignor(strategy)]
    elif order.consumer == member.EAGER:
        settings["partition_assignment_strategy"] = [StickyAssignor()]
    return made(*order.topics, **settings)


def turn(consumer: Any, order: Order, turns: Turns) -> None:
    """Poll once, and do what the role requires."""
    batch = consumer.poll(timeout_ms=member.TURN_MS)
    turns.next(sum(map(len, batch.values())))
    if order.role == member.PAUSED:
        consumer.pause(*consumer.assignment())
    if order.role == member.BUSY:
        use(consumer, batch, turns)
    if order.role == member.REBALANCING and turns.is_each(60):
        wanted = order.topics if turns.is_each(120) else (*order.topics, f"{order.topics[0]}-besides")
        consumer.subscribe(list(wanted))


def use(consumer: Any, batch: Any, turns: Turns) -> None:
    """Commit, sometimes several offsets at the same time; pause, resume and seek."""
    offsets = {
        tp: OffsetAndMetadata(records[-1].offset + 1, "", -1) for tp, records in batch.items() if records
    }
    with contextlib.suppress(CommitFailedError):
        if offsets and turns.is_each(2):
            consumer.commit(offsets)
        elif offsets and turns.is_each(5):
            for tp, at in offsets.items():
                consumer.commit_async({tp: at})
    if turns.is_each(20):
        consumer.pause(*consumer.assignment())
    if turns.is_each(20, after=2):
        consumer.resume(*consumer.assignment())
    if turns.is_each(30):
        for tp, at in offsets.items():
            if tp in consumer.assignment():
                consumer.seek(tp, max(0, at.offset - 5))


def stay(order: Order) -> None:
    samples, turns = Samples(order), Turns()
    consumer = make(order)
    while True:
        try:
            turn(consumer, order, turns)
        except KafkaError as error:
            print(f"turn {turns.number}: {error!r}", flush=True)
            time.sleep(1)
        samples.take_if_due(turns=turns.number, records=turns.records, assigned=len(consumer.assignment()))


def restart(order: Order) -> None:
    """Start and close one consumer after the other; samples are taken between two consumers."""
    samples, turns, number = Samples(order), Turns(), 0
    while True:
        consumer = make(order)
        for _ in range(8):
            turns.next(sum(map(len, consumer.poll(timeout_ms=member.TURN_MS).values())))
        consumer.close()
        del consumer
        number += 1
        time.sleep(4)
        samples.take_if_due(turns=turns.number, records=turns.records, restarts=number)


if __name__ == "__main__":
    given = Order.from_arguments()
    restart(given) if given.role == member.RESTARTING else stay(given)
