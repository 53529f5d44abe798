"""Values of KIP-848 groups in the terms of Java's JSON for their schemas, for `java_fields`.

Java omits a tagged field that has its default.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.kip848_records import (
    AssignedPartitions,
    ClassicMember,
    ClassicProtocol,
    ConsumerGroupMember,
    ConsumerGroupMemberState,
    ConsumerGroupValue,
    CurrentAssignment,
    GroupEpoch,
    PartitionMetadata,
    ResolvedRegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicMetadata,
)

__all__ = ["consumer_group_fields", "consumer_group_value"]

Fields = dict[str, Any]


def consumer_group_value(record: ConsumerGroupRecord, fields: Fields) -> ConsumerGroupValue:
    """The value with these fields, for `encode_consumer_group_value`."""
    if record is ConsumerGroupRecord.METADATA:
        return GroupEpoch(fields["epoch"], fields.get("metadataHash", 0))
    if record is ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA:
        return TargetAssignmentEpoch(fields["assignmentEpoch"], fields.get("assignmentTimestamp", 0))
    if record is ConsumerGroupRecord.PARTITION_METADATA:
        return PartitionMetadata(tuple(_topic(topic) for topic in fields["topics"]))
    if record is ConsumerGroupRecord.MEMBER_METADATA:
        return _member(fields)
    if record is ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER:
        given = fields["topicPartitions"]
        return TargetAssignment({topic["topicId"]: tuple(topic["partitions"]) for topic in given})
    if record is ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT:
        return CurrentAssignment(
            fields["memberEpoch"],
            fields["previousMemberEpoch"],
            ConsumerGroupMemberState(fields["state"]),
            _assigned(fields["assignedPartitions"]),
            _assigned(fields["partitionsPendingRevocation"]),
        )
    return ResolvedRegularExpression(tuple(fields["topics"]), fields["version"], fields["timestamp"])


def consumer_group_fields(value: ConsumerGroupValue) -> Fields:
    """The fields of a decoded value."""
    if isinstance(value, GroupEpoch):
        return {"epoch": value.epoch} | _tagged("metadataHash", value.metadata_hash, 0)
    if isinstance(value, TargetAssignmentEpoch):
        return {"assignmentEpoch": value.epoch} | _tagged("assignmentTimestamp", value.timestamp_ms, 0)
    if isinstance(value, PartitionMetadata):
        return {"topics": [_topic_fields(topic) for topic in value.topics]}
    if isinstance(value, ConsumerGroupMember):
        return _member_fields(value)
    if isinstance(value, TargetAssignment):
        given = value.partitions.items()
        return {
            "topicPartitions": [{"topicId": name, "partitions": list(numbers)} for name, numbers in given]
        }
    if isinstance(value, CurrentAssignment):
        return {
            "memberEpoch": value.epoch,
            "previousMemberEpoch": value.previous_epoch,
            "state": int(value.state),
            "assignedPartitions": _assigned_fields(value.assigned),
            "partitionsPendingRevocation": _assigned_fields(value.pending_revocation),
        }
    return {
        "topics": list(value.topics),
        "version": value.metadata_version,
        "timestamp": value.timestamp_ms,
    }


def _tagged(name: str, value: Any, default: object) -> Fields:
    return {} if value == default else {name: value}


def _topic(fields: Fields) -> TopicMetadata:
    racks = {entry["partition"]: tuple(entry["racks"]) for entry in fields["partitionMetadata"]}
    return TopicMetadata(fields["topicId"], fields["topicName"], fields["numPartitions"], racks)


def _topic_fields(value: TopicMetadata) -> Fields:
    racks = [{"partition": number, "racks": list(racks)} for number, racks in value.racks.items()]
    return {
        "topicId": value.topic_id,
        "topicName": value.topic,
        "numPartitions": value.partitions,
        "partitionMetadata": racks,
    }


def _member(fields: Fields) -> ConsumerGroupMember:
    said = fields.get("classicMemberMetadata", {"sessionTimeoutMs": 0, "supportedProtocols": []})
    return ConsumerGroupMember(
        instance_id=fields["instanceId"],
        rack=fields["rackId"],
        client_id=fields["clientId"],
        client_host=fields["clientHost"],
        topics=tuple(fields["subscribedTopicNames"]),
        regular_expression=fields["subscribedTopicRegex"],
        rebalance_timeout_ms=fields["rebalanceTimeoutMs"],
        assignor=fields["serverAssignor"],
        classic=None if said is None else _classic(said),
    )


def _classic(fields: Fields) -> ClassicMember:
    return ClassicMember(
        fields["sessionTimeoutMs"],
        tuple(
            ClassicProtocol(protocol["name"], base64.b64decode(protocol["metadata"]))
            for protocol in fields["supportedProtocols"]
        ),
    )


def _member_fields(value: ConsumerGroupMember) -> Fields:
    classic = value.classic
    said = classic and {
        "sessionTimeoutMs": classic.session_timeout_ms,
        "supportedProtocols": [
            {"name": protocol.name, "metadata": base64.b64encode(protocol.metadata).decode()}
            for protocol in classic.protocols
        ],
    }
    return {
        "instanceId": value.instance_id,
        "rackId": value.rack,
        "clientId": value.client_id,
        "clientHost": value.client_host,
        "subscribedTopicNames": list(value.topics),
        "subscribedTopicRegex": value.regular_expression,
        "rebalanceTimeoutMs": value.rebalance_timeout_ms,
        "serverAssignor": value.assignor,
    } | ({} if classic == ClassicMember() else {"classicMemberMetadata": said})


def _assigned(fields: Iterable[Fields]) -> tuple[AssignedPartitions, ...]:
    found = []
    for topic in fields:
        epochs = topic.get("assignmentEpochs", ())
        partitions = tuple(topic["partitions"])
        found.append(
            AssignedPartitions(topic["topicId"], partitions, None if epochs is None else tuple(epochs))
        )
    return tuple(found)


def _assigned_fields(values: Iterable[AssignedPartitions]) -> list[Fields]:
    return [
        {"topicId": value.topic_id, "partitions": list(value.partitions)}
        | _tagged("assignmentEpochs", None if value.epochs is None else list(value.epochs), [])
        for value in values
    ]
