"""The JSON report: the whole result and the findings of the HTML report; the part of it that policies read.

Another program may have changed a report before it is read. So its figures are compared with each other, and
a report that no replay can have written is refused, not judged.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from kafka_assignors.arguments import UserError
from kafka_assignors.group_json import InvalidFieldError, Path
from kafka_assignors_replay.history.measures import FIGURES, Mode
from kafka_assignors_replay.report.findings import StrategyTotal, find, sentence, totals
from kafka_assignors_replay.result import RECORDED, ReplayResult, to_json

FORMAT = 1
"""The version of the schema, which docs/command-line.md describes. New keys leave it as it is; any other
change increments it.
"""


def json_report(result: ReplayResult) -> str:
    """`result` as a JSON document of one object, ending with a newline."""
    return "".join(f"{line}\n" for line in json_report_lines(result))


def json_report_lines(result: ReplayResult) -> Iterator[str]:
    """The document line by line, with a line for each entry of a list.

    A writer that takes one line after the other needs no memory for the report. Only the findings of all
    groups are in memory at once, since they are sorted by savings.
    """
    values: dict[str, object] = {
        "format": FORMAT,
        "findings": _findings(result),
        "totals": (_total(total) for mode in Mode for total in totals(result, mode)),
        **{each.name: getattr(result, each.name) for each in fields(result)},
    }
    *_, last = values
    yield "{"
    for name, value in values.items():
        end = "" if name == last else ","
        if isinstance(value, (Iterator, tuple)):
            yield f' "{name}": ['
            yield from _entries(value)
            yield f" ]{end}"
        else:
            yield f' "{name}": {json.dumps(to_json(value))}{end}'
    yield "}"


def _entries(values: Iterable[object]) -> Iterator[str]:
    """A line for each value, all but the last with a comma."""
    before: str | None = None
    for each in values:
        if before is not None:
            yield f"  {before},"
        before = json.dumps(to_json(each))
    if before is not None:
        yield f"  {before}"


def _total(total: StrategyTotal) -> dict[str, object]:
    verdict = total.verdict
    return {
        "strategy": verdict.strategy,
        "mode": verdict.mode,
        "groups": total.groups,
        **{each.name: getattr(verdict, each.name) for each in FIGURES.values() if each.in_totals},
        "failed": verdict.failed,
    }


def _findings(result: ReplayResult) -> Iterator[dict[str, object]]:
    """A finding names verdicts by strategy; the verdicts themselves are in the document already."""
    for finding in find(result):
        said: dict[str, object] = {"best": finding.best.strategy, "sentence": sentence(finding)}
        said["with_cooperative_consumer"] = finding.cooperative and finding.cooperative.strategy
        yield {name: said[name] if name in said else getattr(finding, name) for name in _OF_FINDING}


_OF_FINDING = (
    *("group", "mode", "best", "equals", "gains", "worse", "saved_moves", "saved_paused_s_per_day"),
    *("with_cooperative_consumer", "cooperative_paused_s_per_day", "saved_rack_misses", "better_balance"),
    "sentence",
)


_SECONDS_A_DAY = 86_400
_MOST = 2**63 - 1
"""The greatest figure of a replay: its sums are Spark's 64-bit integers."""

_ROUNDING = 1e-9

_FIGURES = {each.name: each.whole for each in FIGURES.values()} | {"failed": True}
"""The names of the figures of a verdict, and whether they are whole numbers."""


class ReportError(UserError):
    """The document is not the report of a replay."""


@dataclass(frozen=True, slots=True)
class ReportedGroup:
    """The replayed share of a group, and the days from its first record to its last."""

    rebalances: int
    replayed: int
    days: float


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """`verdicts` by group, strategy and mode; an unknown figure is None. `source` is the history that was
    read."""

    source: str
    groups: Mapping[str, ReportedGroup]
    verdicts: Mapping[tuple[str, str, Mode], Mapping[str, float | None]]
    strategies: frozenset[str]
    modes: frozenset[Mode]
    truth_holds: bool


def read_report(document: Any, where: str = "report") -> ReplayReport:
    """The report in a JSON document, as `replay --json` writes it or `result.to_json` makes it.

    `ReportError` names `where` if the document is no report, and the place of a value that no replay can have
    written.
    """
    if not isinstance(document, Mapping) or not {"options", "groups", "verdicts", "truth"} <= document.keys():
        raise ReportError(f"{where}: not a report of `kafka-assignors replay --json`")
    version = document.get("format", FORMAT)
    if version != FORMAT:
        raise ReportError(f"{where}: a report of format {_shown(version)}, and this release reads {FORMAT}")
    try:
        return _report(_Value(document, ()))
    except InvalidFieldError as error:
        raise ReportError(f"{where}: {error}") from None


