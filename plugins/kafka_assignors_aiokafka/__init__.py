"""Strategies of kafka-assignors as assignors for aiokafka's consumer.

    from aiokafka import AIOKafkaConsumer
    from kafka_assignors_aiokafka import StickyAssignor

    consumer = AIOKafkaConsumer("orders", group_id="g", partition_assignment_strategy=[StickyAssignor()])

Instances are passed, not classes. `assignor(strategy)` does the same with a strategy of your own. With
`CooperativeAIOKafkaConsumer` in the place of aiokafka's consumer, partitions that stay are consumed all
through a rebalance.
"""

import logging

from kafka_assignors import assignor_classes
from kafka_assignors.assignor import AssignorOptions
from kafka_assignors.client_versions import installed_release, require_release
from kafka_assignors.load_trigger import LoadTrigger
from kafka_assignors.rebalance.observer import RebalanceObserver
from kafka_assignors.weights import WeightsFile

CHECKED = ((0, 10), (0, 14))
"""The oldest and the newest release series that the tests of the plugin pass with; all between them do."""

require_release("aiokafka", installed_release("aiokafka", "aiokafka"), *CHECKED, logging.getLogger(__name__))

# Not before the check.
from kafka_assignors_aiokafka._assignor import (  # noqa: E402
    LagWeights,
    RateWeights,
    StrategyAssignor,
    assignor,
)
from kafka_assignors_aiokafka.cooperative import (  # noqa: E402
    ConsumerSettings,
    CooperativeAIOKafkaConsumer,
    FencedInstanceIdError,
)

__all__ = [
    "AssignorOptions",
    "CapacityAssignor",
    "ConsumerSettings",
    "CooperativeAIOKafkaConsumer",
    "CooperativeStickyAssignor",
    "FencedInstanceIdError",
    "LagWeights",
    "LoadTrigger",
    "PriorityAssignor",
    "RackAwareStickyAssignor",
    "RangeAssignor",
    "RateWeights",
    "RebalanceObserver",
    "RolloutAssignor",
    "RoundRobinAssignor",
    "StandbyAssignor",
    "StickyAssignor",
    "StrategyAssignor",
    "WeightedAssignor",
    "WeightsFile",
    "assignor",
]


class RangeAssignor(assignor_classes.RunsRange, StrategyAssignor):
    """`range`: consecutive partitions of each topic to consecutive members, racks permitting."""


class RoundRobinAssignor(assignor_classes.RunsRoundRobin, StrategyAssignor):
    """`roundrobin`: the partitions of all topics in turn."""


class StickyAssignor(assignor_classes.RunsSticky, StrategyAssignor):
    """`sticky`: balanced exactly, and of all balanced assignments one that moves fewest partitions."""


class CooperativeStickyAssignor(assignor_classes.RunsCooperativeSticky, StrategyAssignor):
    """`cooperative-sticky`: as `sticky`, and a stock consumer is an eager member of such a group."""


class RackAwareStickyAssignor(assignor_classes.RunsRackAwareSticky, StrategyAssignor):
    """`rack-aware-sticky`: balanced exactly, then as little as possible across racks, then few moves.

    `moves_per_miss`: how many moves it is worth that one partition is not read across racks; any number of
    them by default. The same on all members.
    """


class CapacityAssignor(assignor_classes.RunsCapacity, StrategyAssignor):
    """`capacity`: loads in proportion to capacities, and of all such assignments one that moves fewest.

    `capacity` is what this process can carry beside the others, a whole number from 1 to 10,000.
    """


class StandbyAssignor(assignor_classes.RunsStandby, StrategyAssignor):
    """`standby`: as `cooperative-sticky`, but for members that take over only where active ones are missing.

    `standby`: this process is such a member. `active_at_least`: how many active members each topic should
    have; the same on all members.
    """


class PriorityAssignor(assignor_classes.RunsPriority, StrategyAssignor):
    """`priority`: as `cooperative-sticky`, but the topics of each class are level by themselves.

    `first` are the classes, the most important first: `[["alerts"], ["orders", ("pays", [0, 1])]]`; the same
    on all members.
    """


class WeightedAssignor(assignor_classes.RunsWeighted, StrategyAssignor):
    """`weighted`: the greatest load of any member as little as possible, by the weights of the partitions.

    `weights` gives them to the leader: `LagWeights`, `RateWeights`, `WeightsFile`, or a function
    (topics: partition counts by name) -> weights by name; in aiokafka's consumer also a coroutine function.
    `rebalance`: a cooperative consumer that leads the group looks at the weights between rebalances too, and
    asks for one when the loads have become unequal; see `LoadTrigger`.
    """


class RolloutAssignor(assignor_classes.RunsRollout, StrategyAssignor):
    """`rollout`: shares for releases, and deployments in which partitions stay until their member leaves.

    `release` is what this process runs, and `share` the part of every topic that its release asks for, from
    0 to 1; without one it is part of a rolling deployment. Members that are `draining` get nothing.
    """
