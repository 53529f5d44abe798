"""What an assignor reads of kafka-python's running call, because kafka-python does not pass it on.

All but the cluster, which is an argument, is read from the frame of the method that calls the assignor.
Nothing is replaced:

    ConsumerCoordinator
        any method              self: the consumer, since one assignor may serve several
        config                  assignors: all that the user has configured
        _generation             generation_id: the last generation that the consumer joined
        _perform_assignment     members, in kafka-python 2: (member_id, metadata_bytes), from 2.3 on
                                (member_id, group_instance_id, metadata_bytes)
    ClusterMetadata
        brokers()               nodeId (2) or node_id (3), and rack
        _partitions             {topic: {number: metadata}}, with replicas (2) or replica_nodes (3)

kafka-python 2 decodes what the members joined with as version 0: without the partitions that cooperative
members still hold. A leader that does not see these gives them to other members at once, and they have two
owners. So strategies under which a member may be cooperative read the undecoded bytes, or do not run.
kafka-python 3 decodes every field, and what it has decoded encodes to the same bytes again.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType
from typing import Any

from kafka_assignors.group import NO_GENERATION
from kafka_assignors.installed_client import caller_of, code_of, variables_of
from kafka_assignors.messages import JoinedMember
from kafka_assignors.wire import Subscription, encode_subscription
from kafka_assignors_kafka_python._releases import INSTALLED, IS_2

# Only now: the import above explains a release that is too old; this import would fail without advice.
from kafka.coordinator.consumer import ConsumerCoordinator  # isort: skip


def coordinator() -> Any | None:
    """The ConsumerCoordinator that calls; None outside a consumer."""
    return caller_of(ConsumerCoordinator)


def generation_of(coordinator: object) -> int:
    """The last generation that the coordinator joined; -1 if it cannot be read."""
    generation: int = getattr(getattr(coordinator, "_generation", None), "generation_id", NO_GENERATION)
    return generation


def configured_names(coordinator: Any) -> list[str]:
    """The names of all assignors that the user has configured."""
    configured = coordinator.config["assignors"]
    return [one().name if isinstance(one, type) and not IS_2 else one.name for one in configured]


def obstacle() -> str | None:
    """Why this release of kafka-python does not show all that members join with; None if it does."""
    if not IS_2:
        return None if _decodes_every_field() else "its ConsumerProtocolSubscription loses fields"
    code = _perform_assignment()
    if code is None or "members" not in code.co_varnames[: code.co_argcount]:
        return "its ConsumerCoordinator._perform_assignment has no argument `members`"
    if "metadata_bytes" not in code.co_varnames + code.co_names:
        return "its ConsumerCoordinator._perform_assignment gets no `metadata_bytes` of the members"
    return None


def joined_members(decoded: Any, *, completely: bool) -> Iterable[JoinedMember]:
    """The members that the leader assigns to, from `decoded`, the argument of an assignor's `assign`.

    With `completely` RuntimeError if fields of theirs may be missing.
    """
    why = obstacle()
    if IS_2 and why is None:
        running = variables_of(_perform_assignment())
        if running is not None:
            return [
                JoinedMember(member_id, instance_id[0] if instance_id else None, bytes(metadata))
                for member_id, *instance_id, metadata in running["members"]
            ]
        why = "its ConsumerCoordinator._perform_assignment is not running"
    if completely and why is not None:
        raise RuntimeError(f"kafka-python {INSTALLED} does not show what members still hold: {why}")
    if IS_2:
        return [
            JoinedMember(member_id, getattr(one, "group_instance_id", None), one.encode())
            for member_id, one in decoded.items()
        ]
    return [JoinedMember(one.member_id, one.group_instance_id, one.metadata.encode()) for one in decoded]


def _perform_assignment() -> CodeType | None:
    return code_of(ConsumerCoordinator, "_perform_assignment")


def _decodes_every_field() -> bool:
    from kafka.protocol.consumer.metadata import (  # pyright: ignore[reportMissingImports]  # stubs of 2.x
        ConsumerProtocolSubscription,
    )

    joined = encode_subscription(Subscription(3, ("topic",), b"data", {"topic": [1]}, 2, "rack"))
    return bool(ConsumerProtocolSubscription.decode(joined).encode() == joined)
