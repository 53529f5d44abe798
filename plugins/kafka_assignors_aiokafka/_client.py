"""Everything that the assignors and the cooperative consumer use of aiokafka's internals.

Checked with aiokafka 0.10.0, 0.11.0, 0.12.0, 0.13.0 and 0.14.0 (`kafka_assignors_aiokafka.CHECKED`). The list
below holds for all of them. They differ in the name of one attribute of JoinGroupRequest, and in how a
JoinGroupResponse tells its version: by its class up to 0.12, by API_VERSION from 0.13 on. The code looks at
the length of a member instead.

**Assignors.** aiokafka decodes the members' metadata as version 0 of the protocol before it calls an
assignor. So owned partitions, generation and rack are lost, a member that sends garbage makes the leader
fail, and neither the generation nor the instance ids reach the assignor. The coordinator has all of them. It
is never passed to an assignor, but only the coordinator calls one: `calling_coordinator` finds it in the call
stack, and `adopt` replaces two methods of that object. The work of a leader is in `_leading`.

`_client` and `_leading` touch what `_TOUCHED_OF_COORDINATOR` lists, and

    JoinGroupRequest
        _group_protocols            (name, metadata) of the strategies that are offered; group_protocols up
                                    to 0.12
    JoinGroupResponse
        error_code, leader_id, generation_id, group_protocol
        members                     (id, metadata), from version 5 on (id, instance id, metadata)
    Fetcher
        _subscriptions              the object that is the coordinator's _subscription too
        _client_rack                the consumer's client_rack, from 0.14 on
    ClusterMetadata
        brokers()                   nodeId, rack
        _partitions                 {topic: {partition: PartitionMetadata}}, replaced as a whole

**The cooperative consumer.** Three classes of aiokafka have a subclass here: the consumer, which replaces its
`_subscription` and `_coordinator` when they are assigned, before they are used; `SubscriptionState`, with its
assignment and the partitions' states; and `GroupCoordinator`. The fetcher and the client are aiokafka's own.

The cooperative consumer also touches what `_TOUCHED_BY_COOPERATIVE_CONSUMER` and `_TOUCHED_OF_FETCHER` list,
and

    AIOKafkaConsumer
        _subscription, _coordinator     assigned in its constructor and in `start`
        _client, _fetcher, _closed
        _group_id … _max_poll_interval_ms, _exclude_internal_topics, _partition_assignment_strategy
                                        the settings that it passes to its coordinator
    GroupCoordinator
        _coordination_routine           the task that does everything; replaced
        member_id, coordinator_id, coordinator_dead, _retry_backoff_ms
        _enable_auto_commit, _auto_commit_interval_ms
        check_errors                    replaced: raises the user's pending error
        start_commit_offsets_refresh_task
                                        extended: the end of the task wakes the coordination routine
        commit_offsets, reset_generation, maybe_leave_group, close
                                        replaced, and so are _send_req, request_rejoin
    SubscriptionState
        _subscription, _subscription_type, _loop, _listener
        _change_subscription, _assigned_state, reassignment_in_progress, wait_for_assignment,
        paused_partitions, subscription, assigned_partitions, is_assigned, subscribe, subscribe_pattern,
        unsubscribe, fetch_context
                                        replaced
        partitions_auto_assigned, _fetch_count, _last_fetch_ended
    Subscription._assignment
    Assignment
        _topic_partitions, _tp_state    changed in place
    TopicPartitionState
        _position, _position_fut, update_committed
        pause, resume, fetch_committed, reset_to
                                        replaced
    AIOKafkaClient
        send(group=…)                   any number names a connection; 0 and 1 are aiokafka's
        _conns                          {(node, connection): …}; `close` fails the requests that wait
        force_metadata_update
        _metadata_update                replaced on the instance
    AIOKafkaConnection
        _request_timeout                longer on the connection of joins
        _last_action                    when the last response came
        _writer, send, close            a commit is written to the open connection itself
    conn.CloseReason
    util
        wait_for                        as asyncio's, without a task of its own
    protocol.api
        RequestStruct or Request, Response
                                        the bases of the structs in `cooperative.transport`
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import metadata
from types import SimpleNamespace
from typing import Any

from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator

from kafka_assignors.assignor import (
    Assignor,
    caller_of,
    class_given,
    require_client_rack,
    require_eager,
    require_unique_names,
)
from kafka_assignors.client_versions import require_attributes
from kafka_assignors.join_sync import broker_assigns
from kafka_assignors_aiokafka._leading import lead_group

# `adopt` refuses a release that lacks one of these when the consumer first joins.
_TOUCHED_OF_COORDINATOR = (
    "generation",  # the last generation that the member joined, -1 after it was lost
    "group_id",
    "_group_instance_id",
    "_heartbeat_interval_ms",
    "_session_timeout_ms",
    "_rebalance_timeout_ms",
    "_assignors",  # what the user configured
    "_perform_assignment",  # replaced on the instance: JoinGroupResponse -> {member id: bytes}
    # Replaced on the instance: request -> response. The replacement sees the responses, and sends only the
    # last JoinGroup request of a join.
    "_send_req",
    "ensure_coordinator_known",
    "_do_heartbeat",  # whether the member is still in the group
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
    "_metadata_snapshot",
    "_get_metadata_snapshot",
    "request_rejoin",
    "_closing",  # a future that is done once the consumer is being stopped
)


def calling_coordinator() -> Any:
    """The GroupCoordinator in the current call stack."""
    if (coordinator := caller_of(GroupCoordinator)) is not None:
        return coordinator
    raise RuntimeError("an assignor of kafka_assignors_aiokafka works inside a started AIOKafkaConsumer only")


def adopt(coordinator: Any) -> None:
    """Make `coordinator`, when it leads the group, pass the members' undecoded bytes to an assignor of ours.

    aiokafka handles generations that the group runs with another assignor. Calling this again does nothing.

    The plugin sees a consumer here for the first time. So it raises TypeError or ValueError for a wrong
    configuration, and RuntimeError for a release of aiokafka that lacks an attribute in the list above.
    """
    if "_perform_assignment" in vars(coordinator):
        return
    # Leaders alone use many of these: checked now, so that a later change of the leader cannot fail.
    require_attributes("kafka_assignors_aiokafka", "aiokafka", (coordinator, _TOUCHED_OF_COORDINATOR))
    for assignor in coordinator._assignors:
        if isinstance(assignor, type) and issubclass(assignor, Assignor):
            raise class_given(assignor)
    require_unique_names(assignor.name for assignor in coordinator._assignors)
    require_eager(coordinator._assignors, "CooperativeAIOKafkaConsumer")
    stock_perform_assignment = coordinator._perform_assignment

    async def perform_assignment(response: Any) -> Any:
        for assignor in coordinator._assignors:
            if isinstance(assignor, Assignor) and assignor.name == response.group_protocol:
                led = await lead_group(coordinator, assignor, response)
                # aiokafka has forgotten the member id by then, so the broker refuses this SyncGroup.
                return {} if led is None else led.assignments
        return await stock_perform_assignment(response)

    coordinator._perform_assignment = perform_assignment
    _exchange_sending(coordinator)


def _exchange_sending(coordinator: Any) -> None:
    """Make the coordinator send one JoinGroup request with all strategies; warn once if the broker assigns.

    aiokafka sends a request with the first strategy, then one with the first two, and so on, and uses only
    the last response. Each request starts a rebalance: two members with two strategies can interrupt each
    other for ever.
    """
    stock_send = coordinator._send_req
    warned = False

    async def send(request: Any) -> Any:
        nonlocal warned
        offered = getattr(request, "_group_protocols", None) or getattr(request, "group_protocols", None)
        if offered and len(offered) < len(coordinator._assignors):
            return _NOT_SENT
        response = await stock_send(request)
        # Only a JoinGroup response has a leader; one with an error never names it.
        if not warned and getattr(response, "leader_id", None) == "" and response.error_code == 0:
            warned = True
            ours = [one for one in coordinator._assignors if isinstance(one, Assignor)]
            ours[0].log.warning("%s", broker_assigns(coordinator.group_id, [one.name for one in ours]))
        return response

    coordinator._send_req = send


_NOT_SENT = SimpleNamespace(error_code=0)
"""The response to a JoinGroup request that is not sent."""


def rack_of_consumer(coordinator: Any) -> str | None:
    """The `client_rack` of the coordinator's consumer; None before aiokafka 0.14, which lacks the setting.

    The consumer passes it to its fetcher alone, and a coordinator has no reference to the fetcher. The
    fetcher's running task has one.
    """
    for task in asyncio.all_tasks():
        frame = getattr(task.get_coro(), "cr_frame", None)
        fetcher = None if frame is None else frame.f_locals.get("self")
        if isinstance(fetcher, Fetcher) and fetcher._subscriptions is coordinator._subscription:
            return require_client_rack(getattr(fetcher, "_client_rack", None))
    return None


# ---- the cooperative consumer

_TOUCHED_BY_COOPERATIVE_CONSUMER = (
    # The first three end the coordinator that is replaced.
    "_coordination_task",
    "_handle_metadata_update",
    "_cluster.remove_listener",
    "_closing",
    "_max_poll_interval",
    # Of a leader; the comments are in the list above.
    "_group_subscription",
    "_subscription.subscribed_pattern",
    "_subscription.subscription",
    "_client.set_topics",
    "_client._maybe_wait_metadata",
    "_client.force_metadata_update",
    "_client.fetch_all_metadata",
    "_client._metadata_update",
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
            f"CooperativeAIOKafkaConsumer does not work with aiokafka {metadata.version('aiokafka')}, "
            f"which uses {type(value).__name__} where {stock.__name__} is expected: "
            "install a release that it works with, pip install 'kafka-assignors[aiokafka]'"
        )


def end_stock(coordinator: Any) -> None:
    """End a coordinator of aiokafka before its task first runs, so that it does not join the group."""
    with suppress(AttributeError):
        coordinator._coordination_task.cancel()
    with suppress(AttributeError):
        coordinator._cluster.remove_listener(coordinator._handle_metadata_update)
