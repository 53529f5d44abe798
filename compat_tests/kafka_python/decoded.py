"""Decoded kafka-python objects for tests: the same values in the interfaces of 2 and of 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.protocol.metadata import MetadataResponse

__all__ = ["assign_interface", "cluster_of", "members_of"]

REPLICAS: Mapping[int, Sequence[int]] = {0: [1], 2: [1, 2], 1: [2]}


def assign_interface() -> int:
    """2 or 3. Version 2 has a list of response classes, version 3 one class for all versions."""
    return 2 if isinstance(MetadataResponse, list) else 3


def cluster_of() -> ClusterMetadata:
    """Two brokers, one of them with a rack, and a topic with replicas on the first, the second, and both."""
    metadata = ClusterMetadata()
    metadata.update_metadata(_response_2() if assign_interface() == 2 else _response_3())
    return metadata


def members_of(*names: str) -> Any:
    """Members that subscribe to the topic, in the form that an assignor's `assign` receives."""
    if assign_interface() == 2:
        from kafka.coordinator import protocol

        versions: Any = protocol.ConsumerProtocol
        if not isinstance(versions, list):
            return {name: versions.METADATA(0, ["orders"], b"") for name in names}
        from kafka.coordinator.subscription import Subscription

        return {name: Subscription(versions[0].METADATA(0, ["orders"], b""), None) for name in names}

    from kafka.protocol.consumer.group import JoinGroupResponse
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    Member = JoinGroupResponse.JoinGroupResponseMember
    subscription = ConsumerProtocolSubscription(0, ["orders"], b"")
    return [Member(member_id=name, group_instance_id=None, metadata=subscription) for name in names]


def _response_2() -> Any:
    return MetadataResponse[1](
        [(1, "one", 9092, "a"), (2, "two", 9092, None)],
        1,
        [(0, "orders", False, [(0, number, nodes[0], nodes, nodes) for number, nodes in REPLICAS.items()])],
    )


def _response_3() -> Any:
    Topic = MetadataResponse.MetadataResponseTopic
    Partition = Topic.MetadataResponsePartition
    Broker = MetadataResponse.MetadataResponseBroker
    partitions = [
        Partition(
            error_code=0,
            partition_index=number,
            leader_id=nodes[0],
            leader_epoch=0,
            replica_nodes=nodes,
            isr_nodes=nodes,
            offline_replicas=[],
        )
        for number, nodes in REPLICAS.items()
    ]
    response = MetadataResponse(
        version=8,
        throttle_time_ms=0,
        brokers=[Broker(1, "one", 9092, "a"), Broker(2, "two", 9092, None)],
        cluster_id="c",
        controller_id=1,
        topics=[Topic(error_code=0, name="orders", is_internal=False, partitions=partitions)],
    )
    return MetadataResponse.decode(response.encode(), version=8)
