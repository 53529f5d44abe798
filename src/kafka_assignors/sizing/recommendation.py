"""A number of members that follows the size of a group and does not flap.

Two sizes go in: with the whole capacity of a consumer (`full`), and with the headroom left free (`target`).
The recommendation

- goes up to `target` when the members that it recommends cannot carry the load even at full capacity, at
  once or after a hold;
- goes down when `target` has been lower for a time without interruption, to the highest `target` of that
  time;
- else stays.

So rates that go up and down within the headroom change nothing twice: the number that `target` demands for
the lowest of them suffices at full capacity for the highest of them. (That holds where the sizes are exact;
a heuristic size may be one above.)

Time counts only as far as there are sizes to show for it. If the clock goes back, or the next size comes
later than `longest_gap_s`, the time between is not evidence, and a hold starts anew; and a recommendation
without a size for `stale_after_s` is none. So a clock that goes back, or jumps further than that, can delay a
change, and not cause one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from kafka_assignors.arguments import require_number


@dataclass(frozen=True, slots=True)
class Needed:
    """How many members are needed: at full capacity, and with the headroom free."""

    full: int
    target: int


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """When a recommendation changes. `TypeError` or `ValueError` names what makes no sense.

    Attributes:
        hold_up_s: how long the load must be too much before the number goes up; 0 for at once.
        hold_down_s: how long fewer members must have sufficed before it goes down.
        longest_gap_s: a longer time between two sizes is not evidence of anything.
        stale_after_s: after so long without a size there is no recommendation.
        least, most: the number never leaves this range; None for no upper end.
    """

    hold_up_s: float = 0.0
    hold_down_s: float = 600.0
    longest_gap_s: float = 150.0
    stale_after_s: float = 300.0
    least: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                require_number(each.name, value)
        if self.most is not None and self.most < self.least:
            raise ValueError(f"the most members ({self.most}) are fewer than the least ({self.least})")

    def within(self, members: int) -> int:
        return max(self.least, members if self.most is None else min(self.most, members))


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The state between two sizes. The first one is `Recommendation()`.

    Attributes:
        members: how many members are recommended; None before the first size.
        at_s: when the last size came.
        above_s, below_s: for how long the load has been too much, or fewer members have sufficed; None if
            that is not so now.
        highest_target: the highest `target` while fewer members have sufficed.
    """

    members: int | None = None
    at_s: float | None = None
    above_s: float | None = None
    below_s: float | None = None
    highest_target: int = 0

    def age_s(self, now_s: float) -> float | None:
        """How long ago the last size came; None before the first. A clock that went back makes it 0."""
        return None if self.at_s is None else max(0.0, now_s - self.at_s)

    def current(self, now_s: float, policy: ScalingPolicy) -> int | None:
        """The recommended members; None before the first size, and when the last one is too old."""
        age_s = self.age_s(now_s)
        return self.members if age_s is not None and age_s <= policy.stale_after_s else None


def recommend(state: Recommendation, now_s: float, needed: Needed, policy: ScalingPolicy) -> Recommendation:
    """The state after another size."""
    full, target = policy.within(needed.full), policy.within(max(needed.full, needed.target))
    if state.members is None or state.at_s is None:
        return Recommendation(target, now_s)
    passed_s = now_s - state.at_s
    counts = 0 <= passed_s <= policy.longest_gap_s
    if full > state.members:
        above_s = state.above_s + passed_s if counts and state.above_s is not None else 0.0
        if above_s >= policy.hold_up_s:
            return Recommendation(target, now_s)
        return replace(state, at_s=now_s, above_s=above_s, below_s=None, highest_target=0)
    if target < state.members:
        goes_on = counts and state.below_s is not None
        below_s = (state.below_s or 0.0) + passed_s if goes_on else 0.0
        highest = max(state.highest_target, target) if goes_on else target
        if below_s >= policy.hold_down_s:
            return Recommendation(highest, now_s)
        return Recommendation(state.members, now_s, None, below_s, highest)
    return Recommendation(state.members, now_s)
