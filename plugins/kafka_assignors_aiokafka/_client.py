"""Every place where the assignors and the cooperative consumer depend on how aiokafka works inside.

Checked with aiokafka 0.10.0, 0.11.0, 0.12.0, 0.13.0 and 0.14.0 (`kafka_assignors_aiokafka.CHECKED`). What is
listed below is the same in all of them. They differ in how a JoinGroupResponse tells its version (by its
class up to 0.12, by API_VERSION from 0.13 on), which is why the length of a member is asked and neither of
these; and in the name of one attribute of JoinGroupRequest.

**Assignors.** aiokafka decodes what the members sent as version 0 of the protocol before it asks an assignor,
so the bytes that follow (owned partitions, generation, rack) are lost, a member that sends garbage takes the
leader down, and neither the generation nor the instance ids reach the assignor. All of that is in the
coordinator's hands. An assignor is never given the coordinator, but it is only ever called by it:
`calling_coordinator` finds it in the call stack, and `adopt` replaces two methods of that one object. What a
leader does then, and how it learns of topics, is in `_leading`.

Touched in these two: of the coordinator what `_TOUCHED_OF_COORDINATOR` lists, and

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

**The cooperative consumer.** Three objects of aiokafka have a class of ours, which is put in their place
before they are used: the consumer, which exchanges its `_subscription` and `_coordinator` as they are
assigned; its `SubscriptionState`, with the assignment and the partitions' states in it; and its
`GroupCoordinator`. The fetcher and the client are aiokafka's own. `_leading` touches here what is
listed above.

Touched besides, with what `_TOUCHED_BY_COOPERATIVE_CONSUMER` and `_TOUCHED_OF_FETCHER` list:

    AIOKafkaConsumer
        _subscription, _coordinator     assigned in its constructor and in `start`
        _client, _fetcher, _closed
        _group_id … _max_poll_interval_ms, _exclude_internal_topics, _partition_assignment_strategy
                                        the settings that it hands to its coordinator
    GroupCoordinator
        _coordination_routine           the task that does everything; ours is another
        member_id, coordinator_id, coordinator_dead, _retry_backoff_ms
        _enable_auto_commit, _auto_commit_interval_ms
        check_errors                    replaced: what it raises in the user's next call
        start_commit_offsets_refresh_task
                                        extended: its end wakes the coordination routine
        commit_offsets, reset_generation, maybe_leave_group, close
                                        replaced, and so are _do_heartbeat, _send_req, request_rejoin
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
                                        what the structs of `cooperative.transport` are made of
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
    "generation",  # the generation last joined, -1 after it was lost
    "group_id",
    "_group_instance_id",
    "_heartbeat_interval_ms",
    "_session_timeout_ms",
    "_rebalance_timeout_ms",
    "_assignors",  # what the user configured
    "_perform_assignment",  # replaced on the instance: JoinGroupResponse -> {member id: bytes}
    # Replaced on the instance: request -> response. Sees the responses, and spares the group all JoinGroup
    # requests of a join but the last.
    "_send_req",
    "ensure_coordinator_known",
    "_do_heartbeat",  # whether the coordinator still counts this member in
    "_group_subscription",  # the set of topics whose partition counts the leader watches, else None
    "_subscription.subscribed_pattern",
    "_subscription.subscription",
    "_client.set_topics",
    "_client._maybe_wait_metadata",
    "_client.force_metadata_update",
    "_client.fetch_all_metadata",
    "_cluster.brokers",
    "_cluster._partitions",
    "_metadata_snapshot",
    "_get_metadata_snapshot",
    "request_rejoin",
    "_closing",  # a future that is done once the consumer is being stopped
)


def calling_coordinator() -> Any:
    """The GroupCoordinator on whose behalf the current call is made."""
    if (coordinator := caller_of(GroupCoordinator)) is not None:
        return coordinator
    raise RuntimeError("an assignor of kafka_assignors_aiokafka works inside a started AIOKafkaConsumer only")


def adopt(coordinator: Any) -> None:
    """Have `coordinator`, whenever it leads the group, hand the untouched bytes to an assignor of ours.

    Generations that the group runs with another assignor stay with aiokafka. Calling this again does nothing.

    Here the plugin first sees a consumer. So it raises TypeError or ValueError for a wrong configuration,
    and RuntimeError for a release of aiokafka that lacks an attribute in the list above.
    """
    if "_perform_assignment" in vars(coordinator):
        return
    # Much of it is used by leaders alone, and a group should not find out when its leader changes.
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
                # Without our member id, which aiokafka has forgotten, no member takes this for an assignment.
                return {} if led is None else led.assignments
        return await stock_perform_assignment(response)

    coordinator._perform_assignment = perform_assignment
    _exchange_sending(coordinator)


def _exchange_sending(coordinator: Any) -> None:
    """Have the coordinator send one JoinGroup with all its strategies, where aiokafka sends one for each.

    It asks with the first one, then with the first two, and so on, and goes by the last answer alone. Each
    request starts a rebalance: two members with two strategies can go on interrupting each other for ever.
    Besides, warn once where the broker assigns.
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
"""The response in place of a JoinGroup request that is not sent."""


