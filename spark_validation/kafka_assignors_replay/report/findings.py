"""The findings of a replay, in the order that matters to the operator of the groups.

A result holds a verdict for every group, strategy and mode. This module reduces them to one finding per group
and one total per strategy, which the terminal and both reports show.

**The best strategy of a group.** Balance comes first, because a lagging member is what an operator is paged
for. Of the strategies that never failed, those with the best balance remain, of these the ones with the
fewest moves, and of these the ones with the fewest paused partition-seconds by the model. Production competes
as well, and wins a tie; then a cooperative strategy does, because consumption continues while the group
rebalances. Balance is the standard deviation of the loads, averaged over the rebalances, because max/mean
says little where subscriptions differ.

**Gain or trade-off.** A change is a gain if no figure that the report shows for the group gets worse:
moves, pauses, rack misses, fullest / mean. Otherwise it is a trade-off, and the report names the costs.

**What to change first.** Gains come before trade-offs. Both are sorted by the paused partition-seconds a day
that the change would save, then by moves, then by rack misses. The pauses of a history of less than a day are
those of the whole history, and are labelled so. Members of a client that is eager under any strategy pause
eagerly; the report also shows their pauses with the cooperative consumer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, TypeVar

from kafka_assignors.strategies import RebalanceProtocol, StrategyError, load_strategy
from kafka_assignors_replay.history.measures import FIGURES, Mode, Verdict, total_of
from kafka_assignors_replay.result import RECORDED, GroupSummary, HistorySummary, ReplayResult

_EQUAL_STDDEV = 0.05
_EQUAL_PAUSES = 1.01
"""The parameters of the model of pauses are not known to a hundredth, so a smaller difference is none."""

_SECONDS_A_DAY = 86_400


class Compared(NamedTuple):
    """A figure of a group as recorded and under the best strategy, None where it is unknown; less is better.
    Reports show so many `digits` of it."""

    name: str
    before: float | None
    after: float | None
    digits: int = 0

    @property
    def title(self) -> str:
        return FIGURES[self.name].title

    @property
    def difference(self) -> float | None:
        """That of the rounded figures, so that the shown figures add up."""
        if self.before is None or self.after is None:
            return None
        return round(self.after, self.digits) - round(self.before, self.digits)


@dataclass(frozen=True, slots=True)
class GroupFinding:
    """The savings of one group. `best` is the recorded verdict itself if no strategy is better.

    `equals` names the other strategies with as few moves and as good a balance as `best`. Savings are
    negative where `best` costs more. `days` is the length of the group's history. `paused_s_per_day` are the
    paused partition-seconds by the model, as recorded and under `best`: a day, or in the whole history if
    that is shorter. For members of an eager client, `cooperative` is the best verdict if all used the
    cooperative consumer; None if that one runs eagerly. `summary` has what production ran, None if unknown.
    """

    group: str
    mode: Mode
    recorded: Verdict
    best: Verdict
    equals: tuple[str, ...]
    days: float
    paused_s_per_day: tuple[float, float]
    cooperative: Verdict | None = None
    cooperative_paused_s_per_day: float | None = None
    summary: GroupSummary | None = None

    @property
    def change_to(self) -> str:
        """`best`, or the consumer if production ran a strategy of this name in a client of its own."""
        name = self.best.strategy
        same_name = self.summary is not None and self.summary.protocols == (name,)
        return f"{name} with the consumer of kafka-assignors" if same_name else name

    @property
    def saved_paused_s_per_day(self) -> float:
        return self.paused_s_per_day[0] - self.paused_s_per_day[1]

    @property
    def pauses_as_long(self) -> bool:
        """Whether the pauses under `best` are those recorded, as far as the model can tell."""
        paused, would_be = self.paused_s_per_day
        return would_be <= paused * _EQUAL_PAUSES and paused <= would_be * _EQUAL_PAUSES

    @property
    def saved_rack_misses(self) -> int | None:
        """Partitions that would not have been consumed across racks; None if racks are not known."""
        before, after = self.recorded.rack_misses, self.best.rack_misses
        return None if before is None or after is None else before - after

    @property
    def saved_moves(self) -> int:
        return self.recorded.moved - self.best.moved

    @property
    def better_balance(self) -> bool:
        return self.best.load_stddev < self.recorded.load_stddev - _EQUAL_STDDEV

    @property
    def consumer_saves(self) -> bool:
        """Whether eager members would pause less with the cooperative consumer."""
        would_be = self.cooperative_paused_s_per_day
        return would_be is not None and would_be * _EQUAL_PAUSES < self.paused_s_per_day[0]

    @property
    def consumer_saves_s_per_day(self) -> float:
        """By how much the cooperative consumer would shorten the pauses under `best`."""
        would_be = self.cooperative_paused_s_per_day
        return self.paused_s_per_day[1] - would_be if would_be is not None and self.consumer_saves else 0

    @property
    def compared(self) -> tuple[Compared, ...]:
        """The figures that the report shows; equal where they differ by less than it shows."""
        recorded, best = self.recorded, self.best
        paused, would_be = self.paused_s_per_day
        return (
            Compared("moved", recorded.moved, best.moved),
            Compared("paused_s", paused, paused if self.pauses_as_long else would_be),
            Compared("rack_misses", recorded.rack_misses, best.rack_misses),
            Compared("max_over_mean", round(recorded.max_over_mean, 2), round(best.max_over_mean, 2), 2),
        )

    @property
    def worse(self) -> tuple[str, ...]:
        """The titles of the figures that are worse under `best` than recorded."""
        return tuple(
            each.title
            for each in self.compared
            if each.before is not None and each.after is not None and each.after > each.before
        )

    @property
    def gains(self) -> bool:
        return self.best.strategy != RECORDED and not self.worse

    @property
    def trades(self) -> bool:
        return self.best.strategy != RECORDED and bool(self.worse)

    @property
    def suggests(self) -> bool:
        """Whether there is a change to consider: a gain, a trade-off, or the cooperative consumer."""
        return self.best.strategy != RECORDED or self.consumer_saves


class StrategyTotal(NamedTuple):
    """One strategy over all groups in one mode, and the number of its groups."""

    groups: int
    verdict: Verdict


_Row = TypeVar("_Row")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(rows: Iterable[_Row], key: Callable[[_Row], _Key]) -> defaultdict[_Key, list[_Row]]:
    """The rows with each key, in their order."""
    found: defaultdict[_Key, list[_Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def verdicts_by_group(verdicts: Iterable[Verdict]) -> Mapping[str, Mapping[str, Mapping[Mode, Verdict]]]:
    """The verdicts by group, strategy and mode; those of an unknown group are none."""
    found: dict[str, dict[str, dict[Mode, Verdict]]] = defaultdict(lambda: defaultdict(dict))
    for verdict in verdicts:
        found[verdict.group][verdict.strategy][verdict.mode] = verdict
    return found


def leading_mode(result: ReplayResult) -> Mode:
    """The mode of the leading figures: steady-state, which shows a change of strategy, if it was replayed."""
    steady = any(verdict.mode is Mode.STEADY_STATE for verdict in result.verdicts)
    return Mode.STEADY_STATE if steady else Mode.ONE_STEP


def find(result: ReplayResult) -> list[GroupFinding]:
    """One finding per group that has a recorded verdict, the largest savings first."""
    mode = leading_mode(result)
    summaries = {summary.group: summary for summary in result.groups}
    judged = (verdict for verdict in result.verdicts if verdict.mode is mode and verdict.rebalances)
    found = []
    for group, verdicts in grouped(judged, attrgetter("group")).items():
        by_strategy = {verdict.strategy: verdict for verdict in verdicts}
        if RECORDED in by_strategy:
            of_group = [by_strategy[name] for name in strategies_in_order(by_strategy, result)]
            found.append(_finding(of_group, summaries.get(group)))
    return sorted(found, key=_rank)


def _finding(of_group: Sequence[Verdict], summary: GroupSummary | None) -> GroupFinding:
    recorded = of_group[0]
    eager = summary is not None and bool(summary.eager_clients)
    best = _best(of_group, eager)
    cooperative = _best(of_group, eager=False) if eager else None
    if cooperative is not None and not runs_cooperatively(cooperative.strategy):
        cooperative = None
    days = 1.0 if summary is None else days_of(summary)
    periods = max(1.0, days)
    return GroupFinding(
        group=recorded.group,
        mode=recorded.mode,
        recorded=recorded,
        best=best,
        equals=tuple(
            verdict.strategy
            for verdict in of_group
            if verdict.strategy not in (RECORDED, best.strategy)
            and not verdict.failed
            and verdict.moved == best.moved
            and verdict.load_stddev <= best.load_stddev + _EQUAL_STDDEV
        ),
        days=days,
        paused_s_per_day=(_paused_s(recorded, eager) / periods, _paused_s(best, eager) / periods),
        cooperative=cooperative,
        cooperative_paused_s_per_day=None if cooperative is None else cooperative.paused_s / periods,
        summary=summary,
    )


def sentence(finding: GroupFinding) -> str:
    """The change that a finding suggests and the figures that differ, without the group's name."""
    parts = []
    if finding.best.strategy != RECORDED:
        ran = ", ".join(finding.summary.protocols) if finding.summary else ""
        differing = [
            f"{each.difference:+,.{each.digits}f} {each.title}"
            for each in finding.compared
            if each.difference
        ]
        kind = "a trade-off, " if finding.worse else ""
        figures = ", ".join(differing) or "better balance"
        parts.append(f"{ran or 'production'} to {finding.change_to}: {kind}{figures}")
    if finding.consumer_saves:
        would_be, paused = finding.cooperative_paused_s_per_day or 0.0, finding.paused_s_per_day[0]
        seconds = f"{would_be:,.0f} instead of {paused:,.0f} paused partition-seconds {period(finding.days)}"
        parts.append(f"{seconds} with the cooperative consumer")
    return "; ".join(parts)


