"""The strategies of the clients' own families, the contract, and the way to find one by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_assignors.criteria import Criterion, Trade
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors.strategies.sticky import Capacity, CooperativeSticky, RackAwareSticky, Sticky
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy

if TYPE_CHECKING:
    from kafka_assignors.strategies.registry import (
        InvalidStrategyError,
        StrategyError,
        UnknownStrategyError,
        load_strategy,
        strategy_names,
    )

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


def __getattr__(name: str) -> Any:
    """What finds a strategy by name is imported when it is used: consumers do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kafka_assignors.strategies import registry

    return getattr(registry, name)
