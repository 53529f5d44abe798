"""kafka-python 3. Checked with 3.0.12.

Touched, besides what `coordinator` lists:

    ConsumerCoordinator
        _perform_assignment         members: JoinGroupResponseMember, with member_id, metadata (bytes) and
                                    group_instance_id (None before version 5 of JoinGroup)
        _cluster.set_topics
    ConsumerProtocolAssignment      assigned_partitions
    ClusterMetadata
        brokers()                   node_id, rack
        _partitions                 {topic: {partition: MetadataResponsePartition}}: replaced as a whole
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import (
    RebalanceProtocol,  # pyright: ignore[reportAttributeAccessIssue]  # its stubs are of 2.x
)
from kafka.protocol.consumer.metadata import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    ConsumerProtocolAssignment,
)

from kafka_assignors.group import Topic
from kafka_assignors.joining import JoinedMember, topics_from

__all__ = [
    "assignment_of",
    "decoded_members",
    "eager_protocols",
    "joined_members",
    "partitions_of",
    "topics_of",
    "watch",
]


def eager_protocols() -> list[Any]:
    return [RebalanceProtocol.EAGER]


def joined_members(members: Any) -> Iterable[JoinedMember]:
    return [
        JoinedMember(member.member_id, member.group_instance_id, bytes(member.metadata)) for member in members
    ]


def decoded_members(members: Any) -> Iterable[JoinedMember]:
    return [
        JoinedMember(member.member_id, member.group_instance_id, member.metadata.encode())
        for member in members
    ]


def partitions_of(assignment: Any) -> Mapping[str, Sequence[int]]:
    return {topic: list(numbers) for topic, numbers in assignment.assigned_partitions}


def assignment_of(assignment: bytes) -> Any:
    return ConsumerProtocolAssignment.decode(assignment)


def watch(coordinator: Any, topics: Iterable[str]) -> None:
    coordinator._cluster.set_topics(topics)


def topics_of(cluster: Any, names: Iterable[str]) -> list[Topic]:
    racks = {broker.node_id: broker.rack for broker in cluster.brokers() if broker.rack}
    return topics_from(cluster._partitions, racks, lambda partition: partition.replica_nodes, names)
