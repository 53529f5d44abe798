"""Strategies of kafka-assignors as assignors for aiokafka's consumer.

    from aiokafka import AIOKafkaConsumer
    from kafka_assignors_aiokafka import StickyAssignor

    consumer = AIOKafkaConsumer("orders", group_id="g", partition_assignment_strategy=[StickyAssignor()])

Pass instances, not classes. `assignor(strategy)` makes an assignor of your own strategy. With
`CooperativeAIOKafkaConsumer` instead of aiokafka's consumer, partitions that stay are consumed throughout a
rebalance.
"""

import logging

from kafka_assignors import assignor as core
from kafka_assignors.assignor import AssignorOptions
from kafka_assignors.installed_client import installed_release, require_release
from kafka_assignors.rebalance.observer import RebalanceObserver, RebalanceOutcome

CHECKED = ((0, 10), (0, 14))
"""The oldest and the newest release series that the plugin's tests pass with; all series between pass too."""

require_release("aiokafka", installed_release("aiokafka", "aiokafka"), *CHECKED, logging.getLogger(__name__))

# Only now: the check explains an unsupported release; a failed import below would not.
from kafka_assignors_aiokafka._assignor import StrategyAssignor, assignor  # noqa: E402
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
