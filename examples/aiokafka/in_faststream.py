"""The cooperative consumer inside FastStream: a module to copy into an application.

    broker = use(KafkaBroker("localhost:9092"))

Each subscriber with a `group_id` then runs a `CooperativeAIOKafkaConsumer`. FastStream has no argument for
the class of its consumers, so `use` replaces the factory that the broker makes when it connects, which is
`broker.config.broker_config.builder` in FastStream 0.7.

The listener of a subscriber may have `on_partitions_warming` (docs/stateful.md). FastStream stops the broker
after its hooks on shutdown, so that other members can restore the partitions of this one before it leaves:

    @app.on_shutdown
    async def hand_over() -> None:
        await drain(broker, timeout_ms=60_000)
"""

# pyright: reportMissingImports=false
# FastStream is not installed where this package is checked.

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, StrategyAssignor

if TYPE_CHECKING:
    from faststream.kafka import KafkaBroker

__all__ = ["drain", "use"]

_DEFAULT = (RoundRobinPartitionAssignor,)
"""FastStream's default, for a subscriber that names no strategies."""


def use(
    broker: KafkaBroker, partition_assignment_strategy: Sequence[StrategyAssignor] | None = None
) -> KafkaBroker:
    """Let the subscribers of this broker consume cooperatively; returns the broker.

    `partition_assignment_strategy` lists assignors of `kafka_assignors_aiokafka`, the preferred one first,
    for subscribers that name none of their own; by default `CooperativeStickyAssignor()` alone. Subscribers
    without a group keep aiokafka's consumer. Call it before the broker starts. TypeError for any other broker
    than FastStream's KafkaBroker.
    """
    config: Any = getattr(getattr(broker, "config", None), "broker_config", None)
    if not hasattr(config, "builder") or not hasattr(config, "connect"):
        raise TypeError(f"use() takes a KafkaBroker of FastStream 0.7 or later, not {broker!r:.100}")

    async def connect(**settings: Any) -> None:
        await type(config).connect(config, **settings)
        config.builder = partial(_consumer, config.builder, partition_assignment_strategy)

    config.connect = connect
    return broker


async def drain(broker: KafkaBroker, *, timeout_ms: float | None = None) -> bool:
    """Let other members take over what the subscribers have; False if some of them have something left.

    See `CooperativeAIOKafkaConsumer.drain`. Records go on meanwhile. Call it before the broker stops.
    """
    consumers = {id(each.consumer): each.consumer for each in broker.subscribers if hasattr(each, "consumer")}
    cooperative = [each for each in consumers.values() if isinstance(each, CooperativeAIOKafkaConsumer)]
    return all(await asyncio.gather(*(each.drain(timeout_ms=timeout_ms) for each in cooperative)))


def _consumer(
    stock: partial[AIOKafkaConsumer], strategies: Sequence[StrategyAssignor] | None, /, **settings: Any
) -> AIOKafkaConsumer:
    """The consumer of a subscriber; `stock` is aiokafka's class with FastStream's settings."""
    if settings.get("group_id") is None:
        return stock(**settings)
    if tuple(settings.get("partition_assignment_strategy") or _DEFAULT) == _DEFAULT:
        settings["partition_assignment_strategy"] = strategies
    return _Consumer(**{**stock.keywords, **settings})


class _Consumer(CooperativeAIOKafkaConsumer):
    """A cooperative consumer whose listener may be one that FastStream has made."""

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        if listener is not None and type(listener).__module__.startswith("faststream."):
            listener = _Listener(self, listener)
        super().subscribe(topics, pattern=pattern, listener=listener)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Calls FastStream's own listener with all owned partitions, and the user's with the changes.

    FastStream logs the assigned partitions, and warns of a member without partitions if there are none. A
    cooperative consumer passes the added partitions alone, and most rebalances add none.
    """

    def __init__(self, consumer: AIOKafkaConsumer, listener: Any) -> None:
        self._consumer = consumer
        self._logging = getattr(listener, "logging_listener", listener)
        self._users = getattr(listener, "listener", None)
        for name in ("on_partitions_warming", "on_warming_cancelled"):
            if hasattr(self._users, name):
                setattr(self, name, getattr(self._users, name))

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        await self._logging.on_partitions_assigned(self._consumer.assignment())
        await self._call("on_partitions_assigned", assigned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        await self._call("on_partitions_revoked", revoked)

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        has_it = hasattr(self._users, "on_partitions_lost")
        await self._call("on_partitions_lost" if has_it else "on_partitions_revoked", lost)

    async def _call(self, method: str, partitions: set[TopicPartition]) -> None:
        if self._users is not None:
            returned = getattr(self._users, method)(partitions)
            if inspect.isawaitable(returned):
                await returned
