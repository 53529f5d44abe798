"""Strategies that are put together from rules."""

from kafka_assignors.strategies.composition.balances import LevelByCapacity, LevelByWeight, LevelPartitions
from kafka_assignors.strategies.composition.composed import Composed, RuleOrderError
from kafka_assignors.strategies.composition.leaving import Draining
from kafka_assignors.strategies.composition.priorities import LevelByPriority
from kafka_assignors.strategies.composition.problem import Piece, Problem
from kafka_assignors.strategies.composition.rollout import ShareByRelease
from kafka_assignors.strategies.composition.rule import Balance, Place, Restriction, Rule, Wish
from kafka_assignors.strategies.composition.standby import StandbyLast
from kafka_assignors.strategies.composition.together import KeepTogether
from kafka_assignors.strategies.composition.wishes import FewestMoves, FewestRackMisses, RackTrade

__all__ = [
    "Balance",
    "Composed",
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
    "RuleOrderError",
    "ShareByRelease",
    "StandbyLast",
    "Wish",
]
