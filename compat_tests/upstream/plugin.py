"""A pytest plugin for a client's own tests: it sets the broker and the consumer, and reports each outcome.

`test_clients` starts pytest with it, and with UPSTREAM in the environment, which has as JSON: the client, the
consumer (`stock` or `cooperative`), the broker, its release, and a file that gets a line for each test.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CLIENT, CONSUMER, BOOTSTRAP, KAFKA, REPORT = json.loads(os.environ["UPSTREAM"])


def stand_in(cooperative: type) -> type:
    """A subclass for tests that name no group: each of its consumers then joins its own group."""

    def init(self: Any, *topics: str, group_id: str | None = None, **settings: Any) -> None:
        cooperative.__init__(self, *topics, group_id=group_id or f"own-{uuid.uuid4().hex}", **settings)  # type: ignore[misc]

    return type(f"StandIn{cooperative.__name__}", (cooperative,), {"__init__": init})


def replace_consumer() -> None:
    """Replace the stock consumer in the packages from which the tests will import it."""
    if CLIENT == "aiokafka":
        import aiokafka.consumer
        import aiokafka.consumer.subscription_state

        from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
        from kafka_assignors_aiokafka.cooperative.subscription import CooperativeSubscriptionState

        aiokafka.consumer.subscription_state.SubscriptionState = CooperativeSubscriptionState
        aiokafka.AIOKafkaConsumer = aiokafka.consumer.AIOKafkaConsumer = stand_in(CooperativeAIOKafkaConsumer)
    else:
        import kafka.consumer

        from kafka_assignors_kafka_python import CooperativeKafkaConsumer

        kafka.KafkaConsumer = kafka.consumer.KafkaConsumer = stand_in(CooperativeKafkaConsumer)


class ExternalService:
    """The interface of a running broker that kafka-python's fixtures expect."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def open(self) -> None:
        pass

    close = dump_logs = open


def prepare_kafka_python() -> None:
    if not Path("test/service.py").is_file():  # The source archive lacks this module.
        service: Any = types.ModuleType("test.service")
        service.ExternalService = service.SpawnedService = ExternalService
        sys.modules["test.service"] = service
    # The fixtures require a Kafka folder, but do not use it when KAFKA_URI names a broker.
    os.environ["KAFKA_ROOT"] = os.getcwd()
    os.environ["KAFKA_URI"] = f"kafka://{BOOTSTRAP}"
    os.environ["KAFKA_VERSION"] = KAFKA


if CLIENT == "kafka-python":
    prepare_kafka_python()
if CONSUMER == "cooperative":
    replace_consumer()


# ---- replacements for aiokafka's fixtures, which start a container


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    tests: Any = request.cls
    host, port = BOOTSTRAP.rsplit(":", 1)
    tests.loop, tests.hosts = loop, [BOOTSTRAP]
    tests.kafka_host, tests.kafka_port = host, int(port)
    tests.kafka_version = KAFKA


@pytest.fixture(autouse=True)
def _collect_garbage() -> Iterator[None]:
    # Objects that a test leaves behind then cause a warning in that test, not in a later one.
    yield
    gc.collect()


# ---- the report


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    # The last part has the error and its place.
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext[-400:]
    line = {"test": report.nodeid, "outcome": report.outcome, "reason": reason}
    with open(REPORT, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
