"""A simulated week of a group whose leader acts on its loads; docs/load.md has the figures.

    python -m benchmarks.week            # some minutes on one core
    python -m benchmarks.week --days 1   # does it run?
    python -m benchmarks.week --cost     # the CPU time of one check of 10,000 partitions

Twelve members read 120 partitions for seven days, in steps of 30 seconds. The load of each partition follows
its popularity (Pareto, shape 2), a daily curve (in one of three time zones), noise, bursts of one to ten
minutes at 5 to 20 times its rate, and hot keys: for one to eight hours a partition gets half of a fair share
more, and then another partition does. A member consumes up to 2.5 times its mean share. About every eight
hours another member leads, which knows no earlier offsets; every day all members restart, one after the
other. The source of weights fails for five minutes twice a day, returns weights that are ten minutes old for
half an hour once a day, and lacks half of the partitions for five minutes once a day.

Each row is the same week under another trigger or source, with the strategy `weighted`. Pauses are those of
`kafka_assignors.pause_model`. A partition that the trigger moves away and back within an hour counts as an
oscillation; only triggers that forget their moves can cause it.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from benchmarks.weighted import a_group, owning
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.load_trigger import LoadTrigger, TriggerState, judge_load, leads
from kafka_assignors.makespan.loads import crowding_bound
from kafka_assignors.pause_model import Consumption
from kafka_assignors.strategies import Sticky, Weighted
from kafka_assignors.weights import PartitionCosts, lag_weights, weigh

TOPIC = "orders"
STEP_S = 30
DAY_S = 86_400
RATE = 100.0
"""Mean records a second of a partition, before bursts and hot keys."""

Offsets = Mapping[tuple[str, int], int]
Source = Callable[[float, Offsets, Offsets], Sequence[int | None]]
"""A source of weights: (time, committed offsets, end offsets) -> the weight of each partition."""


@dataclass(frozen=True)
class Week:
    """The events of the week, the same for every trigger.

    By step: `arrived` has the records that come to each partition, and `bound` the lower bound of the
    greatest load. `fails`, `late` and `halved` are the steps with that fault of the source, `new_leader`
    those in which another member begins to lead. `restarts` has the member that restarts.
    """

    members: int
    partitions: int
    arrived: Sequence[Sequence[int]]
    bound: Sequence[int]
    fails: frozenset[int]
    late: frozenset[int]
    halved: frozenset[int]
    new_leader: frozenset[int]
    restarts: Mapping[int, int]
    capacity: float


@dataclass
class Lived:
    """The results of a week under one trigger."""

    actions: list[int] = field(default_factory=list)
    moves: int = 0
    other_moves: int = 0
    oscillations: int = 0
    paused_s: float = 0.0
    ratios: list[float] = field(default_factory=list)
    behind_s: list[float] = field(default_factory=list)
    judge_s: float = 0.0


def a_week(seed: int, days: float = 7, members: int = 12, partitions: int = 120) -> Week:
    """The same week for the same seed."""
    rng = random.Random(seed)
    steps = int(days * DAY_S / STEP_S)
    popular = [rng.paretovariate(2) for _ in range(partitions)]
    mean = sum(popular) / partitions
    zones = [rng.choice((0, 8, 16)) for _ in range(partitions)]
    bursts = dict(_bursts(rng, steps, partitions))
    hot = _hot_keys(rng, steps, partitions)
    noise = [0.0] * partitions
    arrived, carry = [], [0.0] * partitions
    share = RATE * partitions / members
    until: dict[int, tuple[int, float]] = {}
    for step in range(steps):
        for partition, end, times in bursts.get(step, ()):
            until[partition] = (end, times)
        hours = step * STEP_S / 3600
        row = []
        for partition in range(partitions):
            noise[partition] = 0.8 * noise[partition] + rng.gauss(0, 0.12)
            rate = RATE * popular[partition] / mean * math.exp(noise[partition])
            rate *= 1 + 0.7 * math.sin((hours - zones[partition]) / 24 * math.tau)
            end, times = until.get(partition, (0, 1.0))
            rate *= times if step < end else 1.0
            rate += 0.5 * share * hot[step].count(partition)
            carry[partition] += rate * STEP_S
            records = int(carry[partition])
            carry[partition] -= records
            row.append(records)
        arrived.append(row)
    per_day = DAY_S // STEP_S
    return Week(
        members=members,
        partitions=partitions,
        arrived=arrived,
        bound=[max(-(-sum(row) // members), crowding_bound(row, members)) for row in arrived],
        fails=_phases(rng, steps, 2 / per_day, 10),
        late=_phases(rng, steps, 1 / per_day, 60),
        halved=_phases(rng, steps, 1 / per_day, 10),
        new_leader=frozenset(step for step in range(steps) if rng.random() < 3 / per_day),
        restarts={
            day * per_day + per_day // 2 + 4 * member: member
            for day in range(math.ceil(days))
            for member in range(members)
        },
        capacity=2.5 * sum(map(sum, arrived)) / steps / members,
    )


def _bursts(
    rng: random.Random, steps: int, partitions: int
) -> Iterator[tuple[int, list[tuple[int, int, float]]]]:
    """The bursts that begin at a step: partition, last step, and multiple of the partition's rate."""
    for step in range(steps):
        if rng.random() < 1 / 60:
            length = rng.randint(2, 20)
            yield step, [(rng.randrange(partitions), step + length, rng.uniform(5, 20))]


