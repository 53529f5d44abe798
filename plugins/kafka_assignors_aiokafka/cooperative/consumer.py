"""An AIOKafkaConsumer that goes on consuming while its group rebalances."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState

from kafka_assignors.assignor import EagerAssignor, require_cooperative
from kafka_assignors.joining import optional_name
from kafka_assignors.strategies.cooperative_sticky import CooperativeSticky
from kafka_assignors_aiokafka._assignor import assignor
from kafka_assignors_aiokafka.cooperative.coordinator import CooperativeCoordinator
from kafka_assignors_aiokafka.cooperative.inside import require_inside
from kafka_assignors_aiokafka.cooperative.partitions import CooperativeSubscriptionState

__all__ = ["CooperativeAIOKafkaConsumer"]

_HAS_RACK = "client_rack" in inspect.signature(AIOKafkaConsumer).parameters


class CooperativeAIOKafkaConsumer(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka has no types
    """An AIOKafkaConsumer with incremental cooperative rebalancing (KIP-429).

        consumer = CooperativeAIOKafkaConsumer("orders", group_id="g")

    Partitions that stay with this consumer are fetched, delivered and committed all through a rebalance. The
    listener hears of the others alone: `on_partitions_revoked` of those that go, while they can still be
    committed; `on_partitions_assigned` of those that were added; and, if it has such a method,
    `on_partitions_lost` of those that others may own already. What a listener raises comes out of the next
    `getone` or `getmany`, as a KafkaError. See docs/aiokafka.md.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str,
        partition_assignment_strategy: Sequence[EagerAssignor] | None = None,
        client_rack: str | None = None,
        **settings: Any,
    ) -> None:
        """The arguments of AIOKafkaConsumer.

        `partition_assignment_strategy` has assignors of this package, the preferred one first, by default
        `CooperativeStickyAssignor()` alone. While one of them is eager, so is the consumer: that is for the
        first step of an upgrade. `client_rack` is told to the group with every aiokafka, and the fetcher
        looks for it with those that know it (from 0.14 on).

        TypeError or ValueError for anything that could only fail later.
        """
        if not isinstance(group_id, str) or not group_id:
            raise TypeError(
                f"group_id must be a non-empty str, not {group_id!r}: without a group, use AIOKafkaConsumer"
            )
        if partition_assignment_strategy is None:
            partition_assignment_strategy = (assignor(CooperativeSticky()),)
        require_cooperative(partition_assignment_strategy, "kafka_assignors_aiokafka", "AIOKafkaConsumer")
        self._rack_of_member = optional_name("client_rack", client_rack)
        if _HAS_RACK:
            settings["client_rack"] = client_rack
        super().__init__(
            *topics,
            group_id=group_id,
            partition_assignment_strategy=partition_assignment_strategy,
            **settings,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        # aiokafka makes these two by itself, where no argument leads. They are exchanged as soon as they are
        # assigned, when nobody has used them.
        if type(value) is SubscriptionState:
            value = CooperativeSubscriptionState()
        elif type(value) is GroupCoordinator:
            value = self._cooperative(value)
        super().__setattr__(name, value)

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have this member join again, so that the group learns what its strategy announces by now (KIP-568).

        Returns at once; what is owned stays owned until the group decides otherwise. Call it on the event
        loop. Before the first join there is nothing to do. `reason` is for the log.
        """
        if isinstance(self._coordinator, CooperativeCoordinator):
            self._coordinator.enforce_rebalance(reason or "the application asked for it")

    def _cooperative(self, stock: GroupCoordinator) -> CooperativeCoordinator:
        require_inside(stock, self._fetcher)
        # Its task has not run yet.
        stock._coordination_task.cancel()
        stock._cluster.remove_listener(stock._handle_metadata_update)
        return CooperativeCoordinator(
            self._client,
            self._subscription,
            fetcher=self._fetcher,
            rack=self._rack_of_member,
            group_id=self._group_id,
            group_instance_id=self._group_instance_id,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
            session_timeout_ms=self._session_timeout_ms,
            retry_backoff_ms=self._retry_backoff_ms,
            enable_auto_commit=self._enable_auto_commit,
            auto_commit_interval_ms=self._auto_commit_interval_ms,
            assignors=self._partition_assignment_strategy,
            exclude_internal_topics=self._exclude_internal_topics,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            max_poll_interval_ms=self._max_poll_interval_ms,
        )
