"""The strategies, the contract they fulfil, and the way to find one by name."""

from kafka_assignors.strategies.capacity import Capacity
from kafka_assignors.strategies.co_partitioned import CoPartitioned
from kafka_assignors.strategies.composition.composed import Composed
from kafka_assignors.strategies.contract import (
    BalancesInLayers,
    BalancesOnScale,
    Criterion,
    FollowsRacks,
    MemberContext,
    Optimal,
    RebalanceProtocol,
    Reduced,
    Reduces,
    Strategy,
    SupportsFindings,
    SupportsMemberData,
    Trade,
)
from kafka_assignors.strategies.cooperative_sticky import CooperativeSticky
from kafka_assignors.strategies.kip848_range import Kip848Range
from kafka_assignors.strategies.kip848_uniform import Kip848Uniform
from kafka_assignors.strategies.priority import Priority
from kafka_assignors.strategies.rack_aware_sticky import RackAwareSticky
from kafka_assignors.strategies.range import Range
from kafka_assignors.strategies.registry import (
    InvalidStrategyError,
    StrategyError,
    UnknownStrategyError,
    load_strategy,
    strategy_names,
)
from kafka_assignors.strategies.rollout import Rollout
from kafka_assignors.strategies.roundrobin import RoundRobin
from kafka_assignors.strategies.standby import Standby
from kafka_assignors.strategies.sticky import Sticky
from kafka_assignors.strategies.weighted import Weighted

__all__ = [
    "BalancesInLayers",
    "BalancesOnScale",
    "Capacity",
    "CoPartitioned",
    "Composed",
    "CooperativeSticky",
    "Criterion",
    "FollowsRacks",
    "InvalidStrategyError",
    "Kip848Range",
    "Kip848Uniform",
    "MemberContext",
    "Optimal",
    "Priority",
    "RackAwareSticky",
    "Range",
    "RebalanceProtocol",
    "Reduced",
    "Reduces",
    "Rollout",
    "RoundRobin",
    "Standby",
    "Sticky",
    "Strategy",
    "StrategyError",
    "SupportsFindings",
    "SupportsMemberData",
    "Trade",
    "UnknownStrategyError",
    "Weighted",
    "load_strategy",
    "strategy_names",
]
