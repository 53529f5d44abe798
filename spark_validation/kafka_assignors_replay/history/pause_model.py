"""How long partitions pause in a rebalance: a model with visible parameters, not a measurement.

A coordinator records only when the join of a rebalance ended. `docs/internals/replay.md` has the formulas,
where the defaults come from, and how far the model is from measured pauses.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields

from kafka_assignors.arguments import require_number


class Consumption(enum.Enum):
    """The way in which a group's members keep or give up partitions during a rebalance."""

    EAGER = "eager"  # all members give up everything
    COOPERATIVE = "cooperative"  # members give up what moves, and it is handed over in a second round
    BROKER_ASSIGNED = "broker-assigned"  # members of a KIP-848 group give up what moves, each by itself


@dataclass(frozen=True, slots=True)
class PauseModel:
    """The parameters, all of them means. Durations are in seconds, from 0 to 1e9; an error names a wrong one.

    Attributes:
        heartbeat_interval_s: the members' `heartbeat.interval.ms`; Kafka's default. A heartbeat tells a
            member of a rebalance.
        resume_s: the time from the last member's JoinGroup to the first record: the rest of the join, the
            committed offset, the first fetch.
        listener_s: the time that the application's listener takes for a revoked and newly assigned partition.
        second_round_heartbeats: how long a partition waits for the second round of a cooperative rebalance,
            in heartbeat intervals. It depends mostly on the client.
        broker_heartbeat_interval_s: the broker's `group.consumer.heartbeat.interval.ms`; Kafka's default.
        restore_s: the time in which the next owner restores the state of a partition before it consumes it.
    """

    heartbeat_interval_s: float = 3.0
    resume_s: float = 0.068
    listener_s: float = 0.0
    second_round_heartbeats: float = 0.44
    broker_heartbeat_interval_s: float = 5.0
    restore_s: float = 0.0

    def __post_init__(self) -> None:
        for each in fields(self):
            require_number(each.name, getattr(self, each.name), most=1e9)

    def pause_s(self, consumption: Consumption, members: int) -> float:
        """The pause of a partition that a member gives up, in a group of this many `members`.

        Under eager a member gives up every partition, otherwise only those that move.
        """
        if consumption is Consumption.EAGER:
            wait_s = 0.0
            if members > 0:
                wait_s = self.heartbeat_interval_s * (members / (members + 1) - 1 / 2)
        elif consumption is Consumption.COOPERATIVE:
            wait_s = self.heartbeat_interval_s * self.second_round_heartbeats
        else:
            wait_s = self.broker_heartbeat_interval_s / 2
        return wait_s + self.resume_s + self.listener_s

    def vacancy_s(self, consumption: Consumption, members: int) -> float:
        """The pause of a partition after its owner's LeaveGroup, until one of `members` has it."""
        if consumption is Consumption.BROKER_ASSIGNED:
            wait_s = self.broker_heartbeat_interval_s / 2
        else:
            wait_s = self.heartbeat_interval_s * members / (members + 1)
        return wait_s + self.resume_s + self.listener_s

    def paused_s(
        self, consumption: Consumption, members: int, could_stay: int, moved: int, vacated: int
    ) -> float:
        """Partition-seconds that a rebalance pauses: the pauses of all partitions, added up.

        Args:
            members: the members of the group after the rebalance.
            could_stay: partitions whose owner is still in the group and still subscribed.
            moved: those of them that another member has afterwards.
            vacated: partitions whose owner has left or unsubscribed.
        """
        given_up = could_stay if consumption is Consumption.EAGER else moved
        paused_s = given_up * self.pause_s(consumption, members)
        return paused_s + vacated * self.vacancy_s(consumption, members) + self.restoring_s(moved, vacated)

    def restoring_s(self, moved: int, vacated: int = 0) -> float:
        """The partition-seconds of them in which partitions are restored.

        Warm handoff saves those of the partitions that move, and those of vacated ones if their owner drains.
        """
        return (moved + vacated) * self.restore_s
