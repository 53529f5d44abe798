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
from kafka_assignors.partition_costs import PartitionCosts
from kafka_assignors.weights import GivenWeights, lag_weights, require_base

_REQUEST_TIMEOUT_MS = 10_000
"""The request timeout of the clients that look offsets up.

The group does not wait for it, but the thread should end at some time.
"""


Found = dict[tuple[str, int], int]


class GroupOffsets:
    """Looks up the offsets of a group, with clients that it opens for that and closes again."""

    def __init__(self, group_id: str, settings: Mapping[str, Any]) -> None:
        self._group_id = group_id
        self._settings = {"request_timeout_ms": _REQUEST_TIMEOUT_MS, **settings}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._group_id!r})"  # The settings may hold a password.

    def look_up(self, topics: Mapping[str, int]) -> tuple[Found, Found]:
        """The committed offsets and the ends. Raises KafkaError if brokers refuse it."""
        partitions = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
        with closing(KafkaAdminClient(**self._settings)) as admin:
            committed = _committed(admin, self._group_id)
        with closing(KafkaConsumer(**self._settings)) as consumer:
            consumer.assign(partitions)  # So it asks for the metadata of these topics.
            found = consumer.end_offsets(partitions)
        return committed, {(tp.topic, tp.partition): offset for tp, offset in found.items()}


def _committed(admin: Any, group_id: str) -> Found:
    if hasattr(admin, "list_group_offsets"):  # from 3.0 on
        found = admin.list_group_offsets(group_id)[group_id]
    else:
        found = admin.list_consumer_group_offsets(group_id)
    return {(tp.topic, tp.partition): offset.offset for tp, offset in found.items()}


class LagWeights(GroupOffsets):
    """The lag of a group as weights: of each partition the records between the committed offset and the end.

    `base` is what a partition weighs besides, in records: it keeps a group that keeps up from being moved
    about because of a handful of records. `settings` are those by which the consumer finds its brokers, as
    KafkaConsumer takes them: bootstrap_servers, security_protocol, sasl_mechanism and so on.
    """

    def __init__(self, group_id: str, *, base: int = 1000, **settings: Any) -> None:
        """Raises TypeError or ValueError for a base that is no number of records."""
        require_base(base)
        super().__init__(group_id, settings)
        self._base = base

    def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """Raises KafkaError if brokers refuse it."""
        committed, end = self.look_up(topics)
        return lag_weights(topics, committed, end, self._base)


class RateWeights(GroupOffsets):
    """The work that each partition brings, in microseconds a second: its rate, and its lag within a time.

    A rate is the records that come in a second, averaged with a half-life of `half_life_s`; lag counts as
    what must be consumed to be rid of it in `drain_s`. `costs.took` tells what a record of a topic takes;
    without it a record counts as a millisecond. `base` is what a partition costs besides, in records a
    second. `settings` are as for `LagWeights`. `kafka_assignors.partition_costs` has the rules for what is
    unknown.
    """

    def __init__(
        self,
        group_id: str,
        *,
        half_life_s: float = 120.0,
        drain_s: float = 600.0,
        base: float = 1.0,
        **settings: Any,
    ) -> None:
        """Raises TypeError or ValueError for an argument that is no number in its range."""
        super().__init__(group_id, settings)
        self.costs = PartitionCosts(half_life_s=half_life_s, drain_s=drain_s, base=base)

    def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """Raises KafkaError if brokers refuse it."""
        committed, end = self.look_up(topics)
        return self.costs.weigh(time.monotonic(), topics, committed, end)


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
