"""The measures of a replay: of one rebalance under one strategy (`Measures`), and of several (`Verdict`).

A measure is declared here, with how it is summed and how reports show it. `group_replay` computes it. The
tables `replayed` and `metrics`, both reports, the terminal and policies take it from its field.
`docs/replay.md` defines each measure.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
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


_NOT_ON_TIMELINE = ("rounds", "least_rack_misses", "vacated", "paused_eager_s", "paused_cooperative_s")

ON_TIMELINE = tuple(name for name in Measures._fields if name not in _NOT_ON_TIMELINE)
"""The measures that the timeline of the JSON report has."""


# Of several rebalances


class Rule(enum.Enum):
    """How the values of several rebalances, or of several groups, become one."""

    SUM = "the sum of the known values; None if none is known and the figure may be None"
    SUM_OF_ALL = "the sum; None if a value is unknown"
    MEAN = "the mean"
    MOST = "the greatest value"
    KEPT = "the partitions that stayed, of those that could have stayed"


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


class Figure(NamedTuple):
    """A figure of a `Verdict`: made `of` the measures of each rebalance, by default of the one with its own
    name, by `rule`.

    `judged` says whether a policy may have a rule about it, `in_totals` whether the totals of the JSON report
    have it. `title` is its name where a report compares two strategies; less is better. `whole` and
    `optional` are of its type.
    """

    of: Callable[[Measures], Any] | None = None
    rule: Rule = Rule.SUM
    judged: bool = False
    in_totals: bool = False
    title: str = ""
    shown: Shown | None = None
    name: str = ""
    whole: bool = False
    optional: bool = False

    @property
    def weight(self) -> str:
        """The figure by which a mean over verdicts is weighted."""
        return "could_stay" if self.rule is Rule.KEPT else "rebalances"

    @property
    def adds_up(self) -> bool:
        return self.rule in (Rule.SUM, Rule.SUM_OF_ALL)

    @property
    def unknown(self) -> float | None:
        """The value without any rebalance."""
        return None if self.optional else 0 if self.whole else 1.0 if self.rule is Rule.KEPT else 0.0


def _spread(measures: Measures) -> int:
    return measures.max_load - measures.min_load


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
    moved: Annotated[
        int,
        Figure(
            judged=True,
            in_totals=True,
            title="moved partitions",
            shown=Shown("moved", beside="least_moved", beside_name="least possible"),
        ),
    ]
    least_moved: Annotated[int, Figure(in_totals=True)]
    could_stay: Annotated[int, Figure()]
    stickiness: Annotated[
        float,
        Figure(
            rule=Rule.KEPT,
            judged=True,
            in_totals=True,
            shown=Shown("kept", "{:.1%}", terminal_format="{:.0%}", leave_out=3),
        ),
    ]
    max_over_mean: Annotated[
        float,
        Figure(
            rule=Rule.MEAN,
            judged=True,
            in_totals=True,
            title="fullest / mean",
            shown=Shown("fullest / mean", "{:.2f}", "worst_max_over_mean", "worst"),
        ),
    ]
    worst_max_over_mean: Annotated[
        float, Figure(lambda measures: measures.max_over_mean, Rule.MOST, judged=True, in_totals=True)
    ]
    max_minus_min: Annotated[float, Figure(_spread, Rule.MEAN, judged=True)]
    worst_max_minus_min: Annotated[int, Figure(_spread, Rule.MOST, judged=True)]
    load_stddev: Annotated[float, Figure(rule=Rule.MEAN, judged=True)]
    second_rounds: Annotated[
        int,
        Figure(
            lambda measures: measures.rounds > 1,
            judged=True,
            in_totals=True,
            shown=Shown("second rounds", leave_out=6),
        ),
    ]
    rack_misses: Annotated[
        int | None,
        Figure(
            judged=True,
            in_totals=True,
            title="rack misses",
            shown=Shown("rack misses", beside="least_rack_misses", beside_name="least", on_terminal=False),
        ),
    ]
    least_rack_misses: Annotated[int | None, Figure(in_totals=True)]
    vacated: Annotated[int, Figure()]
    paused_s: Annotated[
        float,
        Figure(
            judged=True,
            in_totals=True,
            title="paused partition-seconds",
            shown=Shown(
                "paused partition-seconds (model)",
                "{:,.0f}",
                terminal_heading="paused, s (model)",
                leave_out=1,
            ),
        ),
    ]
    paused_eager_s: Annotated[float | None, Figure(rule=Rule.SUM_OF_ALL, judged=True)]
    paused_cooperative_s: Annotated[float | None, Figure(rule=Rule.SUM_OF_ALL, judged=True)]
    failed: int
    failures: tuple[str, ...]


FIGURES: dict[str, Figure] = {
    name: figure._replace(name=name, whole=int in types, optional=type(None) in types)
    for name, hint in get_type_hints(Verdict, include_extras=True).items()
    for figure in getattr(hint, "__metadata__", ())
    for types in [(hint.__origin__, *get_args(hint.__origin__))]
}
"""The figures of a verdict that are made of the measures of each rebalance, in its order."""

COLUMNS = [
    (FIGURES[name], shown)
    for name in ("moved", "stickiness", "max_over_mean", "second_rounds", "paused_s", "rack_misses")
    if (shown := FIGURES[name].shown) is not None
]
"""The figures in the tables of the reports, in their order."""

_ADDED = [
    (name, each.of or attrgetter(name), each.rule, each.whole)
    for name, each in FIGURES.items()
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

    counts: dict[str, int] = field(default_factory=dict)
    amounts: dict[str, float] = field(default_factory=dict)
    failed: int = 0
    failures: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, measures: Measures) -> None:
        first = not self.counts
        for name, of, rule, whole in _ADDED:
            value = of(measures)
            sums: dict[str, Any] = self.counts if whole else self.amounts
            if value is None:
                if rule is Rule.SUM_OF_ALL:
                    sums.pop(name, None)
            elif name in sums:
                before = sums[name]
                sums[name] = max(before, value) if rule is Rule.MOST else before + value
            elif first or rule is not Rule.SUM_OF_ALL:
                sums[name] = value + 0  # counts a truth as 1

    def fail(self, problem: str) -> None:
        self.failed += 1
        kind = _VARIES.sub("", problem)
        text, count = self.failures.get(kind, (problem, 0))
        if count or len(self.failures) < _SHOWN_FAILURES:
            self.failures[kind] = (text, count + 1)

    def verdict(self, group: str, strategy: str, mode: Mode) -> Verdict:
        """The verdict; its figures are zeros, or unknown, if the strategy failed every time."""
        return Verdict(
            group,
            strategy,
            mode,
            **{name: self._figure(each) for name, each in FIGURES.items()},
            failed=self.failed,
            failures=tuple(
                text if count == 1 else f"{text} (and {count - 1} more of this kind)"
                for text, count in self.failures.values()
            ),
        )

    def _figure(self, figure: Figure) -> Any:
        weight = self.counts.get(figure.weight, 0)
        if figure.rule is Rule.KEPT:
            return 1 - self.counts.get("moved", 0) / weight if weight else figure.unknown
        value = self.counts.get(figure.name) if figure.whole else self.amounts.get(figure.name)
        if value is None:
            return figure.unknown
        if figure.rule is Rule.MEAN:
            return value / weight if weight else figure.unknown
        return value


def total_of(strategy: str, mode: Mode, verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a strategy over several groups."""
    judged = [verdict for verdict in verdicts if verdict.rebalances]
    return Verdict(
        "",
        strategy,
        mode,
        **{name: _total(each, judged) for name, each in FIGURES.items()},
        failed=sum(verdict.failed for verdict in verdicts),
        failures=(),
    )


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