def _hot_keys(rng: random.Random, steps: int, partitions: int) -> list[list[int]]:
    """The partitions of the two hot keys, by step."""
    columns = []
    for _ in range(2):
        column: list[int] = []
        while len(column) < steps:
            column += [rng.randrange(partitions)] * rng.randint(3600 // STEP_S, 8 * 3600 // STEP_S)
        columns.append(column[:steps])
    return [list(row) for row in zip(*columns, strict=True)]


def _phases(rng: random.Random, steps: int, chance: float, length: int) -> frozenset[int]:
    begun = [step for step in range(steps) if rng.random() < chance]
    return frozenset(step + more for step in begun for more in range(length))


class Smoothed:
    """Turns rates and lag into weights, as `RateWeights` does."""

    def __init__(self, half_life_s: float = 120.0) -> None:
        self._costs = PartitionCosts(half_life_s=half_life_s)

    def __call__(self, now_s: float, committed: Offsets, end: Offsets) -> Sequence[int | None]:
        return self._costs.weigh(now_s, {TOPIC: len(end)}, committed, end)[TOPIC]


class Trend:
    """The same with a linear trend, extrapolated by `ahead_s` seconds.

    Of two averages, one has twice the half-life of the other. They are late by half_life / ln 2 and twice
    that, so their difference is the slope times half_life / ln 2 (Brown's double exponential smoothing).
    """

    def __init__(self, ahead_s: float = 300.0, half_life_s: float = 120.0) -> None:
        self._near, self._far = Smoothed(half_life_s), Smoothed(2 * half_life_s)
        self._times = 1 + ahead_s / (half_life_s / math.log(2))

    def __call__(self, now_s: float, committed: Offsets, end: Offsets) -> Sequence[int | None]:
        near, far = self._near(now_s, committed, end), self._far(now_s, committed, end)
        return [
            None if one is None or other is None else max(0, round(one + (one - other) * self._times))
            for one, other in zip(near, far, strict=True)
        ]


def lag(now_s: float, committed: Offsets, end: Offsets) -> Sequence[int | None]:
    """The lag as weights, as `LagWeights` has it."""
    return lag_weights({TOPIC: len(end)}, committed, end, 1000)[TOPIC]


@dataclass(frozen=True)
class Row:
    """A trigger or none, the source that each new leader creates, and whether moves may be undone."""

    trigger: LoadTrigger | None
    source: Callable[[], Source] = Smoothed
    may_undo: bool = False


def live(week: Week, row: Row) -> Lived:
    """Run the group through the week."""
    return _Life(week, row).live()


class _Life:
    def __init__(self, week: Week, row: Row) -> None:
        self.week, self.row, self.trigger, self.source = week, row, row.trigger, row.source()
        self.state = None if self.trigger is None else leads(self.trigger, None, 0)
        self.lived = Lived()
        self.strategy = Weighted()
        self.ends = [[0] * week.partitions]
        self.committed = [0.0] * week.partitions
        self.weights: Sequence[int | None] = [None] * week.partitions
        self.names = [f"m{number:02}" for number in range(week.members)]
        first = self.strategy.assign(
            Group.of([self._topic()], [Member(name, {TOPIC}) for name in self.names])
        )
        self.owner = _owners(first, week.partitions)
        self.moved_at: dict[int, list[tuple[int, str]]] = {}

    def live(self) -> Lived:
        for step in range(len(self.week.arrived)):
            self._arrive_and_consume(step)
            fresh = self._look(step)
            if (member := self.week.restarts.get(step)) is not None:
                self._restart(step, self.names[member])
            elif step in self.week.new_leader:
                self.source = self.row.source()
                self._other_generation(step, self.names, leads_anew=True)
            elif fresh and self.trigger is not None:
                self._judge(step)
        return self.lived

    def _arrive_and_consume(self, step: int) -> None:
        arrived = self.week.arrived[step]
        end = list(map(int.__add__, self.ends[-1], arrived))
        self.ends = [*self.ends[-20:], end]  # The oldest is ten minutes old, for a source that is late.
        loads: dict[str, int] = dict.fromkeys(self.names, 0)
        waiting: dict[str, float] = dict.fromkeys(self.names, 0.0)
        for partition, name in enumerate(self.owner):
            loads[name] += arrived[partition]
            waiting[name] += end[partition] - self.committed[partition]
        done = {name: min(1.0, self.week.capacity / max(1.0, work)) for name, work in waiting.items()}
        for partition, name in enumerate(self.owner):
            self.committed[partition] += (end[partition] - self.committed[partition]) * done[name]
        self.lived.ratios.append(max(loads.values()) / max(1, self.week.bound[step]))
        behind = max(work - self.week.capacity for work in waiting.values())
        self.lived.behind_s.append(max(0.0, behind) / self.week.capacity * STEP_S)

    def _look(self, step: int) -> bool:
        """Ask the source, and return whether it answered."""
        if step in self.week.fails:
            return False
        end = self.ends[0 if step in self.week.late else -1]
        ends = {(TOPIC, partition): offset for partition, offset in enumerate(end)}
        committed = {
            (TOPIC, partition): min(int(offset), end[partition])
            for partition, offset in enumerate(self.committed)
        }
        if step in self.week.halved:
            ends = {key: offset if key[1] % 2 else -1 for key, offset in ends.items()}
        self.weights = self.source(step * STEP_S, committed, ends)
        return True

    def _judge(self, step: int) -> None:
        assert self.trigger is not None
        assert self.state is not None
        group, now_s = self._group(self.names), step * STEP_S
        began = time.thread_time()
        self.state, judged = judge_load(
            self.trigger, self.state, now_s, group, self.strategy, Consumption.COOPERATIVE
        )
        self.lived.judge_s += time.thread_time() - began
        if self.row.may_undo:
            self.state = replace(self.state, taken=())
        if not judged.act:
            return
        self.lived.actions.append(step)
        before = self.owner
        self.owner = _owners(self.strategy.assign(group), self.week.partitions)
        for partition, (one, other) in enumerate(zip(before, self.owner, strict=True)):
            if one == other:
                continue
            earlier = [at for at in self.moved_at.get(partition, []) if step - at[0] < 3600 // STEP_S]
            self.lived.oscillations += any(was == other for _, was in earlier)
            self.moved_at[partition] = [*earlier, (step, one)]
            self.lived.moves += 1
        self.lived.paused_s += judged.moves * self.trigger.pause.pause_s(
            Consumption.COOPERATIVE, self.week.members
        )
        self.state = leads(self.trigger, self.state, now_s)

    def _restart(self, step: int, name: str) -> None:
        self._other_generation(step, [each for each in self.names if each != name], leads_anew=False)
        self._other_generation(step, self.names, leads_anew=False)

    def _other_generation(self, step: int, names: Sequence[str], *, leads_anew: bool) -> None:
        before = self.owner
        self.owner = _owners(self.strategy.assign(self._group(names)), self.week.partitions)
        self.lived.other_moves += sum(map(str.__ne__, before, self.owner))
        if self.trigger is not None:
            state: TriggerState | None = None if leads_anew else self.state
            self.state = leads(self.trigger, state, step * STEP_S)

    def _topic(self) -> Topic:
        return Topic(TOPIC, self.week.partitions, weights=tuple(self.weights))

    def _group(self, names: Sequence[str]) -> Group:
        owned: dict[str, list[int]] = {name: [] for name in names}
        for partition, name in enumerate(self.owner):
            if name in owned:
                owned[name].append(partition)
        members = [
            Member(name, {TOPIC}, owned={TOPIC: own} if own else {}, generation=1)
            for name, own in owned.items()
        ]
        return Group.of([self._topic()], members)


def _owners(assignment: Assignment, partitions: int) -> list[str]:
    owners = [""] * partitions
    for name, assigned in assignment.members.items():
        for partition in assigned.get(TOPIC, ()):
            owners[partition] = name
    return owners


DEFAULT = LoadTrigger()
NAIVE = LoadTrigger(held_s=0, cool_down_s=0, rest_below=DEFAULT.gap, rebalances_an_hour=3600, horizon_s=1e9)

ROWS = {
    "off": Row(None),
    "on, defaults": Row(DEFAULT),
    "defaults, but moves may be undone": Row(DEFAULT, may_undo=True),
    "defaults, but no hold": Row(LoadTrigger(held_s=0)),
    "defaults, but no cool-down and no budget": Row(LoadTrigger(cool_down_s=0, rebalances_an_hour=3600)),
    "naive: none of these": Row(NAIVE, may_undo=True),
    "naive, rates not smoothed": Row(NAIVE, lambda: Smoothed(1.0), may_undo=True),
    "defaults, linear trend": Row(DEFAULT, Trend),
    "defaults, `LagWeights`": Row(DEFAULT, lambda: lag),
}


def cost_of_a_look(members: int, partitions: int, looks: int = 20) -> dict[str, float]:
    """The median CPU milliseconds of each part of a check that does not act yet."""
    rng = random.Random(1)
    group = owning(a_group(members, partitions, False), Sticky().assign(a_group(members, partitions, False)))
    counts = {name: topic.partitions for name, topic in group.topics.items()}
    keys = [(name, partition) for name, count in counts.items() for partition in range(count)]
    rates = {key: 100 * rng.paretovariate(2) for key in keys}
    trigger, costs, took = LoadTrigger(held_s=1e6), PartitionCosts(), list[tuple[float, float, float]]()
    state = leads(trigger, None, 0)
    for look in range(looks):
        now_s = look * trigger.check_every_s
        ends = {key: int(rate * now_s) for key, rate in rates.items()}
        times = [time.thread_time()]
        given = costs.weigh(now_s, counts, ends, ends)
        times.append(time.thread_time())
        topics, _ = weigh(group.topics.values(), given)
        times.append(time.thread_time())
        group = Group.of(topics, group.members.values())
        state, judged = judge_load(trigger, state, now_s, group, Weighted(), Consumption.COOPERATIVE)
        times.append(time.thread_time())
        assert not judged.act
        took.append((times[1] - times[0], times[2] - times[1], times[3] - times[2]))
    parts = zip(("offsets to weights", "weights to topics", "judge"), zip(*took, strict=True), strict=True)
    return {name: 1000 * median(seconds) for name, seconds in parts}


def most_in_an_hour(actions: Sequence[int]) -> int:
    """The largest number of actions within any hour."""
    hour = 3600 // STEP_S
    return max((sum(first <= other < first + hour for other in actions) for first in actions), default=0)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    """Print a row for each trigger and source."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--seeds", type=int, default=1, help="how many weeks each row lives through")
    parser.add_argument("--cost", action="store_true", help="measure the time of a look instead")
    options = parser.parse_args()
    if options.cost:
        for members in (100, 1000):
            parts = cost_of_a_look(members, 10_000)
            cells = [
                f"{members} x 10,000",
                *(f"{ms:.0f}" for ms in parts.values()),
                f"{sum(parts.values()):.0f}",
            ]
            print(f"| {' | '.join(cells)} |")
        return
    weeks = [a_week(seed, options.days) for seed in range(1, options.seeds + 1)]
    print(
        "| trigger | actions | most in an hour | moves | oscillations | paused, partition-s "
        "| greatest load, of the bound: mean, p99 | behind, s: mean, p99 | moves of other rebalances |"
    )
    print("|---|--:|--:|--:|--:|--:|---|---|--:|")
    for name, row in ROWS.items():
        lives = [live(week, row) for week in weeks]
        ratios = [ratio for lived in lives for ratio in lived.ratios]
        behind = [seconds for lived in lives for seconds in lived.behind_s]
        figures = (
            name,
            sum(len(lived.actions) for lived in lives),
            max(most_in_an_hour(lived.actions) for lived in lives),
            sum(lived.moves for lived in lives),
            sum(lived.oscillations for lived in lives),
            f"{sum(lived.paused_s for lived in lives):.0f}",
            f"{sum(ratios) / len(ratios):.3f}, {quantile(ratios, 0.99):.2f}",
            f"{sum(behind) / len(behind):.1f}, {quantile(behind, 0.99):.0f}",
            sum(lived.other_moves for lived in lives),
        )
        print(f"| {' | '.join(map(str, figures))} |", flush=True)


if __name__ == "__main__":
    main()
