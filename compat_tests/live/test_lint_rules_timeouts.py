"""Lint's rules on timeouts describe real problems: each one is reproduced, and then fixed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.errors import InvalidSessionTimeoutError
from kafka import KafkaConsumer
from kafka.errors import KafkaConfigurationError

from compat_tests.live.lint_scenes import Scene, poll_until
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.librdkafka import leave


def aiokafka(**settings: Any) -> dict[str, Any]:
    return {"client": "aiokafka", "partition_assignment_strategy": ["stock:roundrobin"], **settings}


def librdkafka(**settings: Any) -> dict[str, Any]:
    return {
        "client": "librdkafka",
        "partition.assignment.strategy": "roundrobin",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def test_heartbeat_interval(kafka: Kafka) -> None:
    late = aiokafka(session_timeout_ms=8000, heartbeat_interval_ms=10_000)
    in_time = aiokafka(session_timeout_ms=8000, heartbeat_interval_ms=300)

    async def play() -> None:
        """The member with late heartbeats is removed; the other one stays."""
        async with Scene(kafka).aiokafka(late) as expelled, Scene(kafka).aiokafka(in_time) as staying:
            await staying.until(lambda: staying.owned)
            await expelled.until(lambda: expelled.revoked)
            assert not staying.revoked

    asyncio.run(play())
    scene = Scene(kafka)
    assert scene.lint(late)["heartbeat-interval"] == "error"
    assert scene.lint({**late, "heartbeat_interval_ms": 3000})["heartbeat-interval"] == "warning"
    assert "heartbeat-interval" not in scene.lint(in_time)

    with pytest.raises(KafkaConfigurationError, match="must be lower than the session timeout"):
        KafkaConsumer(
            bootstrap_servers=kafka.bootstrap,
            group_id=scene.group,
            session_timeout_ms=1000,
            heartbeat_interval_ms=2000,
        )


def test_session_timeout_bounds(kafka: Kafka) -> None:
    # The brokers of these tests accept 1 s and more.
    scene = Scene(kafka)
    short, allowed = (
        aiokafka(session_timeout_ms=500, heartbeat_interval_ms=100),
        aiokafka(session_timeout_ms=3000),
    )

    async def join(settings: dict[str, Any]) -> None:
        async with scene.aiokafka(settings) as member:
            await member.until(lambda: member.owned)

    with pytest.raises(InvalidSessionTimeoutError):
        asyncio.run(join(short))
    asyncio.run(join(allowed))
    assert scene.lint(short, live=True)["session-timeout-bounds"] == "error"
    assert "session-timeout-bounds" not in scene.lint(allowed, live=True)
    # Without a broker, lint uses Kafka's default of 6 s.
    assert scene.lint(allowed)["session-timeout-bounds"] == "warning"


def test_rebalance_timeout(kafka: Kafka) -> None:
    short = aiokafka(session_timeout_ms=5000)
    long = aiokafka(session_timeout_ms=5000, rebalance_timeout_ms=60_000)

    async def robbed_in_its_listener(settings: dict[str, Any], listener_s: float) -> bool:
        """Whether another member owns all partitions while this member's listener is still running."""
        scene = Scene(kafka)
        async with scene.aiokafka(settings, listener_s=listener_s) as slow:
            await slow.until(lambda: slow.owned)
            async with scene.aiokafka(settings) as other:
                await other.until(lambda: other.owned)
                robbed = slow.in_listener and len(other.owned) == 4
                slow.may_return.set()
                return robbed

    async def both() -> list[bool]:
        return await asyncio.gather(
            robbed_in_its_listener(short, HANG_S), robbed_in_its_listener(long, listener_s=7)
        )

    assert asyncio.run(both()) == [True, False]
    scene = Scene(kafka)
    assert scene.lint(short)["rebalance-timeout"] == "info"
    assert scene.lint({**short, "rebalance_timeout_ms": 500})["rebalance-timeout"] == "warning"
    assert "rebalance-timeout" not in scene.lint(long)


def test_request_timeout(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    # The other member does not poll, so the rebalance waits for its full max.poll.interval.ms.
    other = librdkafka(session_timeout_ms=1000, heartbeat_interval_ms=300, max_poll_interval_ms=10_000)
    impatient, patient = aiokafka(request_timeout_ms=6000), aiokafka(request_timeout_ms=60_000)

    async def join(settings: dict[str, Any]) -> None:
        scene = Scene(kafka)
        consumer = scene.librdkafka(other)
        await asyncio.to_thread(poll_until, consumer, consumer.assignment)
        async with scene.aiokafka(settings) as member:
            await member.until(lambda: len(member.owned) == 4)
        await asyncio.to_thread(leave, consumer)

    def given_up() -> bool:
        return "Error sending JoinGroupRequest" in caplog.text

    asyncio.run(join(patient))
    assert not given_up()
    asyncio.run(join(impatient))
    assert given_up()
    scene = Scene(kafka)
    assert scene.lint(other, impatient)["request-timeout"] == "warning"
    assert "request-timeout" not in scene.lint(other, patient)
