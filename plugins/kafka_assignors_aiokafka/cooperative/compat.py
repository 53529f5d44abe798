"""Every place where the cooperative consumer depends on how aiokafka works inside.

Three objects of aiokafka have a class of ours here, which is put in their place before they are used:
the consumer, which exchanges its `_subscription` and `_coordinator` as they are assigned; its
`SubscriptionState`, with the assignment and the partitions' states in it; and its `GroupCoordinator`. The
fetcher and the client are aiokafka's own. What `_client` lists of the coordinator is used here too, by
`_leading` and `_topics`.

Checked with aiokafka 0.10.0, 0.11.0, 0.12.0, 0.13.0 and 0.14.0. What is touched beside the public interface:

    AIOKafkaConsumer
        _subscription, _coordinator     assigned in its constructor and in `start`
        _client, _fetcher, _closed
        _group_id … _max_poll_interval_ms
                                        the settings that it hands to its coordinator
    GroupCoordinator
        _coordination_routine           the task that does everything; ours is another
        _coordination_task, _handle_metadata_update, _cluster
                                        to end the one that is replaced
        generation, member_id, coordinator_id
        _closing                        future that is done once the consumer is stopped
        _group_subscription             the topics a leader watches
        _subscription, _client, _assignors, _lookup_assignor
        _enable_auto_commit, _auto_commit_interval_ms, _heartbeat_interval_ms, _session_timeout_ms,
        _rebalance_timeout_ms, _retry_backoff_ms, _max_poll_interval, _group_instance_id
        ensure_coordinator_known, coordinator_dead
        check_errors                    replaced: what it raises in the user's next call
        _push_error_to_user             replaced: raises in the user's call, and waits for the next
        _commit_refresh_task, start_commit_offsets_refresh_task, _stop_commit_offsets_refresh_task
                                        the task that looks up committed offsets for the fetcher
        _maybe_refresh_commit_offsets   replaced: what that task does
        _do_fetch_commit_offsets        OffsetFetch; UNKNOWN_OFFSET is its "nothing is committed"
        _do_heartbeat, _send_req, commit_offsets, request_rejoin, reset_generation, maybe_leave_group,
        close                           replaced
    SubscriptionState
        _subscription, _subscription_type, _loop, _listener, _assignment_waiters, _fetch_waiters,
        _notify_assignment_waiters
        _change_subscription, _assigned_state, reassignment_in_progress, wait_for_assignment,
        paused_partitions, subscription, assigned_partitions, is_assigned, subscribe, subscribe_pattern,
        unsubscribe, fetch_context
                                        replaced
        subscribed_pattern, partitions_auto_assigned, fetcher_idle_time, _fetch_count, _last_fetch_ended
    Subscription._assignment
    Assignment
        _topic_partitions, _tp_state    changed in place
    TopicPartitionState
        _position, _position_fut, update_committed
        pause, resume, fetch_committed, reset_to
                                        replaced
    Fetcher
        _records                        {partition: records not delivered yet}
        _wait_consume_future, _notify   what makes it look for something to fetch
        _create_fetch_waiter            replaced on the instance: what a call for records waits on
        _update_fetch_positions(assignment, node, partitions)
                                        replaced on the instance: it asks for nothing but `state_value`
        _retry_backoff                  seconds
        _fetch_task, error_future       the task that fetches
        _pending_tasks                  the requests that it waits for
    AIOKafkaClient
        send(group=…)                   any number names a connection; 0 and 1 are aiokafka's
        _conns                          {(node, connection): …}, whose `close` fails what waits on it
        force_metadata_update
        _metadata_update                replaced on the instance
    AIOKafkaConnection
        _request_timeout                raised on the connection of joins
    conn.CloseReason
    util
        wait_for                        asyncio's, without a task of its own
    protocol.api
        RequestStruct or Request, Response
                                        what the structs of `structs` are made of
"""

from __future__ import annotations

from contextlib import suppress
from importlib import metadata
from operator import attrgetter
from typing import Any

__all__ = ["end_stock", "require_inside", "require_ours"]

_OF_COORDINATOR = (
    "_coordination_task",
    "_handle_metadata_update",
    "_cluster.remove_listener",
    "_closing",
    "_group_subscription",
    "_lookup_assignor",
    "_max_poll_interval",
    "_commit_refresh_task",
    "_stop_commit_offsets_refresh_task",
    "_maybe_refresh_commit_offsets",
    "_do_fetch_commit_offsets",
    "_subscription._assignment_waiters",
    "_subscription._fetch_waiters",
    "_subscription._notify_assignment_waiters",
    "_subscription.fetcher_idle_time",
)
_OF_FETCHER = (
    "_records",
    "_wait_consume_future",
    "_notify",
    "_create_fetch_waiter",
    "_update_fetch_positions",
    "_retry_backoff",
    "_fetch_task",
    "error_future",
    "_pending_tasks",
)


def require_inside(coordinator: Any, fetcher: Any) -> None:
    """RuntimeError for a release of aiokafka that lacks what we need."""
    for owner, names in ((coordinator, _OF_COORDINATOR), (fetcher, _OF_FETCHER)):
        for name in names:
            try:
                attrgetter(name)(owner)
            except AttributeError:
                raise _unsupported(f"whose {type(owner).__name__} has no {name}") from None


def require_ours(value: object, kind: type) -> None:
    """RuntimeError for a release of aiokafka that uses another class in the place of one that we exchange."""
    if not isinstance(value, kind):
        stock = next(base for base in kind.__mro__ if base.__module__.partition(".")[0] == "aiokafka")
        raise _unsupported(f"which uses {type(value).__name__} where {stock.__name__} is expected")


def end_stock(coordinator: Any) -> None:
    """Keep a coordinator of aiokafka, whose task has not run yet, from joining the group."""
    with suppress(AttributeError):
        coordinator._coordination_task.cancel()
    with suppress(AttributeError):
        coordinator._cluster.remove_listener(coordinator._handle_metadata_update)


def _unsupported(why: str) -> RuntimeError:
    return RuntimeError(
        f"CooperativeAIOKafkaConsumer does not work with aiokafka {metadata.version('aiokafka')}, {why}: "
        "install a release that it works with, pip install 'kafka-assignors[aiokafka]'"
    )
