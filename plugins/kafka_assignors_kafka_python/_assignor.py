"""Assignors for kafka-python's stock consumer, by its interface for assignors and the call that they run in.

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

import inspect
import logging
from collections.abc import Iterable, Mapping
from operator import attrgetter
from types import CodeType
from typing import TYPE_CHECKING, Any

from kafka_assignors.assignor import CLASS_GIVEN, Assignor, require_eager, require_unique_names
from kafka_assignors.group import NO_GENERATION, Topic
from kafka_assignors.installed_client import code_of, variables_of
from kafka_assignors.messages import JoinedMember, topics_from
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors.wire import Subscription, encode_subscription
from kafka_assignors_kafka_python._releases import INSTALLED, IS_2

# Only now: the import above explains a release that is too old; these imports would fail without advice.
from kafka import KafkaConsumer  # isort: skip
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor  # isort: skip
from kafka.coordinator.consumer import ConsumerCoordinator  # isort: skip


class StrategyAssignor(Assignor, AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """Runs any strategy as an assignor of KafkaConsumer:

        KafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    In a `CooperativeKafkaConsumer`, `weights` gives a leader the weights of partitions, for strategies that
    use them: see `Weighted`. The leader waits for the weights for `weights_timeout_s`, at most a
    third of `session_timeout_ms`. `AssignorOptions` describes the other arguments.

    With kafka-python 2, RuntimeError for a release that does not show what cooperative members hold, if the
    strategy has the cooperative protocol; with kafka-python 3, KafkaConsumer raises it.
    """

    # Derived from kafka-python's abstract class, since kafka-python calls objects of any other class.

    log = logging.getLogger("kafka_assignors_kafka_python")

    if IS_2 and not TYPE_CHECKING:  # It has the stock consumer alone, which calls nothing before it joins.

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._require_members_complete()

    # ---- kafka-python's interface

    def supported_protocols(self) -> list[Any]:
        """The protocols for kafka-python's own coordinator, which is eager with our assignors.

        kafka-python 3 calls this while it constructs the consumer, so invalid settings are refused here. A
        `CooperativeKafkaConsumer` has checked its assignors before, and replaces the coordinator.
        """
        if not getattr(_caller_of(KafkaConsumer), "_is_cooperative", False):
            self._require_stock(calling_coordinator())
        eager: list[Any] = super().supported_protocols()  # pyright: ignore[reportAttributeAccessIssue]
        return eager

    def metadata(self, topics: Iterable[str] = ()) -> bytes:
        """The calling consumer's metadata for its JoinGroup request."""
        if not isinstance(self, StrategyAssignor):  # kafka-python 2 calls it on a class too
            raise TypeError(CLASS_GIVEN)
        coordinator = calling_coordinator()
        self._require_stock(coordinator)
        if coordinator is not None:
            # kafka-python forgets why it joins when it has written the request. If the poll ends during the
            # join, the next one would see no reason to go on with it, and the consumer would stop for good.
            coordinator.request_rejoin()
        instance_id = getattr(coordinator, "group_instance_id", None)  # from 2.3 on
        return self.subscription_of(coordinator or self, topics, instance_id)

    def on_assignment(self, assignment: Any, generation: int | None = None) -> None:
        """Remember the calling consumer's assignment, which its next JoinGroup request reports as owned.

        kafka-python 2 does not pass the generation, which is read from its coordinator.
        """
        coordinator = calling_coordinator()
        owned: dict[str, list[int]] = {}
        for topic, partition in assignment.partitions():
            owned.setdefault(topic, []).append(partition)
        joined = generation_of(coordinator) if generation is None else generation
        self.remember(coordinator or self, owned, joined)

    def on_generation_assignment(self, generation: int) -> None:
        """Do nothing: kafka-python 2 calls this, after `on_assignment`, on every assignor named `sticky`."""

    def assign(self, cluster: Any, members: Any) -> Mapping[str, bytes]:
        """Assign as the leader, on the thread that calls, from the metadata that kafka-python has.

        RuntimeError for a strategy with the cooperative protocol if kafka-python 2 does not show what the
        members have joined with; kafka-python's own decoding is no substitute.
        """
        joined = self.read_members(joined_members(members, completely=self._may_be_cooperative))
        coordinator = calling_coordinator()
        generation = generation_of(coordinator)
        encoded = self.encode_assignments(
            joined, _topics_of(cluster, joined.topics), None if generation < 0 else generation
        )
        return encoded.assignments

    # ---- what the stock consumer cannot run

    @property
    def _may_be_cooperative(self) -> bool:
        """Whether members may keep partitions while they join, under this strategy."""
        return RebalanceProtocol.COOPERATIVE in self.strategy.protocols

    def _require_stock(self, coordinator: Any) -> None:
        """Raise an error if the stock consumer cannot run this assignor, or has two of its name."""
        if coordinator is not None:
            configured = coordinator.config["assignors"]
            names = [one().name if isinstance(one, type) and not IS_2 else one.name for one in configured]
            require_unique_names(name for name in names if name == self.name)
        require_eager([self], "CooperativeKafkaConsumer")
        self._require_members_complete()

    def _require_members_complete(self) -> None:
        if self._may_be_cooperative and (why := obstacle()):
            raise RuntimeError(
                f"strategy {self.name!r} allows cooperative members, and kafka-python {INSTALLED} does not "
                f"show a leader what they hold ({why}), so a partition would have two owners: take "
                "CooperativeKafkaConsumer (of kafka-python 3), or a strategy that is eager alone, such as "
                "StickyAssignor()"
            )


# ---- what is read of the running call


def _caller_of(kind: type) -> Any | None:
    """The nearest `self` of this type in the call stack; None if there is none."""
    frame = inspect.currentframe()
    while frame is not None and not isinstance(frame.f_locals.get("self"), kind):
        frame = frame.f_back
    return None if frame is None else frame.f_locals["self"]


def calling_coordinator() -> Any | None:
    """The ConsumerCoordinator that calls; None outside a consumer."""
    return _caller_of(ConsumerCoordinator)


def generation_of(coordinator: object) -> int:
    """The last generation that the coordinator joined; -1 if it cannot be read."""
    generation: int = getattr(getattr(coordinator, "_generation", None), "generation_id", NO_GENERATION)
    return generation


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
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription  # pyright: ignore[reportMissingImports]  # stubs of 2.x

    joined = encode_subscription(Subscription(3, ("topic",), b"data", {"topic": [1]}, 2, "rack"))
    return bool(ConsumerProtocolSubscription.decode(joined).encode() == joined)


def _topics_of(cluster: Any, names: Iterable[str]) -> list[Topic]:
    """The named topics that kafka-python has metadata of."""
    node = attrgetter("nodeId" if IS_2 else "node_id")
    racks = {node(broker): broker.rack for broker in cluster.brokers() if broker.rack}
    return topics_from(cluster._partitions, racks, attrgetter("replicas" if IS_2 else "replica_nodes"), names)


assignor = StrategyAssignor
"""Makes an assignor of a strategy: `assignor(MyStrategy())`."""
