"""What the cooperative consumer uses of aiokafka's internals. (What assignors read is in `_stock`.)

Checked with aiokafka 0.10.0 to 0.14.0. Subclasses replace the consumer's `_subscription` and `_coordinator`
before they are used; the fetcher and the client are aiokafka's own. Beside what the tuples below list:

    ClusterMetadata         brokers, _partitions ({topic: {partition: metadata}}, replaced as a whole)
    AIOKafkaConsumer        _subscription, _coordinator (assigned), _client, _fetcher, _closed, and settings:
                            _group_id, _partition_assignment_strategy, _exclude_internal_topics,
                            _max_poll_interval_ms, _rebalance_timeout_ms
    GroupCoordinator        replaced: _coordination_routine (the task that does everything), _send_req,
                            check_errors, commit_offsets, reset_generation, maybe_leave_group, close,
                            request_rejoin; extended: start_commit_offsets_refresh_task;
                            read: member_id, coordinator_id, _retry_backoff_ms, _enable_auto_commit,
                            _auto_commit_interval_ms
    SubscriptionState       replaced: every method that changes or waits for the assignment, fetch_context;
                            read: _subscription_type, _loop, _listener, _fetch_count, _last_fetch_ended
    Subscription            _assignment
    Assignment              _topic_partitions, _tp_state (changed in place)
    TopicPartitionState     replaced: pause, resume, fetch_committed, reset_to;
                            read: _position, _position_fut, update_committed
    AIOKafkaClient          send(group=…) (any number names a connection; 0 and 1 are aiokafka's), _conns,
                            force_metadata_update, _metadata_update (replaced on the instance)
    AIOKafkaConnection      _request_timeout (longer for joins), _last_action (when the last response came),
                            _writer, send, close (a commit is written to the open connection itself),
                            _versions, _version_info (the versions of each request that the broker knows)
    OffsetFetchRequest      topics, or _partitions (0.13 on)
    others                  conn.CloseReason, util.wait_for, protocol.api's bases of requests and responses
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kafka_assignors.installed_client import installed_release, require_attributes

_TOUCHED_BY_COOPERATIVE_CONSUMER = (
    # The first three end the coordinator that is replaced.
    "_coordination_task",
    "_handle_metadata_update",
    "_cluster.remove_listener",
    "_closing",
    "_group_instance_id",
    "_heartbeat_interval_ms",
    "_session_timeout_ms",
    "_rebalance_timeout_ms",
    "_max_poll_interval",
    # Of a leader.
    "_group_subscription",  # the set of topics whose partition counts the leader watches, else None
    "_subscription.subscribed_pattern",
    "_subscription.subscription",
    "_client.set_topics",
    "_client._maybe_wait_metadata",
    "_client.force_metadata_update",
    "_client.fetch_all_metadata",
    "_client._metadata_update",  # (cluster metadata to fill, topics) -> whether a broker answered
    "_cluster.brokers",
    "_cluster._partitions",
    "_get_metadata_snapshot",  # extended: the racks of replicas
    "_commit_refresh_task",  # looks up committed offsets for the fetcher
    "_maybe_refresh_commit_offsets",  # replaced: what that task does
    "_do_fetch_commit_offsets",  # OffsetFetch; UNKNOWN_OFFSET where nothing is committed
    "_subscription._assignment_waiters",
    "_subscription._fetch_waiters",
    "_subscription._notify_assignment_waiters",
    "_subscription.fetcher_idle_time",
)
_TOUCHED_OF_FETCHER = (
    "_records",  # {partition: records not delivered yet}
    "_wait_consume_future",  # `_notify` of it makes the fetcher look for partitions to fetch
    "_notify",
    "_create_fetch_waiter",  # replaced on the instance: the future that a call for records waits on
    # Replaced on the instance: (assignment, node, partitions). Of the assignment it uses `state_value` alone.
    "_update_fetch_positions",
    # Replaced on the instance: what to do next. Of the assignment it uses `tps` and `state_value` alone.
    "_get_actions_per_node",
    "_retry_backoff",  # seconds
    "_fetch_task",  # with `error_future`, the task that fetches
    "error_future",
    "_pending_tasks",  # the requests that it waits for
)


def require_inside(coordinator: Any, fetcher: Any) -> None:
    """RuntimeError for a release of aiokafka that lacks an attribute that the cooperative consumer needs."""
    require_attributes(
        "CooperativeAIOKafkaConsumer",
        "aiokafka",
        (coordinator, _TOUCHED_BY_COOPERATIVE_CONSUMER),
        (fetcher, _TOUCHED_OF_FETCHER),
    )


def require_ours(value: object, kind: type) -> None:
    """RuntimeError for a release of aiokafka that uses another class than the one that is replaced here."""
    if not isinstance(value, kind):
        stock = next(base for base in kind.__mro__ if base.__module__.partition(".")[0] == "aiokafka")
        raise RuntimeError(
            "CooperativeAIOKafkaConsumer does not work with aiokafka "
            f"{installed_release('aiokafka', 'aiokafka')}, which uses {type(value).__name__} "
            f"where {stock.__name__} is expected: "
            "install a release that it works with, pip install 'kafka-assignors[aiokafka]'"
        )


def end_stock(coordinator: Any) -> None:
    """End a coordinator of aiokafka before its task first runs, so that it does not join the group."""
    with suppress(AttributeError):
        coordinator._coordination_task.cancel()
    with suppress(AttributeError):
        coordinator._cluster.remove_listener(coordinator._handle_metadata_update)
