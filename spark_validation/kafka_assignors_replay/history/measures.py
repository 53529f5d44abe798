"""The measures of a replay: of one rebalance under one strategy (`Measures`), and of several (`Verdict`).

A measure is declared here, with how it is summed and how reports show it. `group_replay` computes it. Both
reports, the terminal and policies take it from its field. `docs/replay.md` defines each measure.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints


class Mode(str, enum.Enum):
    """The starting point of each rebalance in a replay."""

    ONE_STEP = "one-step"
    """Each rebalance starts from the recorded owners before it."""

    STEADY_STATE = "steady-state"
    """Each rebalance starts from the strategy's own last assignment, as if it had been in use from the
    start."""


class Measures(NamedTuple):
    """One rebalance under one strategy; loads are partitions of a member.

    `rounds` counts the generations that the rebalance takes. Rack misses are None where no racks are known.
    `vacated` counts partitions whose owner had left. The paused partition-seconds are those of
    `history.pause_model`: as the strategy was replayed, if it had run eagerly, and if it had run
    cooperatively; None where it cannot.
    """

    partitions: int
    moved: int
    least_moved: int
    could_stay: int
    min_load: int
    max_load: int
    max_over_mean: float
    load_stddev: float
    rounds: int
    rack_misses: int | None
    least_rack_misses: int | None
    vacated: int
    paused_s: float
    paused_eager_s: float | None
    paused_cooperative_s: float | None


# Of several rebalances


class Rule(enum.Enum):
    """How the values of several rebalances, or of several groups, become one."""

    SUM = "the sum of the known values; None if none is known and the figure may be None"
    SUM_OF_ALL = "the sum; None if a value is unknown"
    MEAN = "the mean"
    MOST = "the greatest value"
    KEPT = "the partitions that stayed, of those that could have stayed"


class Figure(NamedTuple):
    """A figure of a `Verdict`: made `of` the measures of each rebalance, by default of the one with its own
    name, by `rule`.

    `judged` says whether a policy may have a rule about it, `in_totals` whether the totals of the JSON report
    have it. `title` is its name where a report compares two strategies; less is better. `unknown` is its
    value without any rebalance.
    """

    of: Callable[[Measures], Any] | None = None
    rule: Rule = Rule.SUM
    judged: bool = False
    in_totals: bool = False
    title: str = ""
    name: str = ""
    unknown: float | None = None

    @property
    def weight(self) -> str:
        """The figure by which a mean over verdicts is weighted."""
        return "could_stay" if self.rule is Rule.KEPT else "rebalances"

    @property
    def adds_up(self) -> bool:
        return self.rule in (Rule.SUM, Rule.SUM_OF_ALL)


def _spread(measures: Measures) -> int:
    return measures.max_load - measures.min_load


_MOVED = Figure(judged=True, in_totals=True, title="moved partitions")
_IF_IT_CAN = Figure(rule=Rule.SUM_OF_ALL, judged=True)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one strategy did on one group in one mode. `docs/replay.md` defines each figure.

    `stickiness` is 1.0 if no partition could have stayed, and `second_rounds` 0 for a strategy that runs
    eagerly. Rack misses are None where no racks are known, and the paused partition-seconds of a protocol
    under which the strategy cannot run; they come from a model (`history.pause_model`), not a measurement.
    `failures` gives the first few reasons of the `failed` rebalances, where the strategy raised or returned
    an invalid assignment.
    """

    group: str
    strategy: str
    mode: Mode
    rebalances: Annotated[int, Figure(lambda _: 1, in_totals=True)]
    generations: Annotated[int, Figure(lambda measures: measures.rounds)]
    moved: Annotated[int, _MOVED]
    least_moved: Annotated[int, Figure(in_totals=True)]
    could_stay: Annotated[int, Figure()]
    stickiness: Annotated[float, Figure(rule=Rule.KEPT, judged=True, in_totals=True)]
    max_over_mean: Annotated[float, Figure(None, Rule.MEAN, True, True, "fullest / mean")]
    worst_max_over_mean: Annotated[float, Figure(lambda each: each.max_over_mean, Rule.MOST, True, True)]
    max_minus_min: Annotated[float, Figure(_spread, Rule.MEAN, judged=True)]
    worst_max_minus_min: Annotated[int, Figure(_spread, Rule.MOST, judged=True)]
    load_stddev: Annotated[float, Figure(rule=Rule.MEAN, judged=True)]
    second_rounds: Annotated[int, Figure(lambda each: each.rounds > 1, judged=True, in_totals=True)]
    rack_misses: Annotated[int | None, _MOVED._replace(title="rack misses")]
    least_rack_misses: Annotated[int | None, Figure(in_totals=True)]
    vacated: Annotated[int, Figure()]
    paused_s: Annotated[float, _MOVED._replace(title="paused partition-seconds")]
    paused_eager_s: Annotated[float | None, _IF_IT_CAN]
    paused_cooperative_s: Annotated[float | None, _IF_IT_CAN]
    failed: int
    failures: tuple[str, ...]