def _report(document: _Value) -> ReplayReport:
    options = document["options"]
    strategies = frozenset((RECORDED, *(each.text() for each in options["strategies"].items())))
    known = [mode.value for mode in Mode]
    modes = frozenset(Mode(each.text(known)) for each in options["modes"].items())
    groups: dict[str, ReportedGroup] = {}
    for each in document["groups"].items():
        name = each["group"].text()
        if name in groups:
            raise each["group"].refusal(f"{name!r} appears twice")
        groups[name] = _group(each)
    verdicts: dict[tuple[str, str, Mode], Mapping[str, float | None]] = {}
    for each in document["verdicts"].items():
        group, mode = each["group"].text(groups), Mode(each["mode"].text(modes))
        key = (group, each["strategy"].text(strategies), mode)
        if key in verdicts:
            raise each.refusal(f"there are two verdicts on {key[1]} in {group!r} ({mode.value})")
        verdicts[key] = _figures(each, groups[group])
    return ReplayReport(
        source=document["history"]["source"].text(),
        groups=groups,
        verdicts=verdicts,
        strategies=strategies,
        modes=modes,
        truth_holds=document["truth"]["holds"].boolean(),
    )


def _group(group: _Value) -> ReportedGroup:
    rebalances, replayed = group["rebalances"].count(), group["replayed_rebalances"].count()
    group["replayed_rebalances"].at_most(rebalances, "rebalances")
    first, last = group["first_timestamp"].time(), group["last_timestamp"].time()
    if last < first:
        raise group["last_timestamp"].refusal("is before first_timestamp")
    return ReportedGroup(rebalances, replayed, (last - first).total_seconds() / _SECONDS_A_DAY)


def _figures(verdict: _Value, group: ReportedGroup) -> Mapping[str, float | None]:
    rebalances, failed = verdict["rebalances"].count(), verdict["failed"].count()
    if rebalances + failed > group.rebalances:
        raise verdict["rebalances"].refusal(
            f"with {failed} failed ones {rebalances} are more than the {group.rebalances} there were"
        )
    figures = {name: verdict[name].figure(whole) for name, whole in _FIGURES.items()}
    verdict["second_rounds"].at_most(rebalances, "rebalances")
    verdict["stickiness"].at_most(1, "1")
    for smaller, greater in (
        ("moved", "could_stay"),
        ("max_over_mean", "worst_max_over_mean"),
        ("max_minus_min", "worst_max_minus_min"),
    ):
        verdict[smaller].at_most(figures[greater], greater)
    return figures


@dataclass(frozen=True, slots=True)
class _Value:
    """A JSON value, with a method for each expected type; `path` is its place in the document."""

    value: Any
    path: Path

    def refusal(self, problem: str) -> InvalidFieldError:
        return InvalidFieldError(self.path, problem)

    def _of(self, kind: Any, what: str) -> Any:
        if not isinstance(self.value, kind):
            raise self.refusal(f"expected {what}, found {_shown(self.value)}")
        return self.value

    def __getitem__(self, key: str) -> _Value:
        """The value of a key of an object; null if the key is missing."""
        return _Value(self._of(Mapping, "an object").get(key), (*self.path, key))

    def items(self) -> list[_Value]:
        return [
            _Value(each, (*self.path, index)) for index, each in enumerate(self._of((list, tuple), "a list"))
        ]

    def text(self, known: Collection[str] | None = None) -> str:
        text: str = self._of(str, "a text")
        if known is not None and text not in known:
            raise self.refusal(f"{text!r} is not among those of this report")
        return text

    def boolean(self) -> bool:
        value: bool = self._of(bool, "true or false")
        return value

    def time(self) -> datetime:
        text = self.text()
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            time = datetime.min
        if time.tzinfo is None:
            raise self.refusal(f"expected a time with its time zone, found {reprlib.repr(text)}")
        return time

    def count(self) -> int:
        value = self.figure(whole=True)
        if value is None:
            raise self.refusal("is missing")
        return int(value)

    def figure(self, whole: bool) -> float | None:
        """The figure; None if it is null, or missing because an older release wrote the report."""
        value: float | None = self.value
        if value is None:
            return None
        if type(value) not in ((int,) if whole else (int, float)) or not 0 <= value <= _MOST:
            kind = "a whole number" if whole else "a number"
            raise self.refusal(f"expected {kind} from 0 to 2^63 - 1, found {_shown(value)}")
        return value

    def at_most(self, most: float | None, other: str) -> None:
        """Refuse a figure above `most`, which is the figure `other`; unknown figures pass."""
        value = self.value
        if value is not None and most is not None and value > most + _ROUNDING * max(1.0, most):
            figure = "" if other == f"{most:g}" else f", {most:g}"
            raise self.refusal(f"{value:g} is more than {other}{figure}")


def _shown(value: Any) -> str:
    # Python does not print integers of thousands of digits.
    too_long = type(value) is int and not -_MOST <= value <= _MOST
    return "an integer of more than 64 bits" if too_long else reprlib.repr(value)
