"""The strategies, the contract they fulfil, and the way to find one by name."""

from kafka_assignors.strategies.contract import (
    MemberContext,
    RebalanceProtocol,
    Strategy,
    SupportsMemberData,
)
from kafka_assignors.strategies.registry import (
    InvalidStrategyError,
    StrategyError,
    UnknownStrategyError,
    load_strategy,
    strategy_names,
)

__all__ = [
    "InvalidStrategyError",
    "MemberContext",
    "RebalanceProtocol",
    "Strategy",
    "StrategyError",
    "SupportsMemberData",
    "UnknownStrategyError",
    "load_strategy",
    "strategy_names",
]
