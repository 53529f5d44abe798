"""When the leader asks for a rebalance because loads are uneven: the decision, without clock and I/O.

Between rebalances the leader asks its source of weights every `check_every_s`, and calls `judge_load` with
the group as it is: what each member owns, and what each partition weighs now. `judge_load` says whether to
ask for a rebalance, and why. The caller keeps the `TriggerState` and gives it back with the next call.
`leads` says that a generation has begun which this member leads.

A look acts only if all conditions of `docs/load.md` hold; the first that does not is the reason for not
acting. `_unusable` and `_waiting` have the conditions that need no assignment. If these hold, the strategy is
asked for a plan, and `_refusal` has the conditions on the plan. The hold begins with a look that finds a gap
above `gap`.

A new leader does not know what the last leader did. So it waits, and its budget of moves begins empty: two
leaders together act no more often than one, and do not undo each other's moves. At most half of
`moves_an_hour` can be saved up, and as much comes back in an hour, so no hour has more.

If a plan is refused, the strategy is asked again after `cool_down_s`, then after twice that, up to 16 times
that; or as soon as the gap has doubled, or in a new hold. So a gap that no assignment closes costs little.
The cool-down after an action doubles in the same way, until a look finds the gap below the middle between the
gap before the action and the promised one.

**Time** counts only between two calls that are at most three checks apart. If the clock jumps back, or far
ahead as on a machine that was suspended, no time has passed, and the hold begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kafka_assignors.arguments import require_integer, require_number
from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import check_assignment
from kafka_assignors.makespan.loads import Loads, gap_above, loads_of, member_loads
from kafka_assignors.pause_model import Consumption, PauseModel
from kafka_assignors.strategy import Strategy

MOST_UNKNOWN = 0.1
"""The share of partitions with unknown weights up to which a look counts."""

_CHECKS_APART = 3
"""Time counts between two calls that are at most this many checks apart."""

_MOST_DOUBLINGS = 4
"""How often a back-off doubles at most."""

_HOUR_S, _DAY_S = 3600.0, 86_400.0

_MEMORY = 4
"""The default of `undo_after_s`, in spacings of the hourly budget."""

EarlierOwners = Mapping[tuple[str, int], str]
"""By topic and partition, the member from which an action took it."""


@dataclass(frozen=True, slots=True)
class LoadTrigger:
    """When the leader asks for a rebalance by itself: `WeightedAssignor(weights, rebalance=LoadTrigger())`.

    `TypeError` or `ValueError` names a wrong argument. Durations are in seconds.

    Attributes:
        check_every_s: how often the leader asks its source for weights between rebalances; above 0.
        gap: how far the greatest load must be above its lower bound, as a share of the bound: 0.2 is a fifth.
        rest_below: the hold ends when no member is above the bound by this share any more; at most `gap`.
        held_s: for how long a member must have been too full.
        cool_down_s: for how long no action follows a rebalance of the group.
        rebalances_an_hour: from 1 to 3600. Actions are at least an hour divided by this apart.
        moves_an_hour: how many partitions all actions of an hour may move, at least 2; None for any number.
            One action may move half of them.
        undo_after_s: for how long no action returns a partition to a member from which another action took
            it, and how long a new leader waits; at most a day. None for four spacings of the hourly budget,
            by default an hour.
        horizon_s: the time in which the gain of an action must exceed what its pause costs; above 0.
        pause: the parameters of the pause.
        eager: whether to act in a group that follows the eager protocol too, where all partitions pause.
    """

    check_every_s: float = 30.0
    gap: float = 0.2
    rest_below: float = 0.1
    held_s: float = 120.0
    cool_down_s: float = 300.0
    rebalances_an_hour: int = 4
    moves_an_hour: int | None = None
    undo_after_s: float | None = None
    horizon_s: float = 600.0
    pause: PauseModel = field(default_factory=PauseModel)
    eager: bool = False

    def __post_init__(self) -> None:
        for name in ("check_every_s", "horizon_s"):
            require_number(name, getattr(self, name), above_zero=True)
        for name in ("gap", "rest_below", "held_s", "cool_down_s"):
            require_number(name, getattr(self, name))
        if self.undo_after_s is not None:
            require_number("undo_after_s", self.undo_after_s, most=_DAY_S)
        if self.rest_below > self.gap:
            raise ValueError(f"rest_below must be at most gap, which is {self.gap}, not {self.rest_below}")
        require_integer("rebalances_an_hour", self.rebalances_an_hour, least=1, most=int(_HOUR_S))
        if self.moves_an_hour is not None:
            require_integer("moves_an_hour", self.moves_an_hour, least=2)  # One action may take half.
        if not isinstance(self.pause, PauseModel):
            raise TypeError(f"pause must be a PauseModel, not {self.pause!r}")
        if not isinstance(self.eager, bool):
            raise TypeError(f"eager must be True or False, not {self.eager!r}")

    @property
    def stands_s(self) -> float:
        """For how long no action returns a partition that another moved: `undo_after_s`, or its default."""
        return _MEMORY * self.spacing_s if self.undo_after_s is None else self.undo_after_s

    @property
    def spacing_s(self) -> float:
        """The least time between two actions, by the hourly budget."""
        return _HOUR_S / self.rebalances_an_hour


@dataclass(frozen=True, slots=True)
class TriggerState:
    """What a leader remembers from one look to the next.

    Its size is bounded by the members of the group, and by the partitions that the actions in `taken` moved.

    Attributes:
        looked_s: the clock at the last call.
        cool_down_s: the rest of the cool-down.
        new_s: for how long this member does not act yet, because it has just begun to lead.
        budget_s: the time until the hourly budget has another rebalance.
        moves: the moves left in the hourly budget; may be a fraction.
        held_s: how long the hold has lasted; None without one.
        too_full: the members that were too full at every look of the hold.
        back_off_s: how long the strategy is not asked, because its last plan was refused.
        refusals: how many plans were refused in this hold.
        refused_gap: the gap at the last refusal.
        fruitless: how many actions in a row have not helped so far.
        helps_below: the gap below which the last action counts as one that helped; None before an action, and
            once it has helped.
        taken: for each action, how long it must not be undone yet, and the earlier owners of its partitions.
    """

    looked_s: float
    cool_down_s: float
    new_s: float = 0.0
    budget_s: float = 0.0
    moves: float = 0.0
    held_s: float | None = None
    too_full: frozenset[str] = frozenset()
    back_off_s: float = 0.0
    refusals: int = 0
    refused_gap: float = 0.0
    fruitless: int = 0
    helps_below: float | None = None
    taken: tuple[tuple[float, EarlierOwners], ...] = ()


@dataclass(frozen=True, slots=True)
class LoadJudgement:
    """The result of a look at the weights.

    Attributes:
        act: whether the leader should ask for a rebalance.
        reason: one sentence with the figures, for the log and the observer.
        greatest: the greatest load of a member, in the unit of the weights.
        bound: a lower bound of the greatest load of any assignment.
        reachable: the greatest load under the strategy's plan; None if the strategy was not asked.
        moves: how many partitions change their owner under the plan.
        gain: the decrease of the greatest load, times `horizon_s`.
        cost: the weight of the partitions that pause, times their pause in seconds.
    """

    act: bool
    reason: str
    greatest: int
    bound: int
    reachable: int | None = None
    moves: int = 0
    gain: float = 0.0
    cost: float = 0.0

    @property
    def gap(self) -> float:
        """The greatest load divided by its bound, minus 1; 0 if all weights are 0."""
        return gap_above(self.greatest, self.bound)


def leads(trigger: LoadTrigger, state: TriggerState | None, now_s: float) -> TriggerState:
    """The state at the start of a generation that this member leads.

    `state` is None if this member did not lead the generation before. `now_s` is the time of a monotonic
    clock.
    """
    if state is None:
        return TriggerState(now_s, trigger.cool_down_s, max(trigger.spacing_s, trigger.stands_s))
    state, _ = _at(trigger, state, now_s)
    cool_down_s = max(state.cool_down_s, trigger.cool_down_s)
    return replace(_without_hold(state), cool_down_s=cool_down_s)


def judge_load(
    trigger: LoadTrigger,
    state: TriggerState,
    now_s: float,
    group: Group,
    strategy: Strategy,
    consumption: Consumption,
) -> tuple[TriggerState, LoadJudgement]:
    """The state after a look at the weights, and whether the leader should ask for a rebalance.

    `group` has the members with their assignments in this generation, and the topics with the weights that
    the source has just given; if it gave none, there is no look. The state counts the action as taken. A
    strategy that fails raises nothing here: that is a reason not to act.
    """
    state, passed_s = _at(trigger, state, now_s)
    loads = loads_of(group, Assignment(group.claims.prior))
    if blocked := _unusable(trigger, loads, consumption):
        return _without_hold(state), _no(loads, blocked)
    state = _hold(trigger, state, passed_s, loads)
    if waiting := _waiting(trigger, state, loads.gap):
        return state, _no(loads, waiting)
    try:
        target = strategy.assign(group)
        check_assignment(group, target)
    except Exception as error:  # A strategy may be third-party code.
        plan = _no(loads, f"strategy {strategy.name!r} has no plan: {type(error).__name__}: {error}")
        return _after_refusal(trigger, state, plan), plan
    taken = _taken(group, target)
    plan = _plan(trigger, state, group, target, taken, consumption, loads)
    refusal = _refusal(trigger, state, strategy, target, taken, plan)
    if refusal is None:
        return _after_action(trigger, state, plan, taken), plan
    return _after_refusal(trigger, state, plan), replace(plan, act=False, reason=refusal)


def _at(trigger: LoadTrigger, state: TriggerState, now_s: float) -> tuple[TriggerState, float | None]:
    """The state at this time, and the seconds since the last call; None if these do not count."""
    passed_s = now_s - state.looked_s
    if not 0 <= passed_s <= _CHECKS_APART * trigger.check_every_s:
        return replace(state, looked_s=now_s), None
    most = (trigger.moves_an_hour or 0) / 2
    return (
        replace(
            state,
            looked_s=now_s,
            cool_down_s=max(0.0, state.cool_down_s - passed_s),
            new_s=max(0.0, state.new_s - passed_s),
            budget_s=max(0.0, state.budget_s - passed_s),
            back_off_s=max(0.0, state.back_off_s - passed_s),
            moves=min(most, state.moves + most * passed_s / _HOUR_S),
            taken=tuple((left - passed_s, owners) for left, owners in state.taken if left > passed_s),
        ),
        passed_s,
    )


def _without_hold(state: TriggerState) -> TriggerState:
    return replace(state, held_s=None, too_full=frozenset[str](), back_off_s=0.0, refusals=0, refused_gap=0.0)


def _unusable(trigger: LoadTrigger, loads: Loads, consumption: Consumption) -> str | None:
    """The reason why the loads by these weights are not judged; None if they are."""
    if consumption is Consumption.EAGER and not trigger.eager:
        return "all partitions of an eager group pause in a rebalance, and the trigger has eager=False"
    partitions = sum(map(len, loads.weights.by_topic.values()))
    if loads.weights.unknown > MOST_UNKNOWN * partitions:
        return f"{loads.weights.unknown} of {partitions} weights are unknown"
    if not loads.bound:
        return "all weights are 0"
    return None


def _hold(trigger: LoadTrigger, state: TriggerState, passed_s: float | None, loads: Loads) -> TriggerState:
    """The state with the hold and the last action judged by these loads."""
    if state.helps_below is not None and loads.gap < state.helps_below:
        state = replace(state, fruitless=0, helps_below=None)
    too_full = frozenset(
        member_id
        for member_id, load in loads.of_members.items()
        if gap_above(load, loads.bound) >= trigger.rest_below
    )
    if state.held_s is not None and passed_s is not None and (still := state.too_full & too_full):
        return replace(state, held_s=state.held_s + passed_s, too_full=still)
    state = _without_hold(state)
    return replace(state, held_s=0.0, too_full=too_full) if loads.gap > trigger.gap else state


def _waiting(trigger: LoadTrigger, state: TriggerState, gap: float) -> str | None:
    """The reason why the strategy is not asked yet; None if it is asked."""
    if gap <= trigger.gap:
        return f"the greatest load is {gap:.0%} above the bound, and {trigger.gap:.0%} is allowed"
    above = f"the greatest load is {gap:.0%} above the bound"
    if state.held_s is None or state.held_s < trigger.held_s:
        return f"{above}, for {state.held_s or 0:.0f} of {trigger.held_s:g} s"
    if state.cool_down_s > 0:
        return f"{above}, and the cool-down after the last rebalance ends in {state.cool_down_s:.0f} s"
    if state.new_s > 0:
        return f"{above}, and this member, which has just begun to lead, waits {state.new_s:.0f} s"
    if state.budget_s > 0:
        return (
            f"{above}, and the budget of {trigger.rebalances_an_hour} rebalances an hour has the next one in "
            f"{state.budget_s:.0f} s"
        )
    if state.back_off_s > 0 and gap < 2 * state.refused_gap:
        return f"{above}, and the strategy, which had no plan that pays, is asked in {state.back_off_s:.0f} s"
    return None


def _plan(
    trigger: LoadTrigger,
    state: TriggerState,
    group: Group,
    target: Assignment,
    taken: EarlierOwners,
    consumption: Consumption,
    loads: Loads,
) -> LoadJudgement:
    """The action that would lead to this target."""
    by_topic = loads.weights.by_topic
    reachable = max(member_loads(target, loads.weights).values())
    if consumption is Consumption.EAGER:
        paused = sum(map(sum, by_topic.values()))
    else:
        paused = sum(by_topic[topic][partition] for topic, partition in taken)
    cost = paused * trigger.pause.pause_s(consumption, len(group.members))
    gain = (loads.greatest - reachable) * trigger.horizon_s
    bring = f"{_moves(len(taken))} bring{'s' * (len(taken) == 1)}"
    reason = (
        f"the greatest load {loads.greatest} has been above its bound {loads.bound} for "
        f"{state.held_s or 0:.0f} s, by {loads.gap:.0%} now; {bring} it to {reachable}: "
        f"a gain of {gain:.0f} in {trigger.horizon_s:g} s for {cost:.0f} that pauses"
    )
    return LoadJudgement(True, reason, loads.greatest, loads.bound, reachable, len(taken), gain, cost)


def _refusal(
    trigger: LoadTrigger,
    state: TriggerState,
    strategy: Strategy,
    target: Assignment,
    taken: EarlierOwners,
    plan: LoadJudgement,
) -> str | None:
    """The reason why this plan leads to no action; None if it leads to one."""
    above = f"the greatest load is {plan.gap:.0%} above the bound"
    if not taken or plan.reachable is None or plan.reachable >= plan.greatest:
        return f"{above}, and strategy {strategy.name!r} has no assignment that lowers it"
    if plan.gain <= plan.cost:
        return (
            f"{above}, and lowering it from {plan.greatest} to {plan.reachable} gains {plan.gain:.0f} in "
            f"{trigger.horizon_s:g} s, which does not pay for a pause of {_moves(plan.moves)}, "
            f"{plan.cost:.0f}"
        )
    if back := _back_again(state, target, taken):
        return (
            f"{above}, and {back} of {_moves(plan.moves)} would undo one of the last {trigger.stands_s:g} s"
        )
    if trigger.moves_an_hour is not None and plan.moves > state.moves:
        return (
            f"{above}, and the plan has {_moves(plan.moves)}, for which the budget of "
            f"{trigger.moves_an_hour} an hour has {int(state.moves)} left, and never more than half of it"
        )
    return None


def _taken(group: Group, target: Assignment) -> EarlierOwners:
    """The owners of the partitions that the target gives to other members."""
    return {
        (topic, partition): member_id
        for member_id, owned in group.claims.prior.items()
        for topic, partitions in owned.items()
        for partition in set(partitions).difference(target.members[member_id].get(topic, ()))
    }


def _back_again(state: TriggerState, target: Assignment, taken: EarlierOwners) -> int:
    """How many partitions return to a member from which an action in `state.taken` took them."""
    return sum(
        any(owners.get((topic, partition)) == member_id for _, owners in state.taken)
        for member_id, assigned in target.members.items()
        for topic, partitions in assigned.items()
        for partition in partitions
        if (topic, partition) in taken
    )


def _after_action(
    trigger: LoadTrigger, state: TriggerState, plan: LoadJudgement, taken: EarlierOwners
) -> TriggerState:
    assert plan.reachable is not None
    return replace(
        _without_hold(state),
        cool_down_s=_doubled(trigger.cool_down_s, state.fruitless),
        budget_s=trigger.spacing_s,
        moves=max(0.0, state.moves - plan.moves),
        fruitless=state.fruitless + 1,
        helps_below=(plan.gap + gap_above(plan.reachable, plan.bound)) / 2,
        taken=(*state.taken, (trigger.stands_s, taken)),
    )


def _after_refusal(trigger: LoadTrigger, state: TriggerState, plan: LoadJudgement) -> TriggerState:
    return replace(
        state,
        back_off_s=_doubled(trigger.cool_down_s, state.refusals),
        refusals=state.refusals + 1,
        refused_gap=plan.gap,
    )


def _doubled(wait_s: float, times: int) -> float:
    return wait_s * float(2 ** min(times, _MOST_DOUBLINGS))


def _moves(count: int) -> str:
    return f"{count} move" if count == 1 else f"{count} moves"


def _no(loads: Loads, reason: str) -> LoadJudgement:
    return LoadJudgement(False, reason, loads.greatest, loads.bound)
