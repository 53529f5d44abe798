"""Leaders that request weights, on a real broker."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.weights import lag, member_ids, silent_server, write
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, assignor
from kafka_assignors_strategies import Weighted
from kafka_assignors_strategies.for_kafka_python import LagWeights, RateWeights

PROGRAM = "compat_tests.kafka_python.cooperative_member"


@contextlib.contextmanager
def polling(group: GroupOfMembers, weights: Any, count: int, **settings: Any) -> Iterator[list[Any]]:
    """`count` consumers, each polled on its own thread."""
    consumers = [
        CooperativeKafkaConsumer(
            *group.topics,
            bootstrap_servers=group.kafka.bootstrap,
            group_id=group.id,
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[assignor(Weighted(), weights=weights, weights_timeout_s=HANG_S)],
            **settings,
        )
        for _ in range(count)
    ]
    ended = threading.Event()

    def poll(consumer: Any) -> None:
        while not ended.is_set():
            consumer.poll(timeout_ms=100)
        consumer.close()

    threads = [threading.Thread(target=poll, args=[consumer], daemon=True) for consumer in consumers]
    for thread in threads:
        thread.start()
    try:
        yield consumers
    finally:
        ended.set()
        for thread in threads:
            thread.join(HANG_S)


def until_shares(expected: list[set[int]], consumers: list[Any]) -> None:
    """Wait until the consumers own these partitions, in any order."""
    deadline = time.monotonic() + HANG_S
    while True:
        shares = [{tp.partition for tp in consumer.assignment()} for consumer in consumers]
        if sorted(map(sorted, shares)) == sorted(map(sorted, expected)):
            return
        assert time.monotonic() < deadline, shares
        time.sleep(0.1)


def test_members_share_the_lag_and_not_the_number(kafka: Kafka) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        lag(group, {2: 500, 4: 20})
        weights = LagWeights(group.id, base=10, bootstrap_servers=kafka.bootstrap)
        with polling(group, weights, 2, session_timeout_ms=45_000) as consumers:
            until_shares([{2}, {0, 1, 3, 4, 5}], consumers)


def test_members_share_what_comes_in_and_not_what_is_there(kafka: Kafka) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        lag(group, {4: 500, 2: 20})
        # Every partition lags, partition 4 most. Only the records between two looks count.
        weights = RateWeights(group.id, base=0, bootstrap_servers=kafka.bootstrap)
        assert weights(group.topics) == dict.fromkeys(group.topics, [None] * 6)
        write(group, {2: 1000, **dict.fromkeys((0, 1, 3, 4, 5), 20)})
        time.sleep(1.1)
        ((first, usual, hot, *others),) = weights(group.topics).values()
        assert usual is not None
        assert hot == pytest.approx(50 * usual, rel=0.01)
        assert {first, *others} == {usual}
        with polling(group, weights, 2, session_timeout_ms=45_000) as consumers:
            until_shares([{2}, {0, 1, 3, 4, 5}], consumers)


def test_the_group_does_not_wait_for_brokers_that_do_not_answer(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Mapping[str, int]] = []
    before: list[list[str]] = []
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group, silent_server() as address:
        silent = LagWeights(group.id, bootstrap_servers=address)

        def weights(topics: Mapping[str, int]) -> Any:
            asked.append(topics)
            before.append(member_ids(group))
            return silent(topics)

        # The assignor allows HANG_S, but the session limits the wait to five seconds.
        began = time.monotonic()
        with polling(group, weights, 1, session_timeout_ms=15_000) as consumers:
            until_shares([{0, 1, 2, 3}], consumers)
            took = time.monotonic() - began
            time.sleep(1)
            # An expelled member would have come back with another id.
            assert before == [member_ids(group)]
        assert asked == [dict(group.topics)]
    assert took >= 5
    # There may be a second rebalance for another reason; a source is asked again only after its answer.
    warnings = [m for m in caplog.messages if "no weights from" in m]
    assert "it did not answer within 5 s; all weights count as unknown" in warnings[0]
    assert all("all weights count as unknown" in warning for warning in warnings)
