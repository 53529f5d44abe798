"""The rights that a consumer needs: with exactly these it consumes, without one it raises what is refused."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.secured_cluster import Principal, Right, SecuredCluster
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

GROUP, TOPIC = "readers", "orders"
NEEDED = (Right("Read", "Group", GROUP), Right("Read", "Topic", TOPIC))


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredCluster]:
    with SecuredCluster() as secured:
        secured.cluster.create_topic(TOPIC)
        producer = Producer({"bootstrap.servers": secured.cluster.bootstrap})
        producer.produce(TOPIC, b"record")
        assert producer.flush(HANG_S) == 0
        yield secured


def settings(secured: SecuredCluster, who: Principal) -> dict[str, Any]:
    """Of a consumer of either client."""
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
            async with asyncio.timeout(HANG_S):
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
    # None has committed yet: each of them reads the one record.
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
