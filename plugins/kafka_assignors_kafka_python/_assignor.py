"""Assignors for kafka-python, which translate between the client and `kafka_assignors.assignor`; sources of
weights that read the group's offsets.

`LagWeights` and `RateWeights` open connections of their own, through kafka-python's public clients: the
consumer's connections are busy with a rebalance and with fetches that a broker holds back. In kafka-python 2
they also need the consumer's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from kafka_assignors.assignor import Assignor, caller_of, require_client_rack, require_eager
from kafka_assignors.join_sync import RackWatch
from kafka_assignors_kafka_python._client import (
    calling_coordinator,
    instance_id_of,
    interface,
    keep_join_wanted,
    lead_with_our_assignors,
    require_one_of_each_name,
    watch_topics_if_static,
)

# Only now: the import above explains a release that is too old; these imports would fail without advice.
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor  # isort: skip
from kafka.coordinator.consumer import ConsumerCoordinator  # isort: skip


class StrategyAssignor(Assignor, AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """Runs any strategy as an assignor of KafkaConsumer:

        KafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    `weights` gives a leader the weights of partitions, for strategies that use them: see `WeightedAssignor`.
    The leader waits for the weights for `weights_timeout_s`, at most a third of `session_timeout_ms`. With
    `rebalance` a cooperative consumer that leads the group starts a rebalance when the load needs one.
    `AssignorOptions` describes the other arguments.
    """

    # Derived from kafka-python's abstract class, since kafka-python calls objects of any other class.

    log = logging.getLogger("kafka_assignors_kafka_python")

    # ---- kafka-python's interface

    def supported_protocols(self) -> list[Any]:
        """The protocols for kafka-python's own coordinator, which is eager with our assignors.

        kafka-python 3 calls this while it constructs the consumer, so invalid settings are refused here. A
        `CooperativeKafkaConsumer` has checked its assignors before, and replaces the coordinator.
        """
        coordinator: Any = caller_of(ConsumerCoordinator)
        if coordinator is not None:
            require_one_of_each_name(coordinator)
            if not interface.is_called_by_cooperative_consumer():
                require_eager([self], "CooperativeKafkaConsumer")
            coordinator._kafka_assignors_client_rack = require_client_rack(interface.rack_of_caller())
        return interface.eager_protocols()

    def metadata(self, topics: Iterable[str] = ()) -> bytes:
        """The calling consumer's metadata for its JoinGroup request."""
        if not isinstance(self, StrategyAssignor):  # kafka-python 2 calls it on a class too
            raise TypeError(
                "partition_assignment_strategy has a class of kafka_assignors_kafka_python in it; "
                "kafka-python 2 needs an instance, as in [StickyAssignor()]"
            )
        coordinator = calling_coordinator()
        require_one_of_each_name(coordinator)
        require_eager([self], "CooperativeKafkaConsumer")
        lead_with_our_assignors(coordinator)
        keep_join_wanted(coordinator)
        return self.subscription_of(
            coordinator, topics, instance_id_of(coordinator), _client_rack_of(coordinator)
        )

    def on_assignment(self, assignment: Any, generation: int | None = None) -> None:
        """Remember the calling consumer's assignment, which its next JoinGroup request reports as owned.

        kafka-python 2 does not pass the generation, which is read from its coordinator.
        """
        coordinator = calling_coordinator()
        joined: int = coordinator._generation.generation_id if generation is None else generation
        partitions = interface.partitions_of(assignment)
        self.remember(coordinator, partitions, joined)
        racks = self.must_follow_racks([_client_rack_of(coordinator)])
        watch_topics_if_static(coordinator, partitions.keys(), racks=racks)
        interface.keep_heartbeats(coordinator)

    def on_generation_assignment(self, generation: int) -> None:
        """Do nothing: kafka-python 2 calls this, after `on_assignment`, on every assignor named `sticky`."""

    def assign(self, cluster: Any, members: Any) -> dict[str, Any]:
        """Assign from decoded metadata, as kafka-python's assignors do.

        A running consumer does not call it. It uses `read_members` and `encode_assignments` with the members'
        bytes, since metadata that do not decode end the generation before this method is called.
        """
        joined = self.read_members(interface.decoded_members(members))
        encoded = self.encode_assignments(
            joined, interface.topics_of(cluster, RackWatch(), joined.topics), None
        )
        return {id: interface.assignment_of(bytes_) for id, bytes_ in encoded.assignments.items()}


def _client_rack_of(coordinator: Any) -> str | None:
    """The consumer's `client_rack`, which `supported_protocols` has stored."""
    rack: str | None = getattr(coordinator, "_kafka_assignors_client_rack", None)
    return rack


assignor = StrategyAssignor
"""Makes an assignor of a strategy: `assignor(MyStrategy())`."""
