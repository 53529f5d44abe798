"""What each of several strategies would make of a group as it is now, beside the least that has to move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import lead
from kafka_assignors.quality import Quality, least_moved, measure
from kafka_assignors.strategies.sticky import moves_least
from kafka_assignors.strategy import Strategy

__all__ = ["Outlook", "Prospect", "outlook"]


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a strategy would do: `quality` of its assignment, or the `problem` that it has instead."""

    strategy: str
    quality: Quality | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """The group now, and under each strategy.

    `now` measures what the members own: no partition moved, and those without an owner are not counted.
    `least_moved` is the fewest moves to the best balance there is, racks not considered.
    """

    now: Quality
    least_moved: int
    prospects: tuple[Prospect, ...]


def outlook(group: Group, strategies: Iterable[tuple[str, Strategy]]) -> Outlook:
    """What these strategies, by the names they were asked for, would do with `group` right now.

    A strategy may be anybody's code: one that raises, or breaks its contract, has a problem and no quality.
    """
    prospects: list[Prospect] = []
    least: int | None = None
    for name, strategy in strategies:
        prospect = _prospect(group, name, strategy)
        if prospect.quality is not None and moves_least(strategy):
            least = prospect.quality.moved
        prospects.append(prospect)
    return Outlook(
        now=measure(group, Assignment(_owned_now(group))),
        least_moved=least_moved(group) if least is None else least,
        prospects=tuple(prospects),
    )


def _owned_now(group: Group) -> dict[str, dict[str, list[int]]]:
    prior = group.claims.prior
    return {
        member_id: {topic: list(numbers) for topic, numbers in prior.get(member_id, {}).items()}
        for member_id in group.members
    }


def _prospect(group: Group, name: str, strategy: Strategy) -> Prospect:
    try:
        led = lead(strategy, group, strategy.protocols[0])
        return Prospect(name, measure(group, led.target))
    except Exception as error:
        return Prospect(name, None, f"{type(error).__name__}: {error}")
