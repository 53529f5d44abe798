"""What a leader has to know of racks between two assignments.

A strategy that follows racks (`Strategy.follows_racks`) has its group rebalance when a replica moves to
another rack, as Java's consumers do (KIP-881). Brokers tell the racks of those that are running: while one
restarts, its replicas are still listed but their rack is not. If the leader took such metadata at its word,
the group would rebalance twice for every broker of a rolling restart. So a leader keeps the last known rack
of a broker that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_assignors.strategy import Strategy

__all__ = ["RackWatch", "must_follow_racks"]


def must_follow_racks(strategy: Strategy, racks: Iterable[str | None]) -> bool:
    """Whether members in these racks would be assigned otherwise if replicas were in others."""
    return strategy.follows_racks() and any(racks)


class RackWatch:
    """The racks of the brokers as one consumer has seen them, and whether it has to follow them now."""

    def __init__(self) -> None:
        self.following = False
        self._racks: dict[int, str] = {}

    def see(self, brokers: Iterable[tuple[int, str | None]]) -> Mapping[int, str]:
        """The rack of each broker that has one, given the ids and racks of those that are running.

        A broker that is running without a rack has none any more.
        """
        racks = dict(self._racks)
        for broker, rack in brokers:
            if rack:
                racks[broker] = rack
            else:
                racks.pop(broker, None)
        self._racks = racks
        return racks
