"""Strategies of kafka-assignors as assignors for kafka-python's consumer.

    from kafka import KafkaConsumer
    from kafka_assignors_kafka_python import StickyAssignor

    consumer = KafkaConsumer("orders", group_id="g", partition_assignment_strategy=[StickyAssignor()])

Pass instances, not classes. `assignor(strategy)` makes an assignor of your own strategy.
"""

from kafka_assignors import assignor as core
from kafka_assignors.assignor import AssignorOptions
from kafka_assignors.rebalance.observer import RebalanceObserver, RebalanceOutcome
from kafka_assignors_kafka_python._assignor import StrategyAssignor, assignor
from kafka_assignors_kafka_python.cooperative import ConsumerSettings, CooperativeKafkaConsumer

__all__ = [
    "AssignorOptions",
    "CapacityAssignor",
    "ConsumerSettings",
    "CooperativeKafkaConsumer",
    "CooperativeStickyAssignor",
    "RackAwareStickyAssignor",
    "RangeAssignor",
    "RebalanceObserver",
    "RebalanceOutcome",
    "RoundRobinAssignor",
    "StickyAssignor",
    "StrategyAssignor",
    "assignor",
]


class RangeAssignor(core.RunsRange, StrategyAssignor):
    """`range`: consecutive partitions of each topic to consecutive members, racks permitting."""


class RoundRobinAssignor(core.RunsRoundRobin, StrategyAssignor):
    """`roundrobin`: the partitions of all topics in turn."""


class StickyAssignor(core.RunsSticky, StrategyAssignor):
    """`sticky`: the best possible balance, with the fewest moves that this balance allows."""


class CooperativeStickyAssignor(core.RunsCooperativeSticky, StrategyAssignor):
    """`cooperative-sticky`: as `sticky`, but cooperative; a stock consumer joins as an eager member."""


class RackAwareStickyAssignor(core.RunsRackAwareSticky, StrategyAssignor):
    """`rack-aware-sticky`: the best balance, then the fewest reads across racks, then the fewest moves.

    `moves_per_miss`: how many moves one avoided read across racks is worth; by default any number. Set the
    same value on all members.
    """


class CapacityAssignor(core.RunsCapacity, StrategyAssignor):
    """`capacity`: loads in proportion to capacities, with the fewest moves that this allows.

    `capacity` is this process's capacity relative to the other members', a whole number from 1 to 10,000.
    """
