"""What a classic group's record in `__consumer_offsets` tells that the admin client does not: above all the
session and rebalance timeout of each member.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kafka_assignors.wire import (
    GroupMetadata,
    GroupMetadataKey,
    ProtocolError,
    decode_group_metadata,
    encode_key,
    group_partition,
)
from kafka_assignors_confluent._connection import ClusterError, Connection

OFFSETS_TOPIC = "__consumer_offsets"
NEWEST_RECORDS = 200_000
"""How far back to look: commits fill the topic, and what is older is not worth the wait."""

_FAILURE = f"cannot read {OFFSETS_TOPIC}"
_RIGHT = f"Read on Topic {OFFSETS_TOPIC!r}"
_POLL_S = 0.2
_BATCH = 2_000


def read_group_record(
    servers: str, config: Mapping[str, str], group: str, timeout_s: float
) -> GroupMetadata | None:
    """The newest record of a classic group; None if there is none among the newest of its partition.

    `config` are librdkafka's properties. Joins no group and commits nothing. Raises `ClusterError` where the
    topic may not be read, when `timeout_s` seconds are over, and if the record does not decode.
    """
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    deadline = time.monotonic() + timeout_s
    connection = Connection(servers, config, timeout_s)
    futures = connection.admin.describe_topics(TopicCollection([OFFSETS_TOPIC]), request_timeout=timeout_s)
    described = connection.result(_FAILURE, futures[OFFSETS_TOPIC], _RIGHT)
    partition = group_partition(group, len(described.partitions))
    first = _offset(connection, partition, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    end = _offset(connection, partition, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    value = _newest(connection, config, partition, max(first, end - NEWEST_RECORDS), end, group, deadline)
    try:
        return None if value is None else decode_group_metadata(value)
    except ProtocolError as error:
        raise ClusterError(f"the record of group {group!r} does not decode: {error}") from None


def _offset(connection: Connection, partition: int, spec: object) -> int:
    from confluent_kafka import IsolationLevel, TopicPartition

    futures = connection.admin.list_offsets(
        {TopicPartition(OFFSETS_TOPIC, partition): spec},  # type: ignore[dict-item]
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=connection.timeout_s,
    )
    (future,) = futures.values()
    return int(connection.result(_FAILURE, future, _RIGHT).offset)


def _newest(
    connection: Connection,
    config: Mapping[str, str],
    partition: int,
    start: int,
    end: int,
    group: str,
    deadline: float,
) -> bytes | None:
    """The value of the group's last record in this range of offsets."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    key, value = encode_key(GroupMetadataKey(group)), None
    consumer = Consumer(
        {
            "fetch.wait.max.ms": 50,
            **config,
            "bootstrap.servers": connection.servers,
            "group.id": "kafka-assignors-unused",  # librdkafka wants one; nothing is ever sent under it
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(OFFSETS_TOPIC, partition, start)])
        position = start
        while position < end:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{OFFSETS_TOPIC} is long, and the time is over at offset {position} of {end}"
                )
            for message in consumer.consume(min(_BATCH, end - position), timeout=_POLL_S):
                error, offset = message.error(), message.offset()
                if error is None and offset is not None:
                    position = offset + 1
                    value = message.value() if message.key() == key else value
                elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                    position = end
                elif error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise connection.failure(_FAILURE, error, _RIGHT)
                # Anything else is either retried by librdkafka, or about the group that is never used.
    finally:
        consumer.close()
    return value