def headline(found: Sequence[GroupFinding]) -> str:
    """How many groups gain, trade one figure for another, or gain by the consumer alone."""
    gains, trades = sum(each.gains for each in found), sum(each.trades for each in found)
    counts = {
        "would gain from another strategy": gains,
        "would trade one figure for another": trades,
        "would gain from the cooperative consumer alone": sum(each.suggests for each in found)
        - gains
        - trades,
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or (
        "none would gain from a change"
    )


def _paused_s(verdict: Verdict, eager: bool) -> float:
    if eager and verdict.strategy != RECORDED and verdict.paused_eager_s is not None:
        return verdict.paused_eager_s
    return verdict.paused_s


def days_of(summary: GroupSummary | HistorySummary) -> float:
    """The length of a history in days; 1 if it has no generation."""
    first, last = summary.first_timestamp, summary.last_timestamp
    return 1.0 if first is None or last is None else (last - first).total_seconds() / _SECONDS_A_DAY


def period(days: float) -> str:
    """The period of a figure "a day" from a history of `days`: the whole history if that is shorter."""
    if days >= 1:
        return "a day"
    minutes = max(1, round(days * 24 * 60))
    length, unit = (minutes, "minute") if minutes < 120 else (round(minutes / 60), "hour")
    return f"in {length} {unit}" + ("s" if length > 1 else "")


def totals(result: ReplayResult, mode: Mode) -> list[StrategyTotal]:
    """Every strategy over all groups, in the order of `strategies_in_order`."""
    by_strategy = grouped((each for each in result.verdicts if each.mode is mode), attrgetter("strategy"))
    return [
        StrategyTotal(len(by_strategy[name]), total_of(name, mode, by_strategy[name]))
        for name in strategies_in_order(by_strategy, result)
    ]


def restoring(result: ReplayResult, mode: Mode) -> str:
    """What warm handoff would save, in a sentence; empty if nothing is restored."""
    model = result.options.pauses
    if not model.restore_s:
        return ""
    every = [total.verdict for total in totals(result, mode)]
    moved = ", ".join(f"{each.strategy} {model.restoring_s(each.moved):,.0f}" for each in every)
    drained = ", ".join(
        f"{each.strategy} {model.restoring_s(each.moved, each.vacated):,.0f}" for each in every
    )
    return (
        f"Partition-seconds of restoring that warm handoff saves, at {model.restore_s:g} s a partition: "
        f"{moved}; if members drain before they leave: {drained}."
    )


def strategies_in_order(strategies: Iterable[str], result: ReplayResult) -> list[str]:
    """`strategies` as reports list them: the recorded one first, the others in the order of the options."""
    order = {name: index for index, name in enumerate((RECORDED, *result.options.strategies))}
    return sorted(strategies, key=lambda name: order.get(name, len(order)))


def reasons_not_replayed(groups: Iterable[GroupSummary]) -> dict[str, int]:
    """The number of rebalances that were not replayed, by reason, the most frequent first."""
    reasons = sum((Counter(summary.not_replayed) for summary in groups), Counter[str]())
    return dict(reasons.most_common())


@lru_cache(maxsize=100)
def runs_cooperatively(strategy: str) -> bool:
    """Whether members go on consuming while the group rebalances; False for a strategy not known here."""
    # Called for each group and strategy. An unknown name costs a search of all installed packages.
    try:
        return set(load_strategy(strategy).protocols) != {RebalanceProtocol.EAGER}
    except StrategyError:
        return False


def _best(of_group: Sequence[Verdict], eager: bool) -> Verdict:
    """The best of the verdicts, the first of which is the recorded one."""
    recorded, *others = of_group
    sound = [recorded, *(verdict for verdict in others if not verdict.failed)]
    most_stddev = min(verdict.load_stddev for verdict in sound) + _EQUAL_STDDEV
    balanced = [verdict for verdict in sound if verdict.load_stddev <= most_stddev]
    fewest = min(verdict.moved for verdict in balanced)
    frugal = [verdict for verdict in balanced if verdict.moved == fewest]
    most_paused_s = min(_paused_s(verdict, eager) for verdict in frugal) * _EQUAL_PAUSES
    equal = [verdict for verdict in frugal if _paused_s(verdict, eager) <= most_paused_s]
    if recorded in equal:
        return recorded
    return min(equal, key=lambda verdict: not runs_cooperatively(verdict.strategy))


def _rank(finding: GroupFinding) -> tuple[bool, bool, bool, float, int, int, float, str]:
    return (
        not finding.gains,
        not finding.trades,
        not finding.consumer_saves,
        -finding.saved_paused_s_per_day,
        -finding.saved_moves,
        -(finding.saved_rack_misses or 0),
        finding.best.load_stddev - finding.recorded.load_stddev,
        finding.group,
    )
