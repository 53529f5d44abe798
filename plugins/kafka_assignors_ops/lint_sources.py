"""What the lint reads of a cluster beside the group: a broker's settings, and the group's record.

`config` has librdkafka's properties. Everything raises `ClusterError`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kafka_assignors.wire import ProtocolError
from kafka_assignors_confluent.connection import ClusterError, Connection
from kafka_assignors_confluent.topics import describe_offsets_topic, is_end, list_offsets, reader_config
from kafka_assignors_replay.folds.consumer_offsets import (
    GroupMetadata,
    GroupMetadataKey,
    decode_group_metadata,
    encode_key,
    group_partition,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_OFFSETS_TOPIC = "__consumer_offsets"
_NEWEST_RECORDS = 200_000
"""How many records to read at most: commits fill the topic, and older records are not worth the wait."""

_POLL_S = 0.2
_RECORDS_AT_ONCE = 2_000


def read_broker_settings(
    servers: str, config: Mapping[str, str], names: Collection[str], timeout_s: float
) -> dict[str, str]:
    """The values of these settings on one broker of the cluster, without names that the broker does not know.

    `NotAuthorizedError` without the right to describe the cluster's configuration.
    """
    from confluent_kafka.admin import ConfigResource, ResourceType  # pyright: ignore[reportPrivateImportUsage]

    connection = Connection(servers, config, timeout_s)
    cluster = connection.result(
        "cannot find a broker", connection.admin.describe_cluster(request_timeout=timeout_s)
    )
    resource = ConfigResource(ResourceType.BROKER, str(min(node.id for node in cluster.nodes)))
    told = connection.result(
        "cannot read the settings of a broker",
        connection.admin.describe_configs([resource], request_timeout=timeout_s)[resource],
        "DescribeConfigs on Cluster 'kafka-cluster'",
    )
    return {name: str(told[name].value) for name in names if name in told and told[name].value is not None}


def read_group_record(
    servers: str, config: Mapping[str, str], group: str, timeout_s: float
) -> GroupMetadata | None:
    """The newest record of a classic group; None if the last 200,000 records of its partition have none.

    An error if the principal may not read the topic, after `timeout_s`, and if the record does not decode.
    """
    deadline = time.monotonic() + timeout_s
    connection = Connection(servers, config, timeout_s)
    partition = group_partition(group, len(describe_offsets_topic(connection, _OFFSETS_TOPIC).partitions))
    first, end = list_offsets(connection, _OFFSETS_TOPIC, [partition], timeout_s)[partition]
    key, value = encode_key(GroupMetadataKey(group)), None
    position = max(first, end - _NEWEST_RECORDS)
    with contextlib.closing(_reader(servers, config, partition, position)) as consumer:
        while position < end:
            if time.monotonic() > deadline:
                raise ClusterError(f"{_OFFSETS_TOPIC} is long: timeout at offset {position} of {end}")
            for message in consumer.consume(min(_RECORDS_AT_ONCE, end - position), timeout=_POLL_S):
                if message.error() is None:
                    position = (message.offset() or 0) + 1
                    value = message.value() if message.key() == key else value
                elif is_end(message, _OFFSETS_TOPIC, servers):
                    position = end
    try:
        return None if value is None else decode_group_metadata(value)
    except ProtocolError as error:
        raise ClusterError(f"the record of group {group!r} does not decode: {error}") from None


def _reader(servers: str, config: Mapping[str, str], partition: int, position: int) -> Consumer:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(reader_config(servers, config, lambda error: None))
    consumer.assign([TopicPartition(_OFFSETS_TOPIC, partition, position)])
    return consumer
