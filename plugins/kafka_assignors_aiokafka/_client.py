"""Every place where we depend on how aiokafka works inside.

aiokafka decodes what the members sent as version 0 of the protocol before it asks an assignor, so the bytes
that follow (owned partitions, generation, rack) are lost, a member that sends garbage takes the leader down,
and neither the generation nor the instance ids reach the assignor. All of that is in the coordinator's hands.
An assignor is never given the coordinator, but it is only ever called by it: `calling_coordinator` finds it
in the call stack, and `lead_with_our_assignors` replaces one method of that one object.

Checked with aiokafka 0.10.0, 0.11.0, 0.12.0, 0.13.0 and 0.14.0 (`_versions.CHECKED`). What is listed below is
the same in all of them. They differ in how a JoinGroupResponse tells its version (by its class up to 0.12, by
API_VERSION from 0.13 on), which is why the length of a member is asked here and neither of these.

Touched, with what it is used for; in a release that lacks any of the coordinator's, `lead_with_our_assignors`
says so when the consumer first joins:

    GroupCoordinator
        generation                  the generation last joined, -1 after it was lost
        _group_instance_id          the consumer's group.instance.id
        _assignors                  what the user configured
        _perform_assignment         replaced on the instance: JoinGroupResponse -> {member id: bytes}
        _group_subscription         set of the topics whose partition counts the leader watches, else None
        _subscription.subscribed_pattern, _subscription.subscription.topics
        _client.set_topics, _client._maybe_wait_metadata
        _cluster
        _metadata_snapshot, _get_metadata_snapshot
    JoinGroupResponse
        group_protocol
        members                     (id, metadata), from version 5 on (id, instance id, metadata)
    ClusterMetadata
        brokers()                   nodeId, rack
        _partitions                 {topic: {partition: PartitionMetadata}}, replaced as a whole
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from importlib import metadata
from operator import attrgetter
from typing import Any

from aiokafka.consumer.group_coordinator import GroupCoordinator

from kafka_assignors.assignor import EagerAssignor, caller_of
from kafka_assignors.group import Topic
from kafka_assignors.joining import JoinedMember, topics_from

__all__ = [
    "calling_coordinator",
    "lead_with_our_assignors",
    "topics_of",
    "watch_topics_if_static",
]

_TOUCHED_OF_COORDINATOR = (
    "generation",
    "_group_instance_id",
    "_assignors",
    "_perform_assignment",
    "_group_subscription",
    "_subscription.subscribed_pattern",
    "_subscription.subscription",
    "_client.set_topics",
    "_client._maybe_wait_metadata",
    "_cluster.brokers",
    "_cluster._partitions",
    "_metadata_snapshot",
    "_get_metadata_snapshot",
)


def calling_coordinator() -> Any:
    """The GroupCoordinator on whose behalf the current call is made."""
    if (coordinator := caller_of(GroupCoordinator)) is not None:
        return coordinator
    raise RuntimeError("an assignor of kafka_assignors_aiokafka works inside a started AIOKafkaConsumer only")


def lead_with_our_assignors(coordinator: Any) -> None:
    """Have `coordinator`, whenever it leads the group, hand the untouched bytes to an assignor of ours.

    Generations that the group runs with another assignor stay with aiokafka. Calling this again does nothing.
    """
    if "_perform_assignment" in vars(coordinator):
        return
    _require_touched(coordinator)
    stock_perform_assignment = coordinator._perform_assignment

    async def perform_assignment(response: Any) -> Mapping[str, Any]:
        for assignor in coordinator._assignors:
            if isinstance(assignor, EagerAssignor) and assignor.name == response.group_protocol:
                return await _perform_assignment(coordinator, assignor, response)
        stock: Mapping[str, Any] = await stock_perform_assignment(response)
        return stock

    coordinator._perform_assignment = perform_assignment


def _require_touched(coordinator: Any) -> None:
    # Much of it is used by leaders alone, and a group should not find out when its leader changes.
    for touched in _TOUCHED_OF_COORDINATOR:
        try:
            attrgetter(touched)(coordinator)
        except AttributeError:
            raise RuntimeError(
                f"kafka_assignors_aiokafka does not work with aiokafka {metadata.version('aiokafka')}, "
                f"whose {type(coordinator).__name__} has no {touched}"
            ) from None


async def _perform_assignment(
    coordinator: Any, assignor: EagerAssignor, response: Any
) -> Mapping[str, bytes]:
    # Reading and assigning run in a thread: the event loop also serves the application and the heartbeats of
    # other consumers.
    joined = await asyncio.to_thread(assignor.read_members, _joined_members(response))

    # As aiokafka does: from here on the leader watches all topics of the group.
    coordinator._group_subscription = set(joined.topics)
    if not coordinator._subscription.subscribed_pattern:
        coordinator._client.set_topics(coordinator._group_subscription)
    await coordinator._client._maybe_wait_metadata()

    def answer() -> Mapping[str, bytes]:
        topics = topics_of(coordinator._cluster, joined.topics)
        return assignor.answer(joined, topics, coordinator.generation)

    assignments = await asyncio.to_thread(answer)
    # `set_topics` does not fetch metadata when topics were only removed, so nobody else takes this snapshot.
    coordinator._metadata_snapshot = coordinator._get_metadata_snapshot()
    return assignments


def _joined_members(response: Any) -> list[JoinedMember]:
    return [
        JoinedMember(member[0], member[1] if len(member) == 3 else None, member[-1])
        for member in response.members
    ]


def watch_topics_if_static(coordinator: Any) -> None:
    """Have a static member, once it was assigned, rejoin when partitions are added to its topics.

    A static member that was the leader still is after a restart, but the versions of JoinGroup that
    aiokafka speaks do not tell it. It takes itself for a follower, nobody watches, and added partitions
    would have no consumer until the next rebalance. So every static member watches its own topics.
    """
    if coordinator._group_instance_id is None or coordinator._group_subscription is not None:
        return
    coordinator._group_subscription = set(coordinator._subscription.subscription.topics)
    coordinator._metadata_snapshot = coordinator._get_metadata_snapshot()


def topics_of(cluster: Any, names: Iterable[str]) -> list[Topic]:
    """Those of the named topics that the client has metadata of."""
    racks = {broker.nodeId: broker.rack for broker in cluster.brokers() if broker.rack}
    return topics_from(cluster._partitions, racks, lambda partition: partition.replicas, names)
