"""Assignors for aiokafka, which translate between the client and `kafka_assignors.assignor`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import MethodType
from typing import Any, NoReturn

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from kafka_assignors.assignor import (
    Assignor,
    class_given,
    require_eager,
    require_unique_names,
)
from kafka_assignors.group import Topic
from kafka_assignors.installed_client import installed_release
from kafka_assignors.leader import InvalidAssignmentError
from kafka_assignors.messages import JoinedMember, topics_from
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors.wire import Subscription, encode_subscription
from kafka_assignors_aiokafka._running_call import (
    assigned_coordinator,
    joining_coordinator,
    members_to_assign,
    members_unreadable,
)

_OURS = "CooperativeAIOKafkaConsumer"


class _OfInstances:
    """A method that raises a TypeError with advice when it is called on the class.

    aiokafka's own assignors are passed as classes, so a user may pass a class of ours by mistake. `metadata`
    is the first method that a consumer calls.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        if instance is None:
            return partial(_refuse_class, owner)
        return MethodType(self._method, instance)


def _refuse_class(owner: type, *_: object) -> NoReturn:
    raise class_given(owner)


class StrategyAssignor(Assignor, AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """Runs any strategy as an assignor of AIOKafkaConsumer:

        AIOKafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    `weights` gives the leader of a cooperative group the weights of partitions, for strategies that use them:
    see `WeightedAssignor`. The leader waits for the weights for `weights_timeout_s`, at most a third of
    `session_timeout_ms`. `AssignorOptions` describes the other arguments.
    """

    log = logging.getLogger("kafka_assignors_aiokafka")

    # ---- aiokafka's interface: class methods there, methods of an instance here

    @_OfInstances
    def metadata(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, topics: Iterable[str]
    ) -> bytes:
        """The calling consumer's metadata for its JoinGroup request.

        A consumer calls it first: TypeError, ValueError or RuntimeError for assignors that cannot run.
        """
        coordinator = joining_coordinator()
        _require_stock([self] if coordinator is None else coordinator._assignors)
        instance_id = None if coordinator is None else coordinator._group_instance_id
        return self.subscription_of(coordinator or self, topics, instance_id)

    def on_assignment(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assignment: ConsumerProtocolMemberAssignment
    ) -> None:
        """Remember the calling consumer's assignment, which its next JoinGroup request reports as owned."""
        coordinator, generation = assigned_coordinator()
        self.remember(coordinator or self, dict(assignment.assignment), generation)

    def assign(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> Mapping[str, bytes]:
        """The bytes of every member's assignment, by member id.

        The leader reads the bytes that the members joined with. What aiokafka has decoded (`members`) lacks
        what members hold, racks and instance ids: a strategy that is eager alone assigns from it where the
        installed aiokafka has no bytes to read.
        """
        if members_unreadable() and not _is_cooperative(self):
            joined, generation = _decoded(members), None
        else:
            joined, generation = members_to_assign()
        decoded = self.read_members(joined)
        try:
            topics = topics_of(cluster, decoded.topics)
            return self.encode_assignments(decoded, topics, generation).assignments
        except InvalidAssignmentError:
            raise
        except Exception:
            # aiokafka turns it into a KafkaError without a cause and a traceback.
            self.log.exception("strategy %r failed", self.name)
            raise


def _decoded(members: Mapping[str, ConsumerProtocolMemberMetadata]) -> list[JoinedMember]:
    """The fields of version 0, which are all that aiokafka decodes, of members of any version."""
    return [
        JoinedMember(
            id, None, encode_subscription(Subscription(0, (*member.subscription,), member.user_data or b""))
        )
        for id, member in members.items()
    ]


def topics_of(cluster: ClusterMetadata, names: Iterable[str]) -> list[Topic]:
    """The named topics, without those that aiokafka has no metadata of."""
    racks = {broker.nodeId: broker.rack for broker in cluster.brokers() if broker.rack}
    return topics_from(cluster._partitions, racks, attrgetter("replicas"), names)


def _is_cooperative(one: Assignor) -> bool:
    return RebalanceProtocol.COOPERATIVE in one.strategy.protocols


def _require_stock(assignors: Sequence[Any]) -> None:
    """TypeError, ValueError or RuntimeError for assignors that AIOKafkaConsumer cannot run."""
    require_unique_names(one.name for one in assignors)
    require_eager(assignors, _OURS)
    missing = members_unreadable()
    for one in assignors:
        if isinstance(one, type) and issubclass(one, Assignor):
            raise class_given(one)
        if missing and isinstance(one, Assignor) and _is_cooperative(one):
            raise RuntimeError(
                f"strategy {one.name!r} has a cooperative protocol, so its leader must know which partitions "
                f"members hold, and aiokafka {installed_release('aiokafka', 'aiokafka')} does not let an "
                f"assignor read that: {missing}. Use {_OURS}, or a strategy that is eager alone, such as "
                "StickyAssignor()"
            )


assignor = StrategyAssignor
"""Makes an assignor of a strategy: `assignor(MyStrategy())`."""
