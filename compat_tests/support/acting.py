"""Weights, load triggers and reports for member programs whose leader rebalances on load."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from compat_tests.support.member_reports import MemberSpec, Reporter
from kafka_assignors.load_trigger import LoadTrigger
from kafka_assignors.rebalance.observer import RebalanceObserver

__all__ = ["AT_ONCE", "PARTITION_WEIGHT", "RATES", "SOON", "JudgementReporter", "weigh_alike"]

AT_ONCE = LoadTrigger(
    check_every_s=1.0, held_s=1.0, cool_down_s=1.0, rebalances_an_hour=1800, undo_after_s=0.0
)
"""Acts when two checks in a row agree and two seconds have passed since the last action."""

SOON = LoadTrigger(check_every_s=2.0, held_s=6.0, cool_down_s=10.0, rebalances_an_hour=360, undo_after_s=10.0)
"""Like `AT_ONCE`, but for measured weights, which differ from check to check."""

RATES: Mapping[str, Any] = {"half_life_s": 4.0, "drain_s": 60.0, "base": 1.0}
"""Arguments of `RateWeights`: the rates follow a change within seconds."""

PARTITION_WEIGHT = 5


def weigh_alike(topics: Mapping[str, int]) -> Mapping[str, list[int]]:
    """A source of weights that gives all partitions the same weight."""
    return {topic: [PARTITION_WEIGHT] * partitions for topic, partitions in topics.items()}


class JudgementReporter(RebalanceObserver):
    """Reports each load check of a leader as `judged`."""

    def __init__(self, spec: MemberSpec, reporter: Reporter) -> None:
        self._spec, self._reporter = spec, reporter

    def load_judged(self, *, greatest: int, bound: int, acts: bool, reason: str, **_: Any) -> None:
        self._reporter.report("judged", greatest=greatest, bound=bound, acts=acts, reason=reason)
        if acts and self._spec.dies_when_it_acts:
            os.kill(os.getpid(), signal.SIGKILL)
