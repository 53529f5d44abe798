"""The rights that a consumer needs: with exactly these it consumes; without one it names the resource.

If a right is removed while the consumer runs, the consumer continues when it has the right again.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from compat_tests.scenarios.in_process import polling_until
from compat_tests.scripted.broker import Code, ScriptedBroker
from compat_tests.scripted.users import CLIENTS, User
from compat_tests.support.hang_limit import HANG_S, hang_limit, wait_for
from compat_tests.support.secured_cluster import Principal, Right, SecuredCluster
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

GROUP, TOPIC = "readers", "orders"
NEEDED = (Right("Read", "Group", GROUP), Right("Read", "Topic", TOPIC))


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredCluster]:
    with SecuredCluster() as secured:
        secured.cluster.create_topic(TOPIC)
        secured.cluster.produce({(TOPIC, 0): 1})
        yield secured


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
        wait_for("a record", lambda: consumer.poll(timeout_ms=200))
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
    first = settings(secured, secured.principal(*NEEDED)) | quick
    second = settings(secured, secured.principal(*NEEDED, secrets)) | quick
    with (
        closing(CooperativeKafkaConsumer(TOPIC, **first)) as leader,
        closing(CooperativeKafkaConsumer("secrets", **second)) as other,
    ):
        polling_until(leader.assignment, leader)
        cluster = leader._coordinator._cluster
        polling_until(lambda: cluster.unauthorized_topics, leader, other)
        for _ in range(3):  # Each refresh reports the unauthorized topic again.
            seen = cluster._last_successful_refresh_ms
            polling_until(lambda seen=seen: cluster._last_successful_refresh_ms > seen, leader, other)


# ---- a right that is removed and granted again while the consumer runs

GROUP_AUTHORIZATION_FAILED = 30
LOSS_S = 3.0
MOST_REQUESTS_A_SECOND, MOST_AT_ONCE = 13, 10
"""Limits of the requests (without Fetch) of a consumer without a right: it repeats a refused heartbeat after
0.1 s, and each call of the application sends a few requests."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("api", ["Heartbeat", "JoinGroup"])
def test_a_right_that_goes_causes_no_storm_and_the_consumer_goes_on_when_it_is_back(
    client: str, api: str
) -> None:
    async def run() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group(GROUP, {TOPIC: 2})
            user = User(broker, group, client, heartbeat_interval_ms=300, retry_backoff_ms=100)
            try:
                await user.start()
                assert await user.consumes()
                lost_until = time.monotonic() + LOSS_S
                refused = Code(GROUP_AUTHORIZATION_FAILED)
                group.answer(api, refused, times=math.inf, when=lambda _: time.monotonic() < lost_until)
                if api == "JoinGroup":
                    group.begin_rebalance()
                since = len(group.requests)
                await group.until(lambda: time.monotonic() > lost_until)
                sent = Counter(one.api for one in group.requests[since:] if one.api != "Fetch")
                assert sent.total() <= MOST_AT_ONCE + LOSS_S * MOST_REQUESTS_A_SECOND, sent
                assert {type(error).__name__ for error in user.raised} == {"GroupAuthorizationFailedError"}
                user.raised.clear()
                assert await user.consumes()
                again = len(group.requests)
                await group.until(lambda: group.sent("Heartbeat", since=again))
            finally:
                await user.close()

    asyncio.run(run())
