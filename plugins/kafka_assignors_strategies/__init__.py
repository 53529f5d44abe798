"""Strategies beyond the clients' own families: composed of rules, balanced by weight, and the broker's.

`kafka_assignors.strategies.load_strategy` finds each by its name, and `assignor(Standby(standby=True))` of a
client's adapter runs it. `for_aiokafka` and `for_kafka_python` have the sources of weights.
"""

from kafka_assignors_strategies.composed import Composed, CoPartitioned, Priority, Rollout, Standby
from kafka_assignors_strategies.kip848 import Kip848Range, Kip848Uniform
from kafka_assignors_strategies.weighted import Weighted

__all__ = [
    "CoPartitioned",
    "Composed",
    "Kip848Range",
    "Kip848Uniform",
    "Priority",
    "Rollout",
    "Standby",
    "Weighted",
]
