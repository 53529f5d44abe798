"""Every place where the cooperative consumer depends on how kafka-python works inside.

Three objects of kafka-python have a class of ours here, which is put in their place before they
are used: the consumer's attributes `_subscription`, `_fetcher` and `_coordinator` are properties for that.
The network, the cluster metadata and the requests are kafka-python's own. What `_client` lists of the
coordinator is used by leaders here too.

Checked with kafka-python 3.0.12. What is touched beside the public interface:

    KafkaConsumer
        _subscription, _fetcher, _coordinator   assigned in its constructor, in this order
        _refresh_committed_offsets      replaced, but for `position`
        _poll_once                      extended: whether records were returned
        _client, _closed                to close one that is refused
    ConsumerCoordinator
        _client, _manager, _net, _cluster, _subscription, _assignors, _lock
        _sensors, _consumer_sensors, heartbeat  taken over from the one that is replaced
        _handle_metadata_update         extended: what a leader watches, and a pattern
        _metadata_snapshot, _assignment_snapshot, _build_metadata_snapshot, _is_leader
        _generation, state              shown to `group_metadata`
        coordinator_id, coordinator_unknown, coordinator_dead, lookup_coordinator, _failed_request
                                        where the coordinator is
        fetch_committed_offsets_async   committed offsets, again and again until there is an answer
        _maybe_auto_commit_offsets_async, _maybe_auto_commit_offsets_sync, next_auto_commit_deadline
        _invoke_completed_offset_commit_callbacks, completed_offset_commits
        _offset_fetch_futures           {partitions: committed offsets that were asked for}
        ensure_coordinator_ready_async, _commit_offsets_async_on_complete
                                        replaced
        group_metadata                  extended: joins wait until the next `poll`
        poll, time_to_next_poll, commit_offsets_sync, commit_offsets_async, maybe_leave_group, close
                                        replaced; kafka-python's for partitions assigned by hand
    SubscriptionState
        assignment                      {partition: state}, changed in place
        _lock
        set_reset_pending, reset_failed, set_validation_pending, validation_failed
                                        extended: partitions may have left meanwhile
        partitions_needing_validation   those whose positions may be validated now
    TopicPartitionState
        is_fetchable                    extended: asked before each fetch and each delivery
        position, awaiting_validation
    Fetcher
        _fetch_futures                  what `fetch_records` waits for; changed on the I/O thread alone
        _send_fetches_async             extended: puts there what wakes the user's thread up
        in_flight_fetches               replaced
        _next_partition_records         the records that are handed out next, or none, or no more
        _maybe_update_current_leader    extended: the newest leaders are kept
        _validate_offsets_async         replaced: asks each leader by itself
        _group_offset_for_leader_epoch_requests, _validate_offsets_for_node
        _reset_task, _validation_task, _sensors
    KafkaConnectionManager (`_manager`)
        call_soon, wait_for, send(node_id=…, request_timeout_ms=…), close(node_id=…), close()
        _conns                          {node id: connection}, with `close_future` and `transport`
    KafkaTCPTransport
        _close                          closes the socket, with what is still to be written
    NetworkSelector (`_net`)
        run, sleep, _io_thread
    ClusterMetadata
        _coordinator_brokers            {node id: broker}: a node id has a connection of its own
        topics, topic_id, leader_for_partition, leader_epoch_for_partition, update_partition_leader
        broker_metadata, request_update, partitions_for_topic, add_listener, remove_listener
        unauthorized_topics             those of the user alone while `_handle_metadata_update` runs
    GroupCoordinatorMetrics, ConsumerCoordinatorMetrics
        heartbeat_latency, join_latency, sync_latency, commit_latency
    WakeupNotifier, Generation, MemberState, requests and responses of the group protocol
"""

from __future__ import annotations

from importlib import metadata
from operator import attrgetter
from typing import Any

from kafka.consumer import fetcher, subscription_state
from kafka.coordinator import consumer as coordinator_module
from kafka.protocol.metadata import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    MetadataResponse,
)

__all__ = [
    "ConsumerCoordinator",
    "Fetcher",
    "SubscriptionState",
    "TopicPartitionState",
    "joining_node",
    "require_inside",
]

# What we extend has no types, and the stubs that pyright has are of 2.x.
SubscriptionState: Any = subscription_state.SubscriptionState
TopicPartitionState: Any = subscription_state.TopicPartitionState
Fetcher: Any = fetcher.Fetcher
ConsumerCoordinator: Any = coordinator_module.ConsumerCoordinator

_OF_COORDINATOR = (
    "_sensors",
    "_consumer_sensors",
    "heartbeat",
    "_handle_metadata_update",
    "_assignment_snapshot",
    "_build_metadata_snapshot",
    "_failed_request",
    "lookup_coordinator",
    "fetch_committed_offsets_async",
    "_maybe_auto_commit_offsets_async",
    "_maybe_auto_commit_offsets_sync",
    "next_auto_commit_deadline",
    "_invoke_completed_offset_commit_callbacks",
    "completed_offset_commits",
    "_commit_offsets_async_on_complete",
    "_offset_fetch_futures",
    "_manager.call_soon",
    "_manager.wait_for",
    "_manager.close",
    "_manager._conns",
    "_net.run",
    "_net.sleep",
    "_net._io_thread",
    "_cluster._coordinator_brokers",
    "_subscription._lock",
    "_subscription.assignment",
)
_OF_FETCHER = (
    "_fetch_futures",
    "_send_fetches_async",
    "_next_partition_records",
    "_reset_task",
    "_validation_task",
    "_maybe_update_current_leader",
    "_validate_offsets_async",
    "_validate_offsets_for_node",
    "_group_offset_for_leader_epoch_requests",
    "_manager.cluster.add_listener",
    "_manager.cluster.topic_id",
    "_manager.cluster.update_partition_leader",
    "_sensors",
)


def require_inside(coordinator: Any, fetcher: Any) -> None:
    """RuntimeError for a release of kafka-python that lacks what we need."""
    for owner, names in ((coordinator, _OF_COORDINATOR), (fetcher, _OF_FETCHER)):
        for name in names:
            try:
                attrgetter(name)(owner)
            except AttributeError:
                raise RuntimeError(
                    "CooperativeKafkaConsumer does not work with kafka-python "
                    f"{metadata.version('kafka-python')}, whose {type(owner).__name__} has no {name}"
                ) from None


def joining_node(cluster: Any, coordinator_id: str) -> str:
    """The node id under which the coordinator is reached by joins alone, on a connection of their own.

    A broker answers the requests of a connection one by one, and JoinGroup when the last member has joined:
    what is sent after it on the same connection, heartbeats and commits, waits for as long. kafka-python has
    a connection for each node id, and gives coordinators ids of their own.
    """
    joining_id = f"joining-{coordinator_id}"
    broker = cluster.broker_metadata(coordinator_id)
    known = cluster.broker_metadata(joining_id)
    if known is None or (known.host, known.port) != (broker.host, broker.port):
        cluster._coordinator_brokers[joining_id] = MetadataResponse.MetadataResponseBroker(
            joining_id, broker.host, broker.port, None
        )
    return joining_id
