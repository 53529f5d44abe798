"""An observer of a cooperative consumer, for both clients: it logs and counts the costs of each rebalance.

Pass the counts to your metrics library instead of the log. For OpenTelemetry there is a ready-made observer:
`kafka_assignors_opentelemetry.OpenTelemetryObserver`.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from kafka_assignors.rebalance.observer import RebalanceObserver, RebalanceOutcome

__all__ = ["RebalanceLog"]


class RebalanceLog(RebalanceObserver):
    """Logs and counts the costs of each rebalance. It must not block: the consumer waits for each call."""

    def __init__(self, log: logging.Logger) -> None:
        self.counts: Counter[str] = Counter()
        self._log = log

    def rebalance_begun(self, *, reason: str, **_: Any) -> None:
        self._log.info("rebalance begun: %s", reason)

    def rebalance_ended(
        self, *, seconds: float, outcome: RebalanceOutcome, generation: int, **_: Any
    ) -> None:
        self.counts[outcome.value] += 1
        if outcome is RebalanceOutcome.ASSIGNED:
            so_far = ", ".join(f"{name} {count}" for name, count in self.counts.items())
            self._log.info("rebalance ended: generation %d, %.3f s; so far %s", generation, seconds, so_far)

    def revoked(self, *, partitions: frozenset[tuple[str, int]], **_: Any) -> None:
        self.counts["revoked"] += len(partitions)

    def lost(self, *, partitions: frozenset[tuple[str, int]], **_: Any) -> None:
        self.counts["lost"] += len(partitions)
        self._log.warning("%d partitions lost: the session ended, or polls came too late", len(partitions))

    def decided(self, *, strategy: str, seconds: float, moved: int, **_: Any) -> None:
        self._log.info("led: %s moves %d partitions; %.3f s", strategy, moved, seconds)
