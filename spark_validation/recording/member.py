"""A member of a group in its own process: aiokafka, kafka-python or librdkafka.

    python -m spark_validation.recording.member '{"client": "aiokafka-stock", …}'    # fields of MemberConfig

The member consumes, commits, and obeys the lines on its standard input:

    stall 12            stop polling for 12 seconds
    subscribe a,b       change the subscription to topics a and b

It leaves the group when its standard input ends, so it never outlives its parent process.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import pkgutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["HEARTBEAT_MS", "MAX_POLL_MS", "METADATA_AGE_MS", "SESSION_MS", "MemberConfig"]

HEARTBEAT_MS = 1500
SESSION_MS = 8000
MAX_POLL_MS = 12000
"""These are far below the defaults, so that ten minutes show what otherwise takes a day."""

METADATA_AGE_MS = 1500
"""The time after which a leader notices added partitions."""

_POLL_S = 0.5
_COMMIT_INTERVAL_MS = 5000


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """The configuration of a member.

    Attributes:
        client: confluent, or aiokafka or kafka-python followed by -stock or -ours (our assignors).
        strategies: names of assignors, the preferred one first.
        instance_id: group.instance.id of a static member.
        protocol: classic, or consumer (KIP-848; confluent only).
    """

    client: str
    bootstrap: str
    group: str
    client_id: str
    topics: tuple[str, ...]
    strategies: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    protocol: str = "classic"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> MemberConfig:
        fields = json.loads(text)
        return cls(**{**fields, "topics": tuple(fields["topics"]), "strategies": tuple(fields["strategies"])})


class Orders:
    """The orders from standard input that the consuming loop has not executed yet."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._stall_s = 0.0
        self._topics: list[str] | None = None
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def take_stall_s(self) -> float:
        stall_s, self._stall_s = self._stall_s, 0.0
        return stall_s

    def take_topics(self) -> list[str] | None:
        topics, self._topics = self._topics, None
        return topics

    def obey(self, poll: Callable[[], object], subscribe: Callable[[list[str]], object]) -> None:
        """Poll until the order to stop, and execute the other orders between two polls."""
        while not self.stopping:
            poll()
            time.sleep(self.take_stall_s())
            topics = self.take_topics()
            if topics is not None:
                subscribe(topics)

    def _read(self) -> None:
        for line in sys.stdin:
            order, _, argument = line.strip().partition(" ")
            if order == "stall":
                self._stall_s = float(argument)
            elif order == "subscribe":
                self._topics = argument.split(",")
            else:
                raise ValueError(f"unknown order {line!r}")
        self._stop.set()


async def consume_aiokafka(config: MemberConfig, orders: Orders) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        bootstrap_servers=config.bootstrap,
        client_id=config.client_id,
        group_id=config.group,
        group_instance_id=config.instance_id,
        client_rack=config.rack,
        partition_assignment_strategy=_assignors(config),
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=MAX_POLL_MS,
        rebalance_timeout_ms=MAX_POLL_MS,
        metadata_max_age_ms=METADATA_AGE_MS,
        auto_commit_interval_ms=_COMMIT_INTERVAL_MS,
        auto_offset_reset="earliest",
    )
    consumer.subscribe(topics=list(config.topics))
    await consumer.start()
    try:
        while not orders.stopping:
            await consumer.getmany(timeout_ms=int(_POLL_S * 1000))
            # Only the polling stops: a separate task sends the heartbeats.
            await asyncio.sleep(orders.take_stall_s())
            topics = orders.take_topics()
            if topics is not None:
                consumer.subscribe(topics=topics)
    finally:
        await consumer.stop()


