"""The strategies, the contract they fulfil, and the way to find one by name."""

from kafka_assignors.criteria import Criterion, Trade
from kafka_assignors.strategies.composed import Composed, CoPartitioned, Priority, Rollout, Standby
from kafka_assignors.strategies.kip848 import Kip848Range, Kip848Uniform
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors.strategies.registry import (
    InvalidStrategyError,
    StrategyError,
    UnknownStrategyError,
    load_strategy,
    strategy_names,
)
from kafka_assignors.strategies.sticky import Capacity, CooperativeSticky, RackAwareSticky, Sticky
from kafka_assignors.strategies.weighted import Weighted
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy

__all__ = [
    "Capacity",
    "CoPartitioned",
    "Composed",
    "CooperativeSticky",
    "Criterion",
    "InvalidStrategyError",
    "Kip848Range",
    "Kip848Uniform",
    "MemberContext",
    "Priority",
    "RackAwareSticky",
    "Range",
    "RebalanceProtocol",
    "Rollout",
    "RoundRobin",
    "Standby",
    "Sticky",
    "Strategy",
    "StrategyError",
    "Trade",
    "UnknownStrategyError",
    "Weighted",
    "load_strategy",
    "strategy_names",
]
