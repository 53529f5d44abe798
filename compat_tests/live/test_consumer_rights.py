"""The rights that a consumer needs: with exactly these it consumes; without one it names the resource.

If a right is removed while the consumer runs, each call that needs it names the resource. The consumer
continues when it has the right again.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any
from unittest.mock import patch

import pytest
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Producer
from kafka.errors import KafkaError as KafkaPythonError
from kafka.net.connection import KafkaConnection

from compat_tests.scenarios.in_process import polling_until
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.secured_cluster import Principal, Right, SecuredCluster
from kafka_assignors.rebalance.observer import RebalanceObserver, RebalanceOutcome
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

GROUP, TOPIC = "readers", "orders"
NEEDED = (Right("Read", "Group", GROUP), Right("Read", "Topic", TOPIC))


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredCluster]:
    with SecuredCluster() as secured:
        secured.cluster.create_topic(TOPIC)
        produce(secured)
        yield secured


def produce(secured: SecuredCluster) -> None:
    producer = Producer({"bootstrap.servers": secured.cluster.bootstrap})
    producer.produce(TOPIC, b"record")
    assert producer.flush(HANG_S) == 0


def settings(secured: SecuredCluster, who: Principal) -> dict[str, Any]:
    """The settings of a consumer, for both clients."""
    return {
        "bootstrap_servers": who.bootstrap,
        "group_id": GROUP,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": who.properties["sasl.mechanism"],
        "sasl_plain_username": who.name,
        "sasl_plain_password": who.properties["sasl.password"],
        "ssl_context": ssl.create_default_context(cafile=secured.certificate),
    }


def consume_with_aiokafka(**settings: Any) -> None:
    async def consume() -> None:
        consumer = CooperativeAIOKafkaConsumer(TOPIC, **settings)
        try:
            async with asyncio.timeout(HANG_S):  # type: ignore[attr-defined]  # Python 3.11
                await consumer.start()
                await consumer.getone()
                await consumer.commit()
        finally:
            await consumer.stop()

    asyncio.run(consume())


def consume_with_kafka_python(**settings: Any) -> None:
    with closing(CooperativeKafkaConsumer(TOPIC, **settings)) as consumer:
        deadline = time.monotonic() + HANG_S
        while not consumer.poll(timeout_ms=200):
            assert time.monotonic() < deadline
        consumer.commit()


CONSUMERS = pytest.mark.parametrize("consume", [consume_with_aiokafka, consume_with_kafka_python])


@CONSUMERS
def test_with_exactly_these_rights_a_consumer_consumes(
    secured: SecuredCluster, consume: Callable[..., None]
) -> None:
    # No consumer has committed: each one reads the only record.
    secured.cluster.delete_group(GROUP)
    consume(**settings(secured, secured.principal(*NEEDED)))


@CONSUMERS
@pytest.mark.parametrize("missing", NEEDED, ids=str)
def test_without_a_right_a_consumer_raises_which_resource_it_is(
    secured: SecuredCluster, consume: Callable[..., None], missing: Right
) -> None:
    who = secured.principal(*{*NEEDED} - {missing})
    with pytest.raises(Exception, match=missing.name) as error:
        consume(**settings(secured, who))
    assert type(error.value).__name__ == f"{missing.resource}AuthorizationFailedError"


def test_topics_of_others_that_a_leader_may_not_describe_do_not_concern_its_user(
    secured: SecuredCluster,
) -> None:
    secured.cluster.delete_group(GROUP)
    secured.cluster.create_topic("secrets", 2)
    secrets = Right("Read", "Topic", "secrets")
    quick = {"heartbeat_interval_ms": 200, "metadata_max_age_ms": 200}
    with (
        closing(
            CooperativeKafkaConsumer(TOPIC, **settings(secured, secured.principal(*NEEDED)), **quick)
        ) as leader,
        closing(
            CooperativeKafkaConsumer(
                "secrets", **settings(secured, secured.principal(*NEEDED, secrets)), **quick
            )
        ) as other,
    ):
        polling_until(leader.assignment, leader)
        cluster = leader._coordinator._cluster
        polling_until(lambda: cluster.unauthorized_topics, leader, other)
        for _ in range(3):  # Each refresh reports the unauthorized topic again.
            seen = cluster._last_successful_refresh_ms
            polling_until(lambda seen=seen: cluster._last_successful_refresh_ms > seen, leader, other)


# ---- a right that is removed and granted again while the consumer runs

PAUSE_S = 0.05
"""How long the application waits after an error before it calls the consumer again."""

LOSS_S = 3.0
CALM_S = 1.0
"""A consumer without an error for this long has its rights again."""

MOST_REQUESTS_A_SECOND, MOST_AT_ONCE = 13, 10
"""Limits of the requests (without Fetch) of a consumer without a right: it repeats a refused heartbeat after
0.1 s, and each call of the application sends a few requests."""


class Polling(RebalanceObserver):
    """An application that polls and commits in turn, and continues after errors.

    Attributes:
        errors: the number of errors, by type name and text.
        last_error: the time of the last error, on the monotonic clock.
        records: the number of records received.
        sent: the number of requests, by Kafka's name.
        observed: the number of rebalances by their outcome, and of refused heartbeats.
        enforce_rebalance: a method of the consumer.
    """

    def __init__(self) -> None:
        self.errors: Counter[tuple[str, str]] = Counter()
        self.last_error = 0.0
        self.records = 0
        self.sent: Counter[str] = Counter()
        self.observed: Counter[str] = Counter()
        self.enforce_rebalance: Callable[[], None] = int

    def rebalance_ended(self, *, outcome: RebalanceOutcome, **_: Any) -> None:
        self.observed[outcome.value] += 1

    def heartbeat_answered(self, *, ok: bool, **_: Any) -> None:
        self.observed["refused heartbeats"] += not ok

    def asks(self, request: Any) -> None:
        name, _, _ = type(request).__name__.partition("Request")
        self.sent[name] += 1

    def failed(self, error: Exception) -> None:
        self.errors[type(error).__name__, str(error)] += 1
        self.last_error = time.monotonic()

    def got(self, records: Mapping[Any, list[Any]]) -> None:
        self.records += sum(map(len, records.values()))


Until = Callable[[Callable[[Polling], bool]], None]
"""Runs the application until the condition holds."""


def play_with_aiokafka(scene: Callable[[Polling, Until], None], **settings: Any) -> None:
    polling = Polling()
    with asyncio.Runner() as runner:  # type: ignore[attr-defined]  # Python 3.11

        async def start() -> CooperativeAIOKafkaConsumer:
            consumer = CooperativeAIOKafkaConsumer(TOPIC, observer=polling, **settings)
            polling.enforce_rebalance = consumer.enforce_rebalance
            send = consumer._client.send

            async def counted(node: Any, request: Any, **options: Any) -> Any:
                polling.asks(request)
                return await send(node, request, **options)

            consumer._client.send = counted
            await consumer.start()
            return consumer

        async def run(condition: Callable[[Polling], bool]) -> None:
            async with asyncio.timeout(HANG_S):  # type: ignore[attr-defined]  # Python 3.11
                while not condition(polling):
                    try:
                        polling.got(await consumer.getmany(timeout_ms=100))
                        await consumer.commit()
                    except AiokafkaError as error:
                        polling.failed(error)
                        await asyncio.sleep(PAUSE_S)

        consumer = runner.run(start())
        try:
            scene(polling, lambda condition: runner.run(run(condition)))
        finally:
            runner.run(consumer.stop())


def play_with_kafka_python(scene: Callable[[Polling, Until], None], **settings: Any) -> None:
    polling = Polling()
    send = KafkaConnection._send_request

    def counted(connection: KafkaConnection, request: Any, **options: Any) -> Any:
        polling.asks(request)
        return send(connection, request, **options)

    with (
        patch.object(KafkaConnection, "_send_request", counted),
        closing(CooperativeKafkaConsumer(TOPIC, observer=polling, **settings)) as consumer,
    ):
        polling.enforce_rebalance = consumer.enforce_rebalance

        def run(condition: Callable[[Polling], bool]) -> None:
            deadline = time.monotonic() + HANG_S
            while not condition(polling):
                assert time.monotonic() < deadline
                try:
                    polling.got(consumer.poll(timeout_ms=100))
                    consumer.commit()
                except KafkaPythonError as error:
                    polling.failed(error)
                    time.sleep(PAUSE_S)

        scene(polling, run)


@pytest.mark.parametrize("play", [play_with_aiokafka, play_with_kafka_python])
@pytest.mark.parametrize("right", NEEDED, ids=str)
def test_a_right_that_goes_is_named_without_a_storm_and_the_consumer_goes_on_when_it_is_back(
    secured: SecuredCluster,
    play: Callable[..., None],
    right: Right,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secured.cluster.delete_group(GROUP)
    who = secured.principal(*NEEDED)

    def scene(polling: Polling, until: Until) -> None:
        until(lambda polling: polling.records > 0)
        polling.errors.clear()
        caplog.clear()
        with secured.without(who, right):
            until(lambda polling: bool(polling.errors))
            before = polling.sent.copy()
            begin = time.monotonic()
            until(lambda _: time.monotonic() > begin + LOSS_S)
            counts = polling.observed
            if right.resource == "Group":  # A member is refused when it is in the group, and when it joins.
                until(lambda _: counts["refused heartbeats"] > 0)
                failed = counts["failed"]
                polling.enforce_rebalance()
                until(lambda _: counts["failed"] > failed + 1)
            sent = polling.sent - before
            sent["Fetch"] = 0
            most = MOST_AT_ONCE + (time.monotonic() - begin) * MOST_REQUESTS_A_SECOND
            assert sent.total() <= most, sent
            assert {kind for kind, _ in polling.errors} == {f"{right.resource}AuthorizationFailedError"}
            assert all(right.name in text for _, text in polling.errors)
            ours = Counter(
                record.getMessage() for record in caplog.records if record.name.startswith("kafka_assignors")
            )
            assert all(number <= 3 for number in ours.values()), ours
            assigned = counts["assigned"]
        read = polling.records
        produce(secured)
        until(lambda polling: polling.records > read and time.monotonic() > polling.last_error + CALM_S)
        # A member consumes and commits while it joins again.
        until(lambda _: right.resource != "Group" or counts["assigned"] > assigned)

    play(
        scene,
        **settings(secured, who),
        metadata_max_age_ms=1000,
        heartbeat_interval_ms=300,
        session_timeout_ms=30_000,
    )
