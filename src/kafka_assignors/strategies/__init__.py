"""The strategies of the clients' own families, the contract, and the way to find one by name."""

from kafka_assignors.criteria import Criterion, Trade
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors.strategies.registry import (
    InvalidStrategyError,
    StrategyError,
    UnknownStrategyError,
    load_strategy,
    strategy_names,
)
from kafka_assignors.strategies.sticky import Capacity, CooperativeSticky, RackAwareSticky, Sticky
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy

__all__ = [
    "Capacity",
    "CooperativeSticky",
    "Criterion",
    "InvalidStrategyError",
    "MemberContext",
    "RackAwareSticky",
    "Range",
    "RebalanceProtocol",
    "RoundRobin",
    "Sticky",
    "Strategy",
    "StrategyError",
    "Trade",
    "UnknownStrategyError",
    "load_strategy",
    "strategy_names",
]
