"""Strategies compared on a group as it is now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import lead
from kafka_assignors.quality import Quality, measure
from kafka_assignors.solver import least_moved
from kafka_assignors.strategy import Strategy


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """The result of one strategy: the `quality` of its assignment, or the `problem` if it fails."""

    strategy: str
    quality: Quality | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class StrategyComparison:
    """The group now, and under each strategy.

    `now` measures what the members own: no partition moved, and those without an owner are not counted.
    `least_moved` is the fewest moves to the best balance, regardless of racks.
    """

    now: Quality
    least_moved: int
    results: tuple[StrategyResult, ...]


def compare_strategies(group: Group, strategies: Iterable[tuple[str, Strategy]]) -> StrategyComparison:
    """The result of each strategy, by its requested name, on `group` as it is now.

    A strategy may be third-party code: one that raises, or breaks its contract, has a problem and no quality.
    """
    return StrategyComparison(
        now=measure(group, Assignment(group.claims.owners)),
        least_moved=least_moved(group),
        results=tuple(_result(group, name, strategy) for name, strategy in strategies),
    )


def _result(group: Group, name: str, strategy: Strategy) -> StrategyResult:
    try:
        result = lead(strategy, group, strategy.protocols[0])
        return StrategyResult(name, measure(group, result.target))
    except Exception as error:
        return StrategyResult(name, None, f"{type(error).__name__}: {error}")
