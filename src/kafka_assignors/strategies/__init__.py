"""The strategies of the clients' own families, the contract, and the way to find one by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kafka_assignors.criteria import Criterion, Trade
from kafka_assignors.strategies.sticky import CooperativeSticky, Sticky
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy

if TYPE_CHECKING:
    from kafka_assignors.strategies.rack_aware_capacity import Capacity, RackAwareSticky
    from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
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


_STRATEGIES = {
    "Capacity": "rack_aware_capacity",
    "RackAwareSticky": "rack_aware_capacity",
    "Range": "range_roundrobin",
    "RoundRobin": "range_roundrobin",
}


def __getattr__(name: str) -> Any:
    """Import other strategies, and what finds one by name, when they are used: consumers do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_STRATEGIES.get(name, 'registry')}")
    return getattr(module, name)
