"""Traces of records that the cooperative consumers deliver: by OpenTelemetry and by Datadog's `ddtrace`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from opentelemetry.instrumentation.aiokafka import AIOKafkaInstrumentor
from opentelemetry.instrumentation.kafka import KafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.fixture
def topic(kafka: Kafka, request: pytest.FixtureRequest) -> str:
    """A topic with one record, which is part of a trace."""
    name = f"traced-{abs(hash(request.node.name)) % 10**8}"
    kafka.create_topic(name, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(name, b"record", headers=[("traceparent", f"00-{TRACE}-{PARENT}-01".encode())])
    assert producer.flush(HANG_S) == 0
    return name


@contextmanager
def instrumented(instrumentor: Any) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor.instrument(tracer_provider=provider)
    try:
        yield exporter
    finally:
        instrumentor.uninstrument()


def the_span_of_the_record(exporter: InMemorySpanExporter) -> Any:
    (span,) = exporter.get_finished_spans()
    return span


def test_opentelemetry_sees_what_the_cooperative_consumer_of_aiokafka_delivers(
    kafka: Kafka, topic: str
) -> None:
    async def consume() -> None:
        consumer = CooperativeAIOKafkaConsumer(
            topic, group_id=topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
        )
        async with asyncio.timeout(HANG_S), consumer:  # type: ignore[attr-defined]  # Python 3.11
            await consumer.getone()

    with instrumented(AIOKafkaInstrumentor()) as exporter:
        asyncio.run(consume())
    span = the_span_of_the_record(exporter)
    assert topic in span.name
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" == TRACE
    assert span.attributes["messaging.consumer.group.name"] == topic


def test_opentelemetry_sees_what_the_cooperative_consumer_of_kafka_python_delivers(
    kafka: Kafka, topic: str
) -> None:
    with instrumented(KafkaInstrumentor()) as exporter:
        consumer = CooperativeKafkaConsumer(
            topic, group_id=topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
        )
        with closing(consumer):
            assert next(consumer).value == b"record"
    span = the_span_of_the_record(exporter)
    assert topic in span.name
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE] or (
        span.parent is not None and f"{span.parent.trace_id:032x}" == TRACE
    )


DATADOG = """
import asyncio, json, sys
import ddtrace
from ddtrace.trace import TraceFilter, tracer

bootstrap, topic = sys.argv[1:]
spans = []

class Keep(TraceFilter):
    def process_trace(self, trace):
        spans.extend(trace)
        return None  # which sends nothing to an agent

tracer.configure(trace_processors=[Keep()])
ddtrace.patch(aiokafka=True)
settings = dict(group_id=topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")

async def consume():
    from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
    async with CooperativeAIOKafkaConsumer(topic, **settings) as consumer:
        await consumer.getone()

asyncio.run(consume())
tags = ("kafka.topic", "kafka.group_id")
print(json.dumps([[span.name, *map(span.get_tag, tags)] for span in spans]))
"""


def test_datadog_sees_what_the_cooperative_consumer_of_aiokafka_delivers(kafka: Kafka, topic: str) -> None:
    # `ddtrace` cannot undo all its patches, so it runs in a separate process.
    done = subprocess.run(
        [sys.executable, "-c", DATADOG, kafka.bootstrap, topic],
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    spans = json.loads(done.stdout.splitlines()[-1])
    assert ["kafka.consume", topic, topic] in spans