def rack_of_consumer(coordinator: Any) -> str | None:
    """The `client_rack` of the consumer whose coordinator this is; before 0.14 there is no such setting.

    The consumer tells its fetcher alone. What leads there from a coordinator is the fetcher's running task.
    """
    for task in asyncio.all_tasks():
        frame = getattr(task.get_coro(), "cr_frame", None)
        fetcher = None if frame is None else frame.f_locals.get("self")
        if isinstance(fetcher, Fetcher) and fetcher._subscriptions is coordinator._subscription:
            return require_client_rack(getattr(fetcher, "_client_rack", None))
    return None


# ---- the cooperative consumer

_TOUCHED_BY_COOPERATIVE_CONSUMER = (
    # These three, to end the coordinator that is replaced.
    "_coordination_task",
    "_handle_metadata_update",
    "_cluster.remove_listener",
    "_closing",
    "_group_subscription",
    "_max_poll_interval",
    "_commit_refresh_task",  # looks up committed offsets for the fetcher
    "_maybe_refresh_commit_offsets",  # replaced: what that task does
    "_do_fetch_commit_offsets",  # OffsetFetch; UNKNOWN_OFFSET is its "nothing is committed"
    "_subscription._assignment_waiters",
    "_subscription._fetch_waiters",
    "_subscription._notify_assignment_waiters",
    "_subscription.fetcher_idle_time",
)
_TOUCHED_OF_FETCHER = (
    "_records",  # {partition: records not delivered yet}
    "_wait_consume_future",  # with `_notify`, what makes it look for something to fetch
    "_notify",
    "_create_fetch_waiter",  # replaced on the instance: what a call for records waits on
    # Replaced on the instance: (assignment, node, partitions), and asks for nothing but `state_value`.
    "_update_fetch_positions",
    "_retry_backoff",  # seconds
    "_fetch_task",  # with `error_future`, the task that fetches
    "error_future",
    "_pending_tasks",  # the requests that it waits for
)


def require_inside(coordinator: Any, fetcher: Any) -> None:
    """RuntimeError for a release of aiokafka that lacks what the cooperative consumer needs."""
    require_attributes(
        "CooperativeAIOKafkaConsumer",
        "aiokafka",
        (coordinator, _TOUCHED_BY_COOPERATIVE_CONSUMER),
        (fetcher, _TOUCHED_OF_FETCHER),
    )


def require_ours(value: object, kind: type) -> None:
    """RuntimeError for a release of aiokafka that uses another class in the place of one that we exchange."""
    if not isinstance(value, kind):
        stock = next(base for base in kind.__mro__ if base.__module__.partition(".")[0] == "aiokafka")
        raise RuntimeError(
            f"CooperativeAIOKafkaConsumer does not work with aiokafka {metadata.version('aiokafka')}, "
            f"which uses {type(value).__name__} where {stock.__name__} is expected: "
            "install a release that it works with, pip install 'kafka-assignors[aiokafka]'"
        )


def end_stock(coordinator: Any) -> None:
    """Keep a coordinator of aiokafka, whose task has not run yet, from joining the group."""
    with suppress(AttributeError):
        coordinator._coordination_task.cancel()
    with suppress(AttributeError):
        coordinator._cluster.remove_listener(coordinator._handle_metadata_update)
