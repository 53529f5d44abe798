"""What the lint reads of a cluster beside the group: a broker's bounds, and the group's record."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from kafka_assignors.wire import ProtocolError
from kafka_assignors_confluent.connection import ClusterError, Connection, NotAuthorizedError
from kafka_assignors_confluent.topics import describe_offsets_topic, is_end, list_offsets, reader_config
from kafka_assignors_ops.lint.rules import BrokerBounds, NotJudged
from kafka_assignors_ops.live_group import CLASSIC, LiveGroup
from kafka_assignors_replay.folds.consumer_offsets import (
    GroupMetadata,
    GroupMetadataKey,
    decode_group_metadata,
    encode_key,
    group_partition,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_BOUNDS = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")

_OFFSETS_TOPIC = "__consumer_offsets"
_NEWEST_RECORDS = 200_000
"""How many records to read at most: commits fill the topic, and older records are not worth the wait."""

_POLL_S = 0.2
_RECORDS_AT_ONCE = 2_000


def read_bounds(connection: Connection) -> tuple[BrokerBounds, tuple[NotJudged, ...]]:
    """The bounds of one broker; without the right to see them Kafka's defaults, and the reason."""
    from confluent_kafka.admin import ConfigResource, ResourceType  # pyright: ignore[reportPrivateImportUsage]

    wait_s = connection.timeout_s
    cluster = connection.result(
        "cannot find a broker", connection.admin.describe_cluster(request_timeout=wait_s)
    )
    resource = ConfigResource(ResourceType.BROKER, str(min(node.id for node in cluster.nodes)))
    future = connection.admin.describe_configs([resource], request_timeout=wait_s)[resource]
    right = "DescribeConfigs on Cluster 'kafka-cluster'"
    try:
        told = connection.result("cannot read the settings of a broker", future, right)
        low_ms, high_ms = (int(told[name].value) for name in _BOUNDS)
    except NotAuthorizedError as error:
        why = str(error)
    except (KeyError, ValueError, TypeError):
        why = "the broker does not tell them"
    else:
        return BrokerBounds(low_ms, high_ms, read=True), ()
    return BrokerBounds(), (NotJudged("session timeouts against the broker's own bounds", why),)


def read_record(connection: Connection, live: LiveGroup) -> tuple[GroupMetadata | None, str]:
    """The newest record of a classic group with members; if there is none, the reason.

    It is searched among the last 200,000 records of its partition, and for the connection's timeout.
    """
    if live.group_type != CLASSIC or not live.members:
        return None, ""
    try:
        value = _newest_value(connection, live.id)
        record = None if value is None else decode_group_metadata(value)
    except ClusterError as error:
        return None, str(error)
    except ProtocolError as error:
        return None, f"the record of group {live.id!r} does not decode: {error}"
    return record, "the group's record is not among the newest of its partition of __consumer_offsets"


def _newest_value(connection: Connection, group: str) -> bytes | None:
    deadline = time.monotonic() + connection.timeout_s
    partition = group_partition(group, len(describe_offsets_topic(connection, _OFFSETS_TOPIC).partitions))
    offsets = list_offsets(connection, _OFFSETS_TOPIC, [partition], connection.timeout_s)
    first, end = offsets[partition]
    key, value = encode_key(GroupMetadataKey(group)), None
    position = max(first, end - _NEWEST_RECORDS)
    with contextlib.closing(_reader(connection, partition, position)) as consumer:
        while position < end:
            if time.monotonic() > deadline:
                raise ClusterError(f"{_OFFSETS_TOPIC} is long: timeout at offset {position} of {end}")
            for message in consumer.consume(min(_RECORDS_AT_ONCE, end - position), timeout=_POLL_S):
                if message.error() is None:
                    position = (message.offset() or 0) + 1
                    value = message.value() if message.key() == key else value
                elif is_end(message, _OFFSETS_TOPIC, connection.servers):
                    position = end
    return value


def _reader(connection: Connection, partition: int, position: int) -> Consumer:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(reader_config(connection.servers, connection.config, lambda error: None))
    consumer.assign([TopicPartition(_OFFSETS_TOPIC, partition, position)])
    return consumer
