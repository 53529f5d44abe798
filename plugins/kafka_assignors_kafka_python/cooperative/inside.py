"""The inside of kafka-python 3 that the cooperative consumer touches. Checked with 3.0.12.

Properties of the consumer replace kafka-python's `_subscription`, `_fetcher` and `_coordinator` by ours
before they are used; network, cluster metadata and requests are its own. Beside what the tuples below list:

    KafkaConsumer           _subscription, _fetcher, _coordinator (assigned in this order), _client, _closed;
                            replaced, except in `position`: _refresh_committed_offsets; extended: _poll_once
    ConsumerCoordinator     replaced: ensure_coordinator_ready_async; except where partitions are assigned by
                            hand, poll, time_to_next_poll, commit_offsets_*, maybe_leave_group, close;
                            extended: group_metadata; set for it: _generation, state;
                            read: _client, _lock, _metadata_snapshot, _assignors ({name: assignor})
    SubscriptionState       extended, since partitions may have left: set_reset_pending, reset_failed,
                            set_validation_pending, validation_failed; read: the group's topics,
                            _user_assignment (the partitions that are assigned by hand)
    TopicPartitionState     extended: is_fetchable (asked before each fetch and each delivery); position
    Fetcher                 _subscriptions
    KafkaConnectionManager  send(node_id=…, request_timeout_ms=…), close, get_connection
    KafkaConnection         connected, paused, _reauth, send_request (a commit goes to the open connection)
    KafkaTCPTransport       _close (without the pending writes), _sock, is_closing, last_read
    ClusterMetadata         topics, ids, leaders and their epochs, listeners, requests for metadata, _topics;
                            _partitions (replaced as a whole), unauthorized_topics (while it is updated)
    metrics                 the sensors of kafka-python's coordinator, and `kafka.metrics.stats`
    others                  Generation, MemberState, requests and responses of the protocol
"""

from __future__ import annotations

from typing import Any

from kafka.consumer import fetcher, subscription_state
from kafka.coordinator import consumer as coordinator_module

from kafka_assignors.installed_client import require_attributes

# The base classes have no types, and pyright's stubs are of 2.x.
SubscriptionState: Any = subscription_state.SubscriptionState
TopicPartitionState: Any = subscription_state.TopicPartitionState
Fetcher: Any = fetcher.Fetcher
ConsumerCoordinator: Any = coordinator_module.ConsumerCoordinator

_TOUCHED_OF_COORDINATOR = (
    # The first three are taken over from the coordinator that is replaced.
    "_sensors",
    "_consumer_sensors",
    "heartbeat",
    "_handle_metadata_update",  # extended: the topics of a leader, and a pattern
    "_assignment_snapshot",
    "_build_metadata_snapshot",
    "_failed_request",
    "lookup_coordinator",
    "_send_offset_fetch_request",
    "_handle_offset_fetch_response",  # extended: offsets of open transactions
    "_maybe_auto_commit_offsets_async",
    "_maybe_auto_commit_offsets_sync",
    "next_auto_commit_deadline",
    "_invoke_completed_offset_commit_callbacks",
    "completed_offset_commits",
    "_commit_offsets_async_on_complete",  # replaced
    "_isolation_level",  # replaced: it makes OffsetFetch require stable offsets, and does nothing else
    "_offset_fetch_futures",  # {partitions: the future of their committed offsets}
    "_manager.call_soon",
    "_manager.wait_for",
    "_manager.close",
    "_manager._conns",  # {node id: connection}, with `close_future` and `transport`
    "_net.run",
    "_net.sleep",
    "_net._closed",
    "_net._io_thread",
    "_cluster._coordinator_brokers",  # {node id: broker}: a node id has a connection of its own
    "_subscription._lock",
    "_subscription.assignment",  # {partition: state}, changed in place
)
_TOUCHED_OF_FETCHER = (
    "_fetch_futures",  # the futures that `fetch_records` waits for; only the I/O thread changes them
    "_send_fetches_async",  # extended: adds the future that wakes the user's thread
    "_completed_fetches",  # a deque of responses that are not parsed
    "_paused_completed_fetches",  # the same by partition, while the user has paused it
    "_paused_partition_records",  # parsed records by partition, while the user has paused it
    "_next_partition_records",  # the records that are delivered next; None, or empty if all were delivered
    "_reset_task",
    "_validation_task",
    "_maybe_update_current_leader",  # extended: the newest leaders are kept
    "_validate_offsets_async",  # replaced: asks each leader independently
    "_validate_offsets_for_node",
    "_group_offset_for_leader_epoch_requests",
    "_manager.cluster.add_listener",
    "_manager.cluster.topic_id",
    "_manager.cluster.update_partition_leader",
    "_sensors",
)


def require_inside(coordinator: Any, fetcher: Any) -> None:
    """RuntimeError for a release of kafka-python that lacks an attribute the cooperative consumer needs."""
    require_attributes(
        "CooperativeKafkaConsumer",
        "kafka-python",
        (coordinator, _TOUCHED_OF_COORDINATOR),
        (fetcher, _TOUCHED_OF_FETCHER),
    )
