"""The rules that a strategy can be composed of (`kafka_assignors.strategies.composed`)."""

from kafka_assignors.strategies.rules.balance import Balance, LevelByCapacity, LevelByWeight, LevelPartitions
from kafka_assignors.strategies.rules.base import Place, Restriction, Rule, TieBreaker
from kafka_assignors.strategies.rules.co_partitioned import KeepTogether
from kafka_assignors.strategies.rules.draining import Draining
from kafka_assignors.strategies.rules.priority import LevelByPriority
from kafka_assignors.strategies.rules.problem import Piece, Problem
from kafka_assignors.strategies.rules.rollout import ShareByRelease
from kafka_assignors.strategies.rules.standby import StandbyLast
from kafka_assignors.strategies.rules.tie_breakers import FewestMoves, FewestRackMisses, RackTrade

__all__ = [
    "Balance",
    "Draining",
    "FewestMoves",
    "FewestRackMisses",
    "KeepTogether",
    "LevelByCapacity",
    "LevelByPriority",
    "LevelByWeight",
    "LevelPartitions",
    "Piece",
    "Place",
    "Problem",
    "RackTrade",
    "Restriction",
    "Rule",
    "ShareByRelease",
    "StandbyLast",
    "TieBreaker",
]
