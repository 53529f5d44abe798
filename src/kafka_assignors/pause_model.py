"""How long partitions pause in a rebalance: a model with visible parameters, not a measurement.

What a coordinator records of a rebalance is when its join *ended*. When members stopped consuming, and when
they went on, is not recorded anywhere, so that the pause has to be computed from what the protocols make
members wait for:

* **Eager**: each member gives up everything when it hears of the rebalance, which is with its next heartbeat,
  and then waits for the one that hears of it last. Of n members whose heartbeats are independent of each
  other, the last hears of it n / (n + 1) intervals after the event in the mean, and each of them half an
  interval after it. The difference is what a partition waits for.
* **Cooperative** (KIP-429): what stays goes on. What moves is given up after the first round, and waits for
  the second: until the other members, the new owner above all, have heard of it.
* **Assigned by the broker** (KIP-848): what moves is given up, and the new owner is told with its next
  heartbeat, half an interval later in the mean. There are no rounds.
* A partition whose owner has **left** waits under each of them, from the owner's goodbye until the others
  have heard of it. (How long an owner had been dead that said no goodbye is not in the records, and not
  counted.)

To each comes what fetching takes to begin anew, and what the application does in its listener.

`docs/pause-model.md` says how each default follows from the measurements of `docs/pause.md`, and how far the
model is from each of them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields

from kafka_assignors.arguments import require_number


class Consumption(enum.Enum):
    """The way in which a group's members keep or give up partitions during a rebalance."""

    EAGER = "eager"
    """All members give up everything."""

    COOPERATIVE = "cooperative"
    """Members give up what moves, and it is handed over in a second round."""

    BROKER_ASSIGNED = "broker-assigned"
    """Members of a KIP-848 group give up what moves, each by itself."""


@dataclass(frozen=True, slots=True)
class PauseModel:
    """The parameters, all of them means. Durations in seconds, at least 0; an error names a wrong one.

    Attributes:
        heartbeat_interval_s: the members' `heartbeat.interval.ms`; Kafka's default. With it they hear of a
            rebalance.
        heartbeats_in_step: whether all members send their heartbeats at the same moment, as they do shortly
            after a rebalance, which restarts the interval of every member. Then no member waits for the last
            heartbeat.
        resume_s: from the last member's arrival to the first record: the rest of the join, the committed
            offset, the first fetch.
        listener_s: what the application's listener takes to give up a partition and to take it up again.
        second_round_heartbeats: how long a partition waits for the second round of a cooperative rebalance,
            in heartbeat intervals. It depends on the client more than on anything else.
        broker_heartbeat_interval_s: the broker's `group.consumer.heartbeat.interval.ms`; Kafka's default.
    """

    heartbeat_interval_s: float = 3.0
    heartbeats_in_step: bool = False
    resume_s: float = 0.068
    listener_s: float = 0.0
    second_round_heartbeats: float = 0.44
    broker_heartbeat_interval_s: float = 5.0

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name != "heartbeats_in_step":
                require_number(each.name, getattr(self, each.name))

    def pause_s(self, consumption: Consumption, members: int) -> float:
        """The pause of a partition that a member has to give up, in a group of so many `members`.

        Under eager that is every partition, otherwise one that moves.
        """
        if consumption is Consumption.EAGER:
            wait_s = 0.0
            if not self.heartbeats_in_step and members > 0:
                wait_s = self.heartbeat_interval_s * (members / (members + 1) - 1 / 2)
        elif consumption is Consumption.COOPERATIVE:
            wait_s = self.heartbeat_interval_s * self.second_round_heartbeats
        else:
            wait_s = self.broker_heartbeat_interval_s / 2
        return wait_s + self.resume_s + self.listener_s

    def vacancy_s(self, consumption: Consumption, members: int) -> float:
        """The pause of a partition whose owner has left, from its goodbye until one of `members` has it."""
        if consumption is Consumption.BROKER_ASSIGNED:
            wait_s = self.broker_heartbeat_interval_s / 2
        elif self.heartbeats_in_step:
            wait_s = self.heartbeat_interval_s / 2
        else:
            wait_s = self.heartbeat_interval_s * members / (members + 1)
        return wait_s + self.resume_s + self.listener_s

    def paused_s(
        self, consumption: Consumption, *, members: int, could_stay: int, moved: int, vacated: int
    ) -> float:
        """Partition-seconds that a rebalance pauses: the pauses of all partitions, added up.

        Args:
            members: of the group after the rebalance.
            could_stay: partitions whose owner is still there and still subscribed.
            moved: those of them that another member has afterwards.
            vacated: partitions whose owner has left, or does not want them any more.
        """
        given_up = could_stay if consumption is Consumption.EAGER else moved
        return given_up * self.pause_s(consumption, members) + vacated * self.vacancy_s(consumption, members)