def consume_kafka_python(config: MemberConfig, orders: Orders) -> None:
    from kafka import KafkaConsumer

    settings: dict[str, Any] = {
        "bootstrap_servers": config.bootstrap.split(","),
        "client_id": config.client_id,
        "group_id": config.group,
        "partition_assignment_strategy": _assignors(config),
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "max_poll_interval_ms": MAX_POLL_MS,
        "metadata_max_age_ms": METADATA_AGE_MS,
        "auto_commit_interval_ms": _COMMIT_INTERVAL_MS,
        "auto_offset_reset": "earliest",
    }
    if config.instance_id is not None:
        settings["group_instance_id"] = config.instance_id
    if config.rack is not None:
        settings["client_rack"] = config.rack
    consumer = KafkaConsumer(**settings)
    consumer.subscribe(topics=list(config.topics))
    if config.client == "kafka-python-ours":
        # kafka-python may lead its first generation before it has metadata, and then assigns nothing until
        # the next generation. The recording needs our assignors' assignments from the first generation on.
        for topic in config.topics:
            consumer.partitions_for_topic(topic)
    try:
        orders.obey(lambda: consumer.poll(timeout_ms=int(_POLL_S * 1000)), consumer.subscribe)
    finally:
        consumer.close()


def consume_confluent(config: MemberConfig, orders: Orders) -> None:
    from confluent_kafka import Consumer

    settings: dict[str, Any] = {
        "bootstrap.servers": config.bootstrap,
        "client.id": config.client_id,
        "group.id": config.group,
        "group.protocol": config.protocol,
        "max.poll.interval.ms": MAX_POLL_MS,
        "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
        "auto.commit.interval.ms": _COMMIT_INTERVAL_MS,
        "auto.offset.reset": "earliest",
    }
    if config.protocol == "classic":
        settings["partition.assignment.strategy"] = ",".join(config.strategies)
        settings["session.timeout.ms"] = SESSION_MS
        settings["heartbeat.interval.ms"] = HEARTBEAT_MS
    if config.instance_id is not None:
        settings["group.instance.id"] = config.instance_id
    if config.rack is not None:
        settings["client.rack"] = config.rack
    consumer = Consumer(settings)
    consumer.subscribe(list(config.topics))
    try:
        orders.obey(lambda: consumer.consume(100, timeout=_POLL_S), consumer.subscribe)
    finally:
        consumer.close()


_ASSIGNORS = {
    "aiokafka-stock": {
        "range": "aiokafka.coordinator.assignors.range:RangePartitionAssignor",
        "roundrobin": "aiokafka.coordinator.assignors.roundrobin:RoundRobinPartitionAssignor",
        "sticky": "aiokafka.coordinator.assignors.sticky.sticky_assignor:StickyPartitionAssignor",
    },
    "kafka-python-stock": {
        "range": "kafka.coordinator.assignors.range:RangePartitionAssignor",
        "roundrobin": "kafka.coordinator.assignors.roundrobin:RoundRobinPartitionAssignor",
        "sticky": "kafka.coordinator.assignors.sticky.sticky_assignor:StickyPartitionAssignor",
        "cooperative-sticky": "kafka.coordinator.assignors.cooperative_sticky:CooperativeStickyAssignor",
    },
}
_OURS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def _assignors(config: MemberConfig) -> list[Any]:
    """The assignors of a client or of our plugin for it."""
    stock = _ASSIGNORS.get(config.client)
    if stock is not None:
        return [pkgutil.resolve_name(stock[name]) for name in config.strategies]
    plugin = "kafka_assignors_" + config.client.removesuffix("-ours").replace("-", "_")
    ours = [pkgutil.resolve_name(f"{plugin}:{_OURS[name]}") for name in config.strategies]
    return [each(rack=config.rack, instance_id=config.instance_id) for each in ours]


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    config = MemberConfig.from_json(sys.argv[1])
    orders = Orders()
    if config.client.startswith("aiokafka"):
        asyncio.run(consume_aiokafka(config, orders))
    elif config.client.startswith("kafka-python"):
        consume_kafka_python(config, orders)
    else:
        consume_confluent(config, orders)


if __name__ == "__main__":
    main()
