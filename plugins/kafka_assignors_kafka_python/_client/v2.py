"""kafka-python 2. Checked with 2.0.6, 2.1.6, 2.2.21 and 2.3.3.

Touched, besides what `coordinator` lists:

    ConsumerCoordinator
        _perform_assignment         members: GroupMember(member_id, group_instance_id, metadata_bytes) in 2.3,
                                    (member_id, metadata_bytes) before
        _client.set_topics
    ConsumerProtocol                a list by version in 2.3, the one there is before: ASSIGNMENT
    ClusterMetadata
        brokers()                   nodeId, rack
        _partitions                 {topic: {partition: PartitionMetadata}}: replaced as a whole
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.coordinator import protocol  # pyright: ignore[reportMissingModuleSource]  # 3.x has none

from kafka_assignors.group import Topic
from kafka_assignors.joining import JoinedMember, topics_from
from kafka_assignors.protocol import Subscription, encode_subscription

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
    return []  # There is no other protocol, so there are no names for them, and nobody asks.


def joined_members(members: Any) -> Iterable[JoinedMember]:
    joined = []
    for member_id, *instance_id, metadata in members:
        joined.append(JoinedMember(member_id, instance_id[0] if instance_id else None, bytes(metadata)))
    return joined


def decoded_members(members: Any) -> Iterable[JoinedMember]:
    # Whatever version a member sent, only the fields of version 0 have been read. What it owned is left where
    # it is in its user data.
    return [
        JoinedMember(
            member_id,
            getattr(member, "group_instance_id", None),
            encode_subscription(Subscription(0, tuple(member.subscription), member.user_data or b"")),
        )
        for member_id, member in members.items()
    ]


def partitions_of(assignment: Any) -> Mapping[str, Sequence[int]]:
    return {topic: list(numbers) for topic, numbers in assignment.assignment}


def assignment_of(assignment: bytes) -> Any:
    versions: Any = protocol.ConsumerProtocol
    version_0 = versions[0] if isinstance(versions, list) else versions
    return version_0.ASSIGNMENT.decode(assignment)


def watch(coordinator: Any, topics: Iterable[str]) -> None:
    coordinator._client.set_topics(topics)


def topics_of(cluster: Any, names: Iterable[str]) -> list[Topic]:
    racks = {broker.nodeId: broker.rack for broker in cluster.brokers() if broker.rack}
    return topics_from(cluster._partitions, racks, lambda partition: partition.replicas, names)
