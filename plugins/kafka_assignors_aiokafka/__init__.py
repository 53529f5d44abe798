"""Strategies of kafka-assignors as assignors for aiokafka's consumer.

    from aiokafka import AIOKafkaConsumer
    from kafka_assignors_aiokafka import StickyAssignor

    consumer = AIOKafkaConsumer("orders", group_id="g", partition_assignment_strategy=[StickyAssignor()])

Instances are passed, not classes. `assignor(strategy)` does the same with a strategy of your own. With
`CooperativeAIOKafkaConsumer` in the place of aiokafka's consumer, partitions that stay are consumed all
through a rebalance.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from kafka_assignors.client_versions import installed_release, require_release
from kafka_assignors.strategies.composed import Priority, Rollout, Standby
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors.strategies.sticky import Capacity, CooperativeSticky, RackAwareSticky, Sticky
from kafka_assignors.strategies.weighted import Weighted

CHECKED = ((0, 10), (0, 14))
"""The oldest and the newest release series that the tests of the plugin pass with; all between them do."""

require_release("aiokafka", installed_release("aiokafka", "aiokafka"), *CHECKED, logging.getLogger(__name__))

from kafka_assignors_aiokafka._assignor import StrategyAssignor, assignor  # noqa: E402  # not before the check
from kafka_assignors_aiokafka._weights import LagWeights, WeightsFile  # noqa: E402
from kafka_assignors_aiokafka.cooperative import (  # noqa: E402
    ConsumerSettings,
    CooperativeAIOKafkaConsumer,
    FencedInstanceIdError,
)

__all__ = [
    "CapacityAssignor",
    "ConsumerSettings",
    "CooperativeAIOKafkaConsumer",
    "CooperativeStickyAssignor",
    "FencedInstanceIdError",
    "LagWeights",
    "PriorityAssignor",
    "RackAwareStickyAssignor",
    "RangeAssignor",
    "RolloutAssignor",
    "RoundRobinAssignor",
    "StandbyAssignor",
    "StickyAssignor",
    "StrategyAssignor",
    "WeightedAssignor",
    "WeightsFile",
    "assignor",
]


class RangeAssignor(StrategyAssignor):
    """`range`: consecutive partitions of each topic to consecutive members, racks permitting."""

    def __init__(self, *, rack: str | None = None, instance_id: str | None = None) -> None:
        super().__init__(Range(), rack=rack, instance_id=instance_id)


class RoundRobinAssignor(StrategyAssignor):
    """`roundrobin`: the partitions of all topics in turn."""

    def __init__(self, *, rack: str | None = None, instance_id: str | None = None) -> None:
        super().__init__(RoundRobin(), rack=rack, instance_id=instance_id)


class StickyAssignor(StrategyAssignor):
    """`sticky`: balanced exactly, and of all balanced assignments one that moves fewest partitions."""

    def __init__(self, *, rack: str | None = None, instance_id: str | None = None) -> None:
        super().__init__(Sticky(), rack=rack, instance_id=instance_id)


class CooperativeStickyAssignor(StrategyAssignor):
    """`cooperative-sticky`, as an eager member of a group that may have cooperative ones."""

    def __init__(self, *, rack: str | None = None, instance_id: str | None = None) -> None:
        super().__init__(CooperativeSticky(), rack=rack, instance_id=instance_id)


class RackAwareStickyAssignor(StrategyAssignor):
    """`rack-aware-sticky`: balanced exactly, then as little as possible across racks, then few moves.

    `moves_per_miss`: how many moves it is worth that one partition is not read across racks; any number of
    them by default. The same on all members.
    """

    def __init__(
        self,
        *,
        moves_per_miss: Fraction | float | None = None,
        rack: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(RackAwareSticky(moves_per_miss), rack=rack, instance_id=instance_id)


class CapacityAssignor(StrategyAssignor):
    """`capacity`: loads in proportion to capacities, and of all such assignments one that moves fewest.

    `capacity` is what this process can carry beside the others, a whole number from 1 to 10,000.
    """

    def __init__(self, *, capacity: int, rack: str | None = None, instance_id: str | None = None) -> None:
        super().__init__(Capacity(capacity), rack=rack, instance_id=instance_id)


class StandbyAssignor(StrategyAssignor):
    """`standby`: as `cooperative-sticky`, but for members that take over only where active ones are missing.

    `standby`: this process is such a member. `active_at_least`: how many active members each topic should
    have; the same on all members.
    """

    def __init__(
        self,
        *,
        standby: bool = False,
        active_at_least: int = 1,
        rack: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        strategy = Standby(standby=standby, active_at_least=active_at_least)
        super().__init__(strategy, rack=rack, instance_id=instance_id)


class PriorityAssignor(StrategyAssignor):
    """`priority`: as `cooperative-sticky`, but the topics of each class are level by themselves.

    `first` are the classes, the most important first: `[["alerts"], ["orders", ("pays", [0, 1])]]`; the same
    on all members.
    """

    def __init__(
        self,
        *,
        first: Iterable[Iterable[str | tuple[str, Iterable[int]]]],
        rack: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(Priority(first), rack=rack, instance_id=instance_id)


class WeightedAssignor(StrategyAssignor):
    """`weighted`: the greatest load of any member as little as possible, by the weights of the partitions.

    `weights` gives them to the leader: `LagWeights`, `WeightsFile`, or a function
    (topics: partition counts by name) -> weights by name, which may be a coroutine function.
    """

    def __init__(
        self,
        weights: Callable[[Mapping[str, int]], Any],
        *,
        threshold: float = 0.1,
        budget: int | None = None,
        weights_timeout_s: float = 2.0,
        rack: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(
            Weighted(threshold=threshold, budget=budget),
            rack=rack,
            instance_id=instance_id,
            weights=weights,
            weights_timeout_s=weights_timeout_s,
        )


class RolloutAssignor(StrategyAssignor):
    """`rollout`: shares for releases, and deployments in which partitions stay until their member leaves.

    `release` is what this process runs, and `share` the part of every topic that its release asks for, from
    0 to 1; without one it is part of a rolling deployment. Members that are `draining` get nothing.
    """

    def __init__(
        self,
        *,
        release: str,
        share: float | None = None,
        draining: bool = False,
        rack: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        self._rollout = Rollout(release, share, draining=draining)
        super().__init__(self._rollout, rack=rack, instance_id=instance_id)

    def announce(self, *, share: float | None = None, draining: bool | None = None) -> None:
        """Announce something else from the next join on, for which `enforce_rebalance` asks."""
        self._rollout.announce(share=share, draining=draining)
