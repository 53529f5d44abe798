"""The source of a leader's weights, and how long the leader waits for it.

The source runs in a thread of its own, while kafka-python goes on with its I/O. `LagWeights` has connections
of its own, through kafka-python's public clients: the consumer's are busy with a rebalance and with fetches
that a broker holds back, and in version 2 a user of them must hold the consumer's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.structs import TopicPartition

from kafka_assignors.assignor import Assignor, NoWeightsError, Weighed
from kafka_assignors.group import Topic
from kafka_assignors.weights import GivenWeights, lag_weights, require_base

_REQUEST_TIMEOUT_MS = 10_000
"""The request timeout of the clients that look the lag up.

The group does not wait for it, but the thread should end at some time.
"""


class LagWeights:
    """The lag of a group as weights: of each partition the records between the committed offset and the end.

    `base` is what a partition weighs besides, in records: it keeps a group that keeps up from being moved
    about because of a handful of records. `settings` are those by which the consumer finds its brokers, as
    KafkaConsumer takes them: bootstrap_servers, security_protocol, sasl_mechanism and so on.
    """

    def __init__(self, group_id: str, *, base: int = 1000, **settings: Any) -> None:
        """Raises TypeError or ValueError for a base that is no number of records."""
        require_base(base)
        self._group_id, self._base = group_id, base
        self._settings = {"request_timeout_ms": _REQUEST_TIMEOUT_MS, **settings}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._group_id!r})"  # The settings may hold a password.

    def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """Raises KafkaError if brokers refuse it."""
        partitions = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
        with closing(KafkaAdminClient(**self._settings)) as admin:
            committed = _committed(admin, self._group_id)
        with closing(KafkaConsumer(**self._settings)) as consumer:
            consumer.assign(partitions)  # So it asks for the metadata of these topics.
            found = consumer.end_offsets(partitions)
        end = {(tp.topic, tp.partition): offset for tp, offset in found.items()}
        return lag_weights(topics, committed, end, self._base)


def _committed(admin: Any, group_id: str) -> dict[tuple[str, int], int]:
    if hasattr(admin, "list_group_offsets"):  # from 3.0 on
        found = admin.list_group_offsets(group_id)[group_id]
    else:
        found = admin.list_consumer_group_offsets(group_id)
    return {(tp.topic, tp.partition): offset.offset for tp, offset in found.items()}


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
