"""Every place where the assignors depend on how aiokafka works inside.

What `CooperativeAIOKafkaConsumer` uses besides is listed in `cooperative.compat`.

aiokafka decodes what the members sent as version 0 of the protocol before it asks an assignor, so the bytes
that follow (owned partitions, generation, rack) are lost, a member that sends garbage takes the leader down,
and neither the generation nor the instance ids reach the assignor. All of that is in the coordinator's hands.
An assignor is never given the coordinator, but it is only ever called by it: `calling_coordinator` finds it
in the call stack, and `adopt` replaces two methods of that one object. What a leader does then is in
`_leading`, and how it learns of topics in `_topics`.

Checked with aiokafka 0.10.0, 0.11.0, 0.12.0, 0.13.0 and 0.14.0 (`_versions.CHECKED`). What is listed below is
the same in all of them. They differ in how a JoinGroupResponse tells its version (by its class up to 0.12, by
API_VERSION from 0.13 on), which is why the length of a member is asked and neither of these; and in the name
of one attribute of JoinGroupRequest.

Touched in these three, with what it is used for; in a release that lacks any of the coordinator's, `adopt`
says so when the consumer first joins:

    GroupCoordinator
        generation                  the generation last joined, -1 after it was lost
        group_id, _group_instance_id, _heartbeat_interval_ms, _session_timeout_ms, _rebalance_timeout_ms
                                    settings of the consumer
        _assignors                  what the user configured
        _perform_assignment         replaced on the instance: JoinGroupResponse -> {member id: bytes}
        _send_req                   replaced on the instance: request -> response. Sees the responses, and
                                    spares the group all JoinGroup requests of a join but the last
        ensure_coordinator_known, _do_heartbeat
                                    one heartbeat: whether the coordinator still counts this member in
        _group_subscription         set of the topics whose partition counts the leader watches, else None
        _subscription.subscribed_pattern, _subscription.subscription.topics
        _client.set_topics, _client._maybe_wait_metadata, _client.force_metadata_update,
        _client.fetch_all_metadata
        _cluster
        _metadata_snapshot, _get_metadata_snapshot
        request_rejoin
        _closing                    future that is done once the consumer is being stopped
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
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from importlib import metadata
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator

from kafka_assignors.assignor import Assignor, caller_of, optional_name, require_eager
from kafka_assignors.member_bytes import broker_assigns
from kafka_assignors_aiokafka._leading import lead_group

__all__ = [
    "adopt",
    "calling_coordinator",
    "rack_of_consumer",
]

_TOUCHED_OF_COORDINATOR = (
    "generation",
    "group_id",
    "_group_instance_id",
    "_heartbeat_interval_ms",
    "_session_timeout_ms",
    "_rebalance_timeout_ms",
    "_assignors",
    "_perform_assignment",
    "_send_req",
    "ensure_coordinator_known",
    "_do_heartbeat",
    "_group_subscription",
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
    "_closing",
)


def calling_coordinator() -> Any:
    """The GroupCoordinator on whose behalf the current call is made."""
    if (coordinator := caller_of(GroupCoordinator)) is not None:
        return coordinator
    raise RuntimeError("an assignor of kafka_assignors_aiokafka works inside a started AIOKafkaConsumer only")


def adopt(coordinator: Any) -> None:
    """Have `coordinator`, whenever it leads the group, hand the untouched bytes to an assignor of ours.

    Generations that the group runs with another assignor stay with aiokafka. Calling this again does nothing.

    This is the first that we hear of a consumer, so what is wrong with it is raised here: TypeError or
    ValueError for what was configured, RuntimeError for a release of aiokafka that lacks what we need.
    """
    if "_perform_assignment" in vars(coordinator):
        return
    _require_touched(coordinator)
    _require_distinct_instances(coordinator._assignors)
    require_eager(coordinator._assignors, "CooperativeAIOKafkaConsumer")
    stock_perform_assignment = coordinator._perform_assignment

    async def perform_assignment(response: Any) -> Any:
        for assignor in coordinator._assignors:
            if isinstance(assignor, Assignor) and assignor.name == response.group_protocol:
                return await lead_group(coordinator, assignor, response)
        return await stock_perform_assignment(response)

    coordinator._perform_assignment = perform_assignment
    _join_once(coordinator)
    _warn_where_the_broker_assigns(coordinator)


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


def _require_distinct_instances(assignors: Iterable[Any]) -> None:
    # Of two with one name aiokafka uses one.
    for assignor in assignors:
        if isinstance(assignor, type) and issubclass(assignor, Assignor):
            raise TypeError(
                f"{assignor.__name__} is a class and partition_assignment_strategy needs an instance: "
                f"pass [{assignor.__name__}()]"
            )
    names = Counter(assignor.name for assignor in assignors)
    for name, count in names.items():
        if count > 1:
            raise ValueError(
                f"partition_assignment_strategy has {count} assignors with the name {name!r}: the group "
                "votes on names, so leave one of them"
            )


def _join_once(coordinator: Any) -> None:
    """Have the coordinator send one JoinGroup with all its strategies, where aiokafka sends one for each.

    It asks with the first one, then with the first two, and so on, and goes by the last answer alone. Each
    request starts a rebalance: two members with two strategies can go on interrupting each other for ever.
    """
    stock_send = coordinator._send_req

    async def send(request: Any) -> Any:
        offered = getattr(request, "_group_protocols", None) or getattr(request, "group_protocols", None)
        if offered and len(offered) < len(coordinator._assignors):
            return _NOT_SENT
        return await stock_send(request)

    coordinator._send_req = send


_NOT_SENT = SimpleNamespace(error_code=0)
"""The response in place of a JoinGroup request that is not sent."""


def _warn_where_the_broker_assigns(coordinator: Any) -> None:
    stock_send = coordinator._send_req
    warned = False

    async def send(request: Any) -> Any:
        nonlocal warned
        response = await stock_send(request)
        # Only a JoinGroup response has a leader; one with an error never names it.
        if not warned and getattr(response, "leader_id", None) == "" and response.error_code == 0:
            warned = True
            ours = [one for one in coordinator._assignors if isinstance(one, Assignor)]
            ours[0].log.warning("%s", broker_assigns(coordinator.group_id, [one.name for one in ours]))
        return response

    coordinator._send_req = send


def rack_of_consumer(coordinator: Any) -> str | None:
    """The `client_rack` of the consumer whose coordinator this is; before 0.14 there is no such setting.

    The consumer tells its fetcher alone. What leads there from a coordinator is the fetcher's running task.
    """
    for task in asyncio.all_tasks():
        frame = getattr(task.get_coro(), "cr_frame", None)
        fetcher = None if frame is None else frame.f_locals.get("self")
        if isinstance(fetcher, Fetcher) and fetcher._subscriptions is coordinator._subscription:
            # aiokafka takes "" for none.
            return optional_name("client_rack", getattr(fetcher, "_client_rack", None) or None)
    return None
