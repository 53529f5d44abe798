"""kafka-python's fetches of the old log of a topic that was deleted and created again."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing

from kafka import TopicPartition

from compat_tests.scripted.broker import Held, Request, ScriptedBroker, broker_in_thread
from compat_tests.scripted.model import Group
from compat_tests.scripted.test_leader_epochs import EPOCHS, poll_until
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_kafka_python import CooperativeKafkaConsumer


def test_a_fetch_of_the_old_log_that_is_answered_late_brings_no_record_and_a_pause_goes_on() -> None:
    old, paused = TopicPartition("orders", 0), TopicPartition("orders", 1)
    with broker_in_thread(lambda: ScriptedBroker(EPOCHS)) as broker:
        group = broker.group("recreated", {"orders": 2}, nodes=2)
        released = asyncio.Event()
        group.answer("Fetch", Held(released), when=lambda request: old.partition in _fetched(request))
        consumer = CooperativeKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap,
            client_id="recreated",
            group_id="recreated",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        with closing(consumer):
            fetcher, states = consumer._fetcher, consumer._subscription.assignment

            def is_asked_anew(_: object) -> bool:
                reset = fetcher._reset_task
                return states[old] is not before and reset is not None and not reset.is_done

            assert poll_until(
                consumer, lambda _: any(old.partition in _fetched(one) for one in fetches(group))
            )
            consumer.pause(paused)
            assert poll_until(consumer, lambda _: len(fetcher._under_way) == 1)  # The one that is held.
            before = states[old]
            group.recreated += 1
            consumer._client.cluster.request_update()
            assert poll_until(consumer, is_asked_anew)
            assert consumer.paused() == {paused}
            group.loop.call_soon_threadsafe(released.set)
            deadline = time.monotonic() + HANG_S
            while not states[old].has_valid_position:  # The user does not poll until both are answered.
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert poll_until(consumer, lambda delivered: old.partition in delivered)
        offsets = [_fetched(one)[old.partition] for one in fetches(group) if old.partition in _fetched(one)]
        assert offsets[:2] == [0, 0]


def fetches(group: Group) -> list[Request]:
    return group.sent("Fetch")


def _fetched(request: Request) -> dict[int, int]:
    """The fetch offset of each partition in a Fetch request."""
    return {one.partition: one.fetch_offset for topic in request.body.topics for one in topic.partitions}
