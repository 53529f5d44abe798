"""The source of a leader's weights, and how long the leader waits for it.

The source runs in a thread of its own, while kafka-python goes on with its I/O. `LagWeights` and
`RateWeights` have connections of their own, through kafka-python's public clients: the consumer's are busy
with a rebalance and with fetches that a broker holds back, and in version 2 a user of them must hold the
consumer's lock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.structs import TopicPartition

from kafka_assignors.assignor import Assignor, NoWeightsError, Weighed
from kafka_assignors.group import Topic
from kafka_assignors.weights import GivenWeights, LagSource, OffsetWeights, PartitionOffsets, RateSource

_REQUEST_TIMEOUT_MS = 10_000
"""The request timeout of the clients that look offsets up.

The group does not wait for it, but the thread should end at some time.
"""


class _LooksUp(OffsetWeights):
    """Looks up the offsets of the group, with clients that it opens for that and closes again."""

    def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """The weights of topics (name: number of partitions). Raises KafkaError if brokers refuse it."""
        partitions = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
        settings = {"request_timeout_ms": _REQUEST_TIMEOUT_MS, **self.settings}
        with closing(KafkaAdminClient(**settings)) as admin:
            committed = _committed(admin, self.group_id)
        with closing(KafkaConsumer(**settings)) as consumer:
            consumer.assign(partitions)  # So it asks for the metadata of these topics.
            found = consumer.end_offsets(partitions)
        end = {(tp.topic, tp.partition): offset for tp, offset in found.items()}
        return self.weigh(time.monotonic(), topics, committed, end)


def _committed(admin: Any, group_id: str) -> PartitionOffsets:
    if hasattr(admin, "list_group_offsets"):  # from 3.0 on
        found = admin.list_group_offsets(group_id)[group_id]
    else:
        found = admin.list_consumer_group_offsets(group_id)
    return {(tp.topic, tp.partition): offset.offset for tp, offset in found.items()}


class LagWeights(_LooksUp, LagSource):
    """The lag of a group as weights: `LagWeights("billing", base=1000, bootstrap_servers="broker:9092")`.

    `base` is what a partition weighs besides, in records. The settings are those of KafkaConsumer.
    """


class RateWeights(_LooksUp, RateSource):
    """The work that each partition brings, by its rate and its lag, in microseconds a second.

    `RateWeights("billing", half_life_s=120.0, drain_s=600.0, base=1.0, bootstrap_servers="broker:9092")` has
    its arguments from `kafka_assignors.weights`. The settings are those of KafkaConsumer.
    """


def weighed_topics(coordinator: Any, assignor: Assignor, topics: list[Topic]) -> list[Topic]:
    """The topics with the weights that count in a join. Fails for nothing that the source does."""
    found: Weighed | NoWeightsError
    try:
        found = ask_for_weights(coordinator, assignor, topics)
    except NoWeightsError as error:
        found = error
    return assignor.weighed_for_join(coordinator, topics, found)


def ask_for_weights(coordinator: Any, assignor: Assignor, topics: Sequence[Topic]) -> Weighed:
    """The topics with the weights that the assignor's source gives in time; raises `NoWeightsError`.

    It waits for the source, which has a thread of its own.
    """
    patience_s = assignor.weights_patience_s(coordinator.config["session_timeout_ms"])
    asked = assignor.ask_for_weights(coordinator, topics)
    if isinstance(asked, Future):
        wait([asked], timeout=patience_s)
    return assignor.weigh_by(coordinator, topics, asked, patience_s)
