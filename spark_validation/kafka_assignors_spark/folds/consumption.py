"""How members consume while their group rebalances, under a strategy and as recorded: input of the pause
model (`kafka_assignors.pause_model`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from kafka_assignors.group import TopicPartitions
from kafka_assignors.pause_model import Consumption
from kafka_assignors.strategy import RebalanceProtocol, Strategy
from kafka_assignors_spark.folds.generations import CLASSIC
from kafka_assignors_spark.folds.rebalances import EAGER_STRATEGIES, Rebalance

__all__ = ["consumptions", "partitions_of", "recorded_consumptions"]


def consumptions(strategy: Strategy) -> tuple[Consumption, ...]:
    """The ways in which a group can run the strategy; the first one is replayed."""
    if strategy.runs_on_broker:
        return (Consumption.BROKER_ASSIGNED,)
    if RebalanceProtocol.COOPERATIVE in strategy.protocols:
        return (Consumption.COOPERATIVE, Consumption.EAGER)
    return (Consumption.EAGER,)


def recorded_consumptions(rebalance: Rebalance) -> tuple[Consumption, ...]:
    """The same for production: a classic group is cooperative if a member joined without revoking its
    partitions.

    Where no member had partitions to revoke, the records cannot distinguish the two, and there is no
    difference.
    """
    if rebalance.type != CLASSIC:
        return (Consumption.BROKER_ASSIGNED,)
    nothing_held = not any(rebalance.prior.get(member_id) for member_id in rebalance.members)
    cooperative = rebalance.protocol not in EAGER_STRATEGIES and (
        nothing_held or any(member.owned and not member.revoked for member in rebalance.members.values())
    )
    return (Consumption.COOPERATIVE, Consumption.EAGER) if cooperative else (Consumption.EAGER,)


def partitions_of(had: Iterable[TopicPartitions], topics: Container[str]) -> int:
    """How many partitions of these topics members had."""
    return sum(len(numbers) for each in had for topic, numbers in each.items() if topic in topics)