def _figures() -> Iterator[Figure]:
    for name, hint in get_type_hints(Verdict, include_extras=True).items():
        for figure in getattr(hint, "__metadata__", ()):
            types = [*(get_args(hint.__origin__) or [hint.__origin__])]
            unknown = None if len(types) > 1 else 1.0 if figure.rule is Rule.KEPT else types[0]()
            yield figure._replace(name=name, unknown=unknown)


FIGURES = {figure.name: figure for figure in _figures()}
"""The figures of a verdict that are made of the measures of each rebalance, in its order."""


class Shown(NamedTuple):
    """A column of the reports. `format` is of `str.format`. In brackets is the figure `beside`, and the
    heading has its name, `beside_name`. The terminal has its own heading and format where they are given;
    if it is narrow, columns are left out, the greatest `leave_out` first, and 0 never.
    """

    heading: str
    format: str = "{:,}"
    beside: str = ""
    beside_name: str = ""
    on_terminal: bool = True
    terminal_heading: str = ""
    terminal_format: str = ""
    leave_out: int = 0

    @property
    def title(self) -> str:
        return f"{self.heading} ({self.beside_name})" if self.beside_name else self.heading


_PAUSED = "paused partition-seconds (model)"
_SHOWN = {
    "moved": Shown("moved", beside="least_moved", beside_name="least possible"),
    "stickiness": Shown("kept", "{:.1%}", terminal_format="{:.0%}", leave_out=3),
    "max_over_mean": Shown("fullest / mean", "{:.2f}", "worst_max_over_mean", "worst"),
    "second_rounds": Shown("second rounds", leave_out=6),
    "paused_s": Shown(_PAUSED, "{:,.0f}", terminal_heading="paused, s (model)", leave_out=1),
    "rack_misses": Shown("rack misses", "{:,}", "least_rack_misses", "least", on_terminal=False),
}

COLUMNS = [(FIGURES[name], shown) for name, shown in _SHOWN.items()]
"""The figures in the tables of the reports, in their order."""

_ADDED = [
    (each.name, each.of or attrgetter(each.name), each.rule)
    for each in FIGURES.values()
    if each.rule is not Rule.KEPT
]
_SHOWN_FAILURES = 5

_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+|'[^']*'|\"[^\"]*\"")
"""The parts that differ between texts of one kind of failure: numbers, addresses and quoted names."""


@dataclass(slots=True)
class Sums:
    """The figures of one strategy in one mode so far, by name; a mean is a sum here. Unknown ones are absent.

    `failures` has the first text of each kind, and how many there are of the kind. A rebalance in which the
    strategy failed counts only as its failure.
    """

    values: dict[str, Any] = field(default_factory=dict)
    failed: int = 0
    failures: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, measures: Measures) -> None:
        values = self.values
        first = not values
        for name, of, rule in _ADDED:
            value = of(measures)
            if value is None:
                if rule is Rule.SUM_OF_ALL:
                    values.pop(name, None)
            elif name in values:
                before = values[name]
                values[name] = max(before, value) if rule is Rule.MOST else before + value
            elif first or rule is not Rule.SUM_OF_ALL:
                values[name] = value + 0  # counts a truth as 1

    def fail(self, problem: str) -> None:
        self.failed += 1
        kind = _VARIES.sub("", problem)
        text, count = self.failures.get(kind, (problem, 0))
        if count or len(self.failures) < _SHOWN_FAILURES:
            self.failures[kind] = (text, count + 1)

    def verdict(self, group: str, strategy: str, mode: Mode) -> Verdict:
        """The verdict; its figures are zeros, or unknown, if the strategy failed every time."""
        failures = (
            text if count == 1 else f"{text} (and {count - 1} more of this kind)"
            for text, count in self.failures.values()
        )
        figures = {name: self._figure(each) for name, each in FIGURES.items()}
        return Verdict(group, strategy, mode, **figures, failed=self.failed, failures=tuple(failures))

    def _figure(self, figure: Figure) -> Any:
        weight = self.values.get(figure.weight, 0)
        if figure.rule is Rule.KEPT:
            return 1 - self.values["moved"] / weight if weight else figure.unknown
        if figure.rule is Rule.MEAN:
            return self.values[figure.name] / weight if weight else figure.unknown
        return self.values.get(figure.name, figure.unknown)


def total_of(strategy: str, mode: Mode, verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a strategy over several groups."""
    judged = [verdict for verdict in verdicts if verdict.rebalances]
    figures = {name: _total(each, judged) for name, each in FIGURES.items()}
    failed = sum(verdict.failed for verdict in verdicts)
    return Verdict("", strategy, mode, **figures, failed=failed, failures=())


def _total(figure: Figure, verdicts: Sequence[Verdict]) -> Any:
    values = [(value, each) for each in verdicts if (value := getattr(each, figure.name)) is not None]
    if not values or (figure.rule is Rule.SUM_OF_ALL and len(values) < len(verdicts)):
        return figure.unknown
    if figure.rule is Rule.MOST:
        return max(value for value, _ in values)
    if figure.adds_up:
        return sum(value for value, _ in values)
    weights = [getattr(each, figure.weight) for _, each in values]
    weighted = sum(value * weight for (value, _), weight in zip(values, weights, strict=True))
    return weighted / sum(weights) if sum(weights) else figure.unknown
