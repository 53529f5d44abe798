"""The consumer's coordinator, in what all versions of kafka-python share.

Touched here and in `leading`, with what it is used for (checked with the versions of `CHECKED`):

    ConsumerCoordinator
        request_rejoin              see `come_back_for_this_join`
        group_id, group_instance_id the consumer's settings; 2.2 and older have no static members
        config                      heartbeat_interval_ms, session_timeout_ms, assignors
        _generation.generation_id   the generation last joined
        _lookup_assignor            assignor by name, as the user configured it
        _perform_assignment         replaced on the instance: (leader, protocol, members) -> {id: bytes}
        _subscription.group_subscribe, group_subscription: whose metadata the leader watches
        _cluster.add_listener, request_update, need_all_topic_metadata
        _build_metadata_snapshot    what of the metadata matters to the leader: partitions by topic;
                                    replaced on the instance, see `leading`
        _is_leader, _metadata_snapshot, _assignment_snapshot: when the snapshots differ, the member rejoins
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka_assignors.assignor import Assignor, caller_of
from kafka_assignors_kafka_python._client import interface
from kafka_assignors_kafka_python._client.leading import Leadership, follow_racks

# Only now: of a release that is too old the import above says so, and that one would not.
from kafka.coordinator.consumer import ConsumerCoordinator  # isort: skip


def calling_coordinator() -> Any:
    """The ConsumerCoordinator on whose behalf the current call is made."""
    if (coordinator := caller_of(ConsumerCoordinator)) is not None:
        return coordinator
    raise RuntimeError("an assignor of kafka_assignors_kafka_python works inside a KafkaConsumer only")


def instance_id_of(coordinator: Any) -> str | None:
    """The group.instance.id of the coordinator's consumer, if it has one."""
    instance_id: str | None = getattr(coordinator, "group_instance_id", None)
    return instance_id


def require_unique_names(coordinator: Any) -> None:
    """Raise ValueError if two configured assignors have one name: kafka-python would silently use one."""
    ours = {one.name for one in interface.assignors_of(coordinator) if isinstance(one, Assignor)}
    names = interface.configured_names(coordinator)
    twins = sorted(name for name in ours if names.count(name) > 1)
    if twins:
        raise ValueError(
            f"partition_assignment_strategy has two assignors with the name {twins[0]!r}: the group votes on "
            "names, so leave one of them out"
        )


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
    leadership = Leadership(coordinator)
    coordinator._perform_assignment = leadership.perform_assignment
    interface.hold_back_answers(coordinator, leadership)


def watch_topics_if_static(coordinator: Any, assigned: Collection[str], *, racks: bool) -> None:
    """Have a static member, once it was assigned, rejoin when partitions are added to its topics.

    A static member that was the leader still is after a restart, but the versions of JoinGroup that
    kafka-python speaks do not tell it. It takes itself for a follower, none watches, and added partitions
    would have no consumer until the next rebalance. So every static member watches its own topics.

    `assigned` are the topics that it has partitions of. With `racks` it watches the racks of their replicas
    as well.
    """
    if instance_id_of(coordinator) is None or coordinator._is_leader:
        return
    follow_racks(coordinator, racks)
    snapshot = coordinator._build_metadata_snapshot(coordinator._subscription, coordinator._cluster)
    if all(snapshot.get(topic) for topic in assigned):
        coordinator._metadata_snapshot = coordinator._assignment_snapshot = snapshot
        return

    # A process that has just started gets its partitions back sooner than the metadata of its topics. That
    # this arrives is no change, and must not cost the rebalance that static membership is there to save.
    is_waiting = getattr(coordinator, "_kafka_assignors_awaited", None) is not None
    coordinator._kafka_assignors_awaited = frozenset(assigned)
    if is_waiting:
        return

    def start_watching(cluster: Any) -> None:
        snapshot = coordinator._build_metadata_snapshot(coordinator._subscription, cluster)
        awaited = coordinator._kafka_assignors_awaited
        if coordinator._assignment_snapshot is None and all(snapshot.get(topic) for topic in awaited):
            coordinator._metadata_snapshot = coordinator._assignment_snapshot = snapshot

    # Once for each consumer: kafka-python calls its listeners one by one, and none may be removed meanwhile.
    coordinator._cluster.add_listener(start_watching)
