"""Strategies of kafka-assignors as assignors for kafka-python's consumer.

    from kafka import KafkaConsumer
    from kafka_assignors_kafka_python import StickyAssignor

    consumer = KafkaConsumer("orders", group_id="g", partition_assignment_strategy=[StickyAssignor()])

Pass instances, not classes. `assignor(strategy)` makes an assignor of your own strategy.
"""

from kafka_assignors import assignor_classes
from kafka_assignors.assignor import AssignorOptions
from kafka_assignors.rebalance.observer import RebalanceObserver, RebalanceOutcome
from kafka_assignors.weights import WeightsFile
from kafka_assignors_kafka_python._assignor import LagWeights, RateWeights, StrategyAssignor, assignor
from kafka_assignors_kafka_python.cooperative import ConsumerSettings, CooperativeKafkaConsumer

__all__ = [
    "AssignorOptions",
    "CapacityAssignor",
    "ConsumerSettings",
    "CooperativeKafkaConsumer",
    "CooperativeStickyAssignor",
    "LagWeights",
    "PriorityAssignor",
    "RackAwareStickyAssignor",
    "RangeAssignor",
    "RateWeights",
    "RebalanceObserver",
    "RebalanceOutcome",
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
    """`sticky`: the best possible balance, with the fewest moves that this balance allows."""


class CooperativeStickyAssignor(assignor_classes.RunsCooperativeSticky, StrategyAssignor):
    """`cooperative-sticky`: as `sticky`, but cooperative; a stock consumer joins as an eager member."""


class RackAwareStickyAssignor(assignor_classes.RunsRackAwareSticky, StrategyAssignor):
    """`rack-aware-sticky`: the best balance, then the fewest reads across racks, then the fewest moves.

    `moves_per_miss`: how many moves one avoided read across racks is worth; by default any number. Set the
    same value on all members.
    """


class CapacityAssignor(assignor_classes.RunsCapacity, StrategyAssignor):
    """`capacity`: loads in proportion to capacities, with the fewest moves that this allows.

    `capacity` is this process's capacity relative to the other members', a whole number from 1 to 10,000.
    """


class StandbyAssignor(assignor_classes.RunsStandby, StrategyAssignor):
    """`standby`: as `cooperative-sticky`, with standby members that take over where active ones are missing.

    `standby`: whether this process is a standby member. `active_at_least`: how many active members each topic
    should have; set the same value on all members.
    """


class PriorityAssignor(assignor_classes.RunsPriority, StrategyAssignor):
    """`priority`: as `cooperative-sticky`, but each class of topics is balanced by itself.

    `first` lists the classes, the most important first: `[["alerts"], ["orders", ("pays", [0, 1])]]`. Set the
    same value on all members.
    """


class WeightedAssignor(assignor_classes.RunsWeighted, StrategyAssignor):
    """`weighted`: keeps the greatest load of a member as small as possible, by the weights of the partitions.

    `weights` is the leader's source of weights: `LagWeights`, `RateWeights`, `WeightsFile`, or a function
    (topics: partition counts by name) -> weights by name, with aiokafka also a coroutine function.
    """


class RolloutAssignor(assignor_classes.RunsRollout, StrategyAssignor):
    """`rollout`: canaries with a fixed share of partitions; deployments that move each partition only once.

    `release` names the release of this process. `share` is the part of every topic that the release asks for,
    from 0 to 1; without it, this process is part of a rolling deployment. Members that are `draining` get no
    partitions.
    """
