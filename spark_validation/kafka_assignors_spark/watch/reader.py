"""The group records of a running cluster, read continuously with librdkafka, and its topics as they change.

A reader assigns itself the partitions of the offsets topic. It joins no group, commits nothing and creates no
topic. A new leader of a partition is found by the client itself. What ends a reader is an error (`poll`
raises): the watch opens another one where this one ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from kafka_assignors_confluent import Connection
from kafka_assignors_spark.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_spark.folds.lives import Record
from kafka_assignors_spark.folds.records import millis_to_micros
from kafka_assignors_spark.live_cluster import (
    LiveTopic,
    SourceError,
    TopicIdentity,
    identify_topic,
    list_offsets,
    reader_config,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_CONSUME_MESSAGES = 2_000
_QUEUED_KIB = 32 * 1024
"""What librdkafka reads ahead at most, over all partitions: a generation of a large group is megabytes."""

_MOST_ENTRIES = 8
"""The latest changes of a topic that are remembered."""

_MOST_GONE = 1_000
"""Deleted topics that are remembered: the latest records of a group may still be about them."""


class RecordReader:
    """One connection: `open` comes first, `close` last.

    `positions` has the next offset of each partition, `unread` are those of which nothing was read so far,
    neither a record nor the end. `down` says that no broker has answered lately.
    """

    def __init__(self, servers: str, config: Mapping[str, str], timeout_s: float, topic: str) -> None:
        self._servers, self._config, self._timeout_s, self._topic = servers, config, timeout_s, topic
        self._consumer: Consumer | None = None
        self.positions: dict[int, int] = {}
        self.unread: set[int] = set()
        self.down = False

    def look(self) -> tuple[TopicIdentity, dict[int, tuple[int, int]]]:
        """The topic, and the earliest and latest offset of each partition.

        `AuthenticationError` and `ConfigurationError` if no later attempt can succeed, `ClusterError` or
        `SourceError` for all else.
        """
        connection = Connection(self._servers, self._config, self._timeout_s)
        identity = identify_topic(connection, self._topic)
        offsets = list_offsets(connection, self._topic, range(identity.partitions), self._timeout_s)
        return identity, offsets

    def open(self, positions: Mapping[int, int]) -> None:
        """Read each partition from its position on."""
        from confluent_kafka import Consumer, TopicPartition

        self.positions, self.unread, self.down = dict(positions), set(positions), False
        config = {"queued.max.messages.kbytes": str(_QUEUED_KIB), **self._config}
        self._consumer = Consumer(reader_config(self._servers, config, self._hear))
        self._consumer.assign(
            [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        )

    def poll(self, timeout_s: float) -> list[Record]:
        """The next records, in the order of offsets within each partition.

        `SourceError` if it cannot go on.
        """
        assert self._consumer is not None
        return [
            record
            for message in self._consumer.consume(_CONSUME_MESSAGES, timeout=timeout_s)
            if (record := self._record(message)) is not None
        ]

    def ends(self) -> dict[int, int]:
        """The end of each partition, as far as the brokers have said it with the records."""
        from confluent_kafka import TopicPartition

        assert self._consumer is not None
        found = {}
        for assigned in self._consumer.assignment():
            known = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, assigned.partition), cached=True
            )
            if known is not None and known[1] >= 0:
                found[assigned.partition] = known[1]
        return found

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _hear(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Codes

        self.down = self.down or error.code() == Codes._ALL_BROKERS_DOWN

    def _move(self, partition: int, position: int) -> None:
        self.positions[partition], self.down = position, False
        self.unread.discard(partition)

    def _record(self, message: Message) -> Record | None:
        from confluent_kafka import KafkaError as Codes

        error, offset, partition = message.error(), message.offset(), message.partition()
        assert partition is not None  # the client says of everything where it is from
        if error is None:
            assert offset is not None  # a record has a place
            self._move(partition, offset + 1)
            micros = millis_to_micros(message.timestamp()[1])
            return Record(partition, offset, micros, message.key(), message.value())
        if error.code() == Codes._PARTITION_EOF:
            # Behind the last record there may be markers of transactions, and offsets that compaction took.
            assert offset is not None
            self._move(partition, max(offset, self.positions[partition]))
            return None
        if error.code() == Codes.GROUP_AUTHORIZATION_FAILED:
            return None  # librdkafka looks up the coordinator of the group that is never used
        if error.code() == Codes.TOPIC_AUTHORIZATION_FAILED:
            raise SourceError(
                f"cannot read topic {self._topic!r} at {self._servers}: "
                f"this principal needs Read on Topic {self._topic!r}"
            )
        raise SourceError(f"{self._topic}[{partition}]: {error.str()}")


class WatchedTopics:
    """Keeps the `catalogue` that all folds share, from one look at the brokers to the next."""

    def __init__(self) -> None:
        self.catalogue = Catalogue(())
        self._entries: dict[str, deque[CatalogueEntry]] = {}
        self._gone: dict[str, None] = {}

    def note(self, found: Iterable[LiveTopic], now: datetime) -> int:
        """Remember the topics that changed since the last look, and return how many they are."""
        changes = 0
        seen = set()
        for live in found:
            name = live.topic.name
            seen.add(name)
            entries = self._entries.setdefault(name, deque(maxlen=_MOST_ENTRIES))
            if (entry := live.changed(entries[-1] if entries else None, now)) is not None:
                entries.append(entry)
                changes += 1
        self._gone = {name: None for name in (*self._gone, *self._entries) if name not in seen}
        for name in [*self._gone][:-_MOST_GONE]:
            del self._gone[name], self._entries[name]
        if changes:
            self.catalogue.set_entries(entry for history in self._entries.values() for entry in history)
        return changes
