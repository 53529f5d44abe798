"""kafka-python validates positions (KIP-320) when leaders change, for example when a broker restarts.

A partition is not fetched during validation. In these scenes, kafka-python's own consumer validates for
longer than the cluster needs. The last scene has fetches of a topic that was deleted and created again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from kafka import OffsetAndMetadata, TopicPartition

from compat_tests.scripted.broker import VERSIONS, Code, Held, Request, ScriptedBroker, broker_in_thread
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import settings_of
from compat_tests.support.hang_limit import HANG_S, wait_for
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75

# The metadata contain leader epochs that kafka-python accepts, and topic ids.
EPOCHS: Mapping[str, tuple[int, int]] = {**VERSIONS, "Metadata": (0, 10)}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with broker_in_thread(lambda: ScriptedBroker(EPOCHS)) as broker:
        yield broker
        assert broker.unexpected == []


def consuming(broker: ScriptedBroker, group: Group) -> Any:
    """A context manager with a consumer of the group."""
    settings = {"retry_backoff_ms": 50, "request_timeout_ms": int(2 * HANG_S * 1000)}
    return closing(CooperativeKafkaConsumer("orders", **settings_of(broker, group, **settings)))


def partitions_of(request: Request) -> set[int]:
    return {one.partition for topic in request.body.topics for one in topic.partitions}


def poll_until(consumer: Any, condition: Callable[[set[int]], Any]) -> bool:
    """Whether the condition became true for the partitions delivered meanwhile."""
    delivered: set[int] = set()
    deadline = time.monotonic() + HANG_S
    while not condition(delivered):
        if time.monotonic() > deadline:
            return False
        delivered |= {tp.partition for tp in consumer.poll(timeout_ms=20)}
    return True


def request_metadata(consumer: Any) -> None:
    """Ask for metadata from now on. A request on its way, perhaps answered already, would count for it."""
    cluster = consumer._client.cluster
    wait_for("the request on its way", lambda: not cluster.metadata_refresh_in_progress)
    cluster.request_update()


def change_leaders(consumer: Any, group: Group, epoch: int) -> None:
    """Set the leader epoch of all partitions, of which the consumer soon hears."""
    group.leader_epoch = epoch
    request_metadata(consumer)


def test_partitions_of_other_leaders_do_not_wait_for_the_one_that_is_silent(
    broker: ScriptedBroker,
) -> None:
    group = broker.group("epochs", {"orders": 4}, nodes=2)
    with consuming(broker, group) as consumer:
        assert poll_until(consumer, lambda delivered: len(delivered) == 4)
        released = asyncio.Event()
        # The leader of 1 and 3 responds late. The leader of 0 and 2 first does not know the new epoch.
        group.answer("OffsetForLeaderEpoch", Held(released), when=lambda one: 1 in partitions_of(one))
        group.answer(
            "OffsetForLeaderEpoch", Code(UNKNOWN_LEADER_EPOCH), when=lambda one: 0 in partitions_of(one)
        )
        change_leaders(consumer, group, 1)
        assert poll_until(consumer, lambda _: len(group.sent("OffsetForLeaderEpoch")) >= 2)

        assert poll_until(consumer, lambda delivered: {0, 2} <= delivered)
        group.loop.call_soon_threadsafe(released.set)
        assert poll_until(consumer, lambda delivered: len(delivered) == 4)


def test_metadata_of_a_broker_that_is_behind_do_not_take_a_leader_epoch_back(
    broker: ScriptedBroker,
) -> None:
    group = broker.group("epochs", {"orders": 4})
    with consuming(broker, group) as consumer:
        assert poll_until(consumer, lambda delivered: len(delivered) == 4)
        hears_since: list[int] = []

        def hears_of_an_older_epoch(_: Request) -> bool:
            if not hears_since:
                hears_since.append(len(group.requests))
                group.leader_epoch = 1
            return not has_heard()

        def has_heard() -> bool:
            # A further Metadata request shows that the client has read the response with the older epoch.
            return bool(hears_since) and len(group.sent("Metadata", since=hears_since[0])) > 2

        group.answer(
            "OffsetForLeaderEpoch",
            Code(FENCED_LEADER_EPOCH),
            times=math.inf,
            when=lambda one: all(p.current_leader_epoch != 2 for t in one.body.topics for p in t.partitions),
        )
        group.answer(
            "OffsetForLeaderEpoch", Code(UNKNOWN_LEADER_EPOCH), times=math.inf, when=hears_of_an_older_epoch
        )
        change_leaders(consumer, group, 2)
        assert poll_until(consumer, lambda _: has_heard())

        assert poll_until(consumer, lambda delivered: len(delivered) == 4)


def test_a_commit_has_the_leader_epoch_of_its_offset(broker: ScriptedBroker) -> None:
    group = broker.group("epochs", {"orders": 4})
    with consuming(broker, group) as consumer:
        assert poll_until(consumer, lambda delivered: len(delivered) == 4)
        consumer.commit({TopicPartition("orders", 1): OffsetAndMetadata(5, "mine", 7)})
        (topic,) = group.sent("OffsetCommit")[-1].body.topics
        (one,) = topic.partitions
        assert (one.committed_offset, one.committed_leader_epoch, one.committed_metadata) == (5, 7, "mine")


def test_a_fetch_of_the_old_log_that_is_answered_late_brings_no_record_and_a_pause_goes_on(
    broker: ScriptedBroker,
) -> None:
    old, paused = TopicPartition("orders", 0), TopicPartition("orders", 1)
    group = broker.group("recreated", {"orders": 2}, nodes=2)
    released = asyncio.Event()
    group.answer("Fetch", Held(released), when=lambda one: old.partition in partitions_of(one))
    with consuming(broker, group) as consumer:
        fetcher, states = consumer._fetcher, consumer._subscription.assignment

        def is_asked_anew(_: object) -> bool:
            reset = fetcher._reset_task
            return states[old] is not before and reset is not None and not reset.is_done

        assert poll_until(consumer, lambda _: group.fetched_from(old.partition))
        consumer.pause(paused)
        assert poll_until(consumer, lambda _: len(fetcher._under_way) == 1)  # The one that is held.
        before = states[old]
        group.recreated += 1
        request_metadata(consumer)
        assert poll_until(consumer, is_asked_anew)
        assert consumer.paused() == {paused}
        group.loop.call_soon_threadsafe(released.set)
        # The user does not poll until both are answered.
        wait_for("a position", lambda: states[old].has_valid_position)
        assert poll_until(consumer, lambda delivered: old.partition in delivered)
    assert group.fetched_from(old.partition)[:2] == [0, 0]
