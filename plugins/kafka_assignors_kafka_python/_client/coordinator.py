"""The consumer's coordinator, in what all versions of kafka-python share.

Touched, with what it is used for (checked with the versions that `version` lists):

    ConsumerCoordinator
        request_rejoin              see `come_back_for_this_join`
        group_instance_id           the consumer's group.instance.id; 2.2 and older have no static members
        _generation.generation_id   the generation last joined
        _lookup_assignor            assignor by name, as the user configured it
        _perform_assignment         replaced on the instance: (leader, protocol, members) -> {id: bytes}
        _subscription.group_subscribe, group_subscription: whose metadata the leader watches
        _cluster
        _is_leader, _metadata_snapshot, _assignment_snapshot: when the snapshots differ, the member rejoins
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_assignors.assignor import EagerAssignor, caller_of
from kafka_assignors_kafka_python._client.version import interface

# Only now: of a release that is too old the import above says so, and that one would not.
from kafka.coordinator.consumer import ConsumerCoordinator  # isort: skip

__all__ = [
    "calling_coordinator",
    "come_back_for_this_join",
    "instance_id_of",
    "lead_with_our_assignors",
    "watch_topics_if_static",
]


def calling_coordinator() -> Any:
    """The ConsumerCoordinator on whose behalf the current call is made."""
    if (coordinator := caller_of(ConsumerCoordinator)) is not None:
        return coordinator
    raise RuntimeError("an assignor of kafka_assignors_kafka_python works inside a KafkaConsumer only")


def instance_id_of(coordinator: Any) -> str | None:
    """The group.instance.id of the coordinator's consumer, if it has one."""
    instance_id: str | None = getattr(coordinator, "group_instance_id", None)
    return instance_id


def come_back_for_this_join(coordinator: Any) -> None:
    """Keep a poll that ends while the join is under way from being the last one that cares.

    Where a join began because the subscription or the partition counts changed, kafka-python forgets that
    reason as soon as it has written the request. A poll that times out after that leaves the join's result
    behind, the next one sees no need to join, and the consumer stands still for good. The flag set here is
    cleared when a join has been completed.
    """
    coordinator.request_rejoin()


def lead_with_our_assignors(coordinator: Any) -> None:
    """Have `coordinator`, whenever it leads the group, hand the untouched bytes to an assignor of ours.

    Generations that the group runs with another assignor stay with kafka-python. Calling this again does
    nothing.
    """
    if "_perform_assignment" in vars(coordinator):
        return
    stock_perform_assignment = coordinator._perform_assignment

    def perform_assignment(leader_id: str, protocol_name: str, members: Any) -> Mapping[str, Any]:
        assignor = coordinator._lookup_assignor(protocol_name)
        if isinstance(assignor, EagerAssignor):
            return _perform_assignment(coordinator, assignor, members)
        stock: Mapping[str, Any] = stock_perform_assignment(leader_id, protocol_name, members)
        return stock

    coordinator._perform_assignment = perform_assignment


def _perform_assignment(coordinator: Any, assignor: EagerAssignor, members: Any) -> Mapping[str, bytes]:
    joined = assignor.read_members(interface.joined_members(members))
    # As kafka-python does: from here on the leader watches all topics of the group. The metadata of topics
    # that are new to it comes after this assignment, differs from the snapshot, and makes the leader rejoin.
    coordinator._subscription.group_subscribe(joined.topics)
    interface.watch(coordinator, coordinator._subscription.group_subscription())
    coordinator._cluster.request_update()
    coordinator._is_leader = True
    coordinator._assignment_snapshot = coordinator._metadata_snapshot
    topics = interface.topics_of(coordinator._cluster, joined.topics)
    return assignor.answer(joined, topics, coordinator._generation.generation_id)


def watch_topics_if_static(coordinator: Any) -> None:
    """Have a static member, once it was assigned, rejoin when partitions are added to its topics.

    A static member that was the leader still is after a restart, but the versions of JoinGroup that
    kafka-python speaks do not tell it. It takes itself for a follower, nobody watches, and added partitions
    would have no consumer until the next rebalance. So every static member watches its own topics.
    """
    if instance_id_of(coordinator) is not None and not coordinator._is_leader:
        coordinator._assignment_snapshot = coordinator._metadata_snapshot
