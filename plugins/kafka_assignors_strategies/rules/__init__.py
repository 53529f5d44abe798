"""The rules that a strategy can be composed of (`kafka_assignors_strategies.composed`)."""

from kafka_assignors_strategies.rules.basic import (
    Balance,
    FewestMoves,
    FewestRackMisses,
    KeepTogether,
    LevelByCapacity,
    LevelByWeight,
    LevelPartitions,
    RackTrade,
    StandbyLast,
)
from kafka_assignors_strategies.rules.priority import LevelByPriority
from kafka_assignors_strategies.rules.rollout import ShareByRelease
from kafka_assignors_strategies.rules.rule import Piece, Place, Problem, Rule

__all__ = [
    "Balance",
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
    "Rule",
    "ShareByRelease",
    "StandbyLast",
]
