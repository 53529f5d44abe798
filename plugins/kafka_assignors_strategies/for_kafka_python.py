"""Sources of weights for kafka-python's consumer that read offsets:

    assignor(Weighted(), weights=LagWeights("billing", bootstrap_servers="broker:9092"))

`LagWeights` and `RateWeights` open connections of their own, through kafka-python's public clients: those of
the consumer are busy with a rebalance and with fetches that a broker holds back, and need its lock in 2.x.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.structs import TopicPartition

from kafka_assignors.weights import GivenWeights
from kafka_assignors_strategies.weight_sources import (
    LagSource,
    OffsetWeights,
    PartitionOffsets,
    RateSource,
    WeightsFile,
)

__all__ = ["LagWeights", "RateWeights", "WeightsFile"]


_REQUEST_TIMEOUT_MS = 10_000
"""The group does not wait so long for a lookup, but its thread must end at some time."""


class _LooksUp(OffsetWeights):
    """Looks up the offsets of the group, with clients that it opens for each lookup."""

    def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """The weights of topics (name: number of partitions). KafkaError if a broker refuses a request."""
        partitions = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
        settings = {"request_timeout_ms": _REQUEST_TIMEOUT_MS, **self.settings}
        with _opened(KafkaAdminClient, settings) as admin:
            committed = _committed(admin, self.group_id)
        with _opened(KafkaConsumer, settings) as consumer:
            consumer.assign(partitions)  # Makes it request the metadata of these topics.
            end = {(tp.topic, tp.partition): n for tp, n in consumer.end_offsets(partitions).items()}
        return self.weigh(time.monotonic(), topics, committed, end)


@contextmanager
def _opened(kind: Any, settings: Mapping[str, Any]) -> Iterator[Any]:
    """A client of this kind. When its constructor fails, kafka-python 3 leaves a thread and its sockets."""
    make, made = kind.DEFAULT_CONFIG["kafka_client"], []

    def connect(**config: Any) -> Any:
        made.append(make(**config))
        return made[-1]

    try:
        client = kind(**{"kafka_client": connect, **settings})
    except BaseException:
        for connections in made:
            connections.close()
        raise
    with closing(client):
        yield client


def _committed(admin: Any, group_id: str) -> PartitionOffsets:
    if hasattr(admin, "list_group_offsets"):  # from 3.0 on
        found = admin.list_group_offsets(group_id)[group_id]
    else:
        found = admin.list_consumer_group_offsets(group_id)
    return {(tp.topic, tp.partition): offset.offset for tp, offset in found.items()}


class LagWeights(_LooksUp, LagSource):
    """The lag of a group as weights: `LagWeights("billing", base=1000, bootstrap_servers="broker:9092")`.

    `base` is added to the lag of each partition, in records. The settings are those of KafkaConsumer.
    """


class RateWeights(_LooksUp, RateSource):
    """The records that come to each partition, as weights: how many in 1000 seconds.

        RateWeights("billing", half_life_s=120.0, base=1.0, bootstrap_servers="broker:9092")

    `RateSource` of `weight_sources` describes the first arguments. The settings are those of
    KafkaConsumer.
    """
