"""Assignors for kafka-python's stock consumer, by its interface for assignors and `_running_call`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafka_assignors.assignor import Assignor, require_eager, require_unique_names
from kafka_assignors.group import Topic
from kafka_assignors.installed_client import caller_of
from kafka_assignors.messages import topics_from
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors_kafka_python import _running_call
from kafka_assignors_kafka_python._releases import INSTALLED, IS_2

# Only now: the import above explains a release that is too old; these imports would fail without advice.
from kafka import KafkaConsumer  # isort: skip
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor  # isort: skip


class StrategyAssignor(Assignor, AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """Runs any strategy as an assignor of KafkaConsumer:

        KafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    In a `CooperativeKafkaConsumer`, `weights` gives a leader the weights of partitions, for strategies that
    use them: see `WeightedAssignor`. The leader waits for the weights for `weights_timeout_s`, at most a
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
        if not getattr(caller_of(KafkaConsumer), "_is_cooperative", False):
            self._require_stock(_running_call.coordinator())
        eager: list[Any] = super().supported_protocols()  # pyright: ignore[reportAttributeAccessIssue]
        return eager

    def metadata(self, topics: Iterable[str] = ()) -> bytes:
        """The calling consumer's metadata for its JoinGroup request."""
        if not isinstance(self, StrategyAssignor):  # kafka-python 2 calls it on a class too
            raise TypeError(
                "partition_assignment_strategy has a class of kafka_assignors_kafka_python in it; "
                "kafka-python 2 needs an instance, as in [StickyAssignor()]"
            )
        coordinator = _running_call.coordinator()
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
        coordinator = _running_call.coordinator()
        owned: dict[str, list[int]] = {}
        for topic, partition in assignment.partitions():
            owned.setdefault(topic, []).append(partition)
        joined = _running_call.generation_of(coordinator) if generation is None else generation
        self.remember(coordinator or self, owned, joined)

    def on_generation_assignment(self, generation: int) -> None:
        """Do nothing: kafka-python 2 calls this, after `on_assignment`, on every assignor named `sticky`."""

    def assign(self, cluster: Any, members: Any) -> Mapping[str, bytes]:
        """Assign as the leader, on the thread that calls, from the metadata that kafka-python has.

        RuntimeError for a strategy with the cooperative protocol if kafka-python 2 does not show what the
        members have joined with; kafka-python's own decoding is no substitute.
        """
        joined = self.read_members(_running_call.joined_members(members, completely=self._may_be_cooperative))
        coordinator = _running_call.coordinator()
        generation = _running_call.generation_of(coordinator)
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
            names = _running_call.configured_names(coordinator)
            require_unique_names(name for name in names if name == self.name)
        require_eager([self], "CooperativeKafkaConsumer")
        self._require_members_complete()

    def _require_members_complete(self) -> None:
        if self._may_be_cooperative and (obstacle := _running_call.obstacle()):
            raise RuntimeError(
                f"strategy {self.name!r} allows cooperative members, and kafka-python {INSTALLED} does not "
                f"show a leader what they hold ({obstacle}), so a partition would have two owners: take "
                "CooperativeKafkaConsumer (of kafka-python 3), or a strategy that is eager alone, such as "
                "StickyAssignor()"
            )


def _topics_of(cluster: Any, names: Iterable[str]) -> list[Topic]:
    """The named topics that kafka-python has metadata of."""
    node = attrgetter("nodeId" if IS_2 else "node_id")
    racks = {node(broker): broker.rack for broker in cluster.brokers() if broker.rack}
    return topics_from(cluster._partitions, racks, attrgetter("replicas" if IS_2 else "replica_nodes"), names)


assignor = StrategyAssignor
"""Makes an assignor of a strategy: `assignor(MyStrategy())`."""
