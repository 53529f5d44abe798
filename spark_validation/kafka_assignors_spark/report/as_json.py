"""The JSON report: the whole result and the findings of the HTML report, and what policies read of it.

Other programs may have changed a report that is read. So its figures are compared with each other, and a
report that no replay can have written is refused, not judged.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from kafka_assignors.group_json import InvalidFieldError, Path
from kafka_assignors_spark.report.findings import find, sentence, totals
from kafka_assignors_spark.result import RECORDED, Mode, ReplayResult, Verdict, to_json

FORMAT = 1
"""The version of the schema, which docs/command-line.md describes. New keys leave it as it is; any other
change increments it.
"""


def json_report(result: ReplayResult) -> str:
    """`result` as a JSON document of one object, ending with a newline."""
    return "".join(f"{line}\n" for line in json_report_lines(result))


def json_report_lines(result: ReplayResult) -> Iterator[str]:
    """The document line by line, with a line for each entry of a list.

    A writer that takes one line after the other needs no memory for the report. Of all groups there are only
    the findings at one time, since the largest savings come first.
    """
    values: dict[str, object] = {
        "format": FORMAT,
        "findings": _findings(result),
        "totals": (total for mode in Mode for total in totals(result, mode)),
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


def _findings(result: ReplayResult) -> Iterator[dict[str, object]]:
    """A finding names verdicts by strategy; the verdicts themselves are in the document already."""
    summaries = {summary.group: summary for summary in result.groups}
    for finding in find(result):
        yield {
            "group": finding.group,
            "mode": finding.mode,
            "best": finding.best.strategy,
            "equals": finding.equals,
            "gains": finding.gains,
            "worse": finding.worse,
            "saved_moves": finding.saved_moves,
            "saved_paused_s_per_day": finding.saved_paused_s_per_day,
            "with_cooperative_consumer": finding.cooperative and finding.cooperative.strategy,
            "cooperative_paused_s_per_day": finding.cooperative_paused_s_per_day,
            "saved_rack_misses": finding.saved_rack_misses,
            "better_balance": finding.better_balance,
            "sentence": sentence(finding, summaries.get(finding.group)),
        }


_SECONDS_A_DAY = 86_400
_MOST = 2**63 - 1
"""The greatest figure of a replay: its sums are Spark's 64-bit integers."""

_ROUNDING = 1e-9

_FIGURES = {
    each.name: str(each.type).startswith("int")
    for each in fields(Verdict)
    if each.name not in ("group", "strategy", "mode", "failures")
}
"""The names of the figures of a verdict, and whether they are whole numbers."""


class ReportError(ValueError):
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
        return _report(_Object(document, ()))
    except InvalidFieldError as error:
        raise ReportError(f"{where}: {error}") from None


def _report(document: _Object) -> ReplayReport:
    options = document.object("options")
    strategies = frozenset((RECORDED, *options.texts("strategies")))
    modes = frozenset(map(Mode, options.texts("modes", tuple(mode.value for mode in Mode))))
    groups: dict[str, ReportedGroup] = {}
    for each in document.objects("groups"):
        name = each.text("group")
        if name in groups:
            raise each.refusal("group", f"{name!r} appears twice")
        groups[name] = _group(each)
    verdicts: dict[tuple[str, str, Mode], Mapping[str, float | None]] = {}
    for each in document.objects("verdicts"):
        group = each.text("group", groups)
        key = (group, each.text("strategy", strategies), Mode(each.text("mode", modes)))
        if key in verdicts:
            raise each.refusal(None, f"there are two verdicts on {key[1]} in {group!r} ({key[2].value})")
        verdicts[key] = _figures(each, groups[group])
    return ReplayReport(
        source=document.object("history").text("source"),
        groups=groups,
        verdicts=verdicts,
        strategies=strategies,
        modes=modes,
        truth_holds=document.object("truth").boolean("holds"),
    )


def _group(group: _Object) -> ReportedGroup:
    rebalances, replayed = group.count("rebalances"), group.count("replayed_rebalances")
    group.at_most("replayed_rebalances", replayed, "rebalances", rebalances)
    first, last = group.time("first_timestamp"), group.time("last_timestamp")
    if last < first:
        raise group.refusal("last_timestamp", "is before first_timestamp")
    return ReportedGroup(rebalances, replayed, (last - first).total_seconds() / _SECONDS_A_DAY)


def _figures(verdict: _Object, group: ReportedGroup) -> Mapping[str, float | None]:
    rebalances, failed = verdict.count("rebalances"), verdict.count("failed")
    if rebalances + failed > group.rebalances:
        raise verdict.refusal(
            "rebalances",
            f"with {failed} failed ones {rebalances} are more than the {group.rebalances} there were",
        )
    figures = {name: verdict.figure(name, whole) for name, whole in _FIGURES.items()}
    verdict.at_most("second_rounds", figures["second_rounds"], "rebalances", rebalances)
    verdict.at_most("stickiness", figures["stickiness"], "1", 1)
    for smaller, greater in (
        ("moved", "could_stay"),
        ("max_over_mean", "worst_max_over_mean"),
        ("max_minus_min", "worst_max_minus_min"),
    ):
        verdict.at_most(smaller, figures[smaller], greater, figures[greater])
    return figures


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object with a method for each type of value; `path` leads to it."""

    values: Mapping[str, Any]
    path: Path

    def refusal(self, key: str | None, problem: str) -> InvalidFieldError:
        return InvalidFieldError(self.path if key is None else (*self.path, key), problem)

    def object(self, key: str) -> _Object:
        return _object(self.values.get(key), (*self.path, key))

    def objects(self, key: str) -> list[_Object]:
        return [_object(each, (*self.path, key, index)) for index, each in enumerate(self._list(key))]

    def texts(self, key: str, known: Collection[str] | None = None) -> list[str]:
        values = self._list(key)
        for index, value in enumerate(values):
            _text(value, (*self.path, key, index), known)
        return values

    def text(self, key: str, known: Collection[str] | None = None) -> str:
        return _text(self.values.get(key), (*self.path, key), known)

    def boolean(self, key: str) -> bool:
        value = self.values.get(key)
        if not isinstance(value, bool):
            raise self.refusal(key, f"expected true or false, found {_shown(value)}")
        return value

    def time(self, key: str) -> datetime:
        text = self.text(key)
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            time = datetime.min
        if time.tzinfo is None:
            raise self.refusal(key, f"expected a time with its time zone, found {reprlib.repr(text)}")
        return time

    def count(self, key: str) -> int:
        value = self.figure(key, whole=True)
        if value is None:
            raise self.refusal(key, "is missing")
        return int(value)

    def figure(self, key: str, whole: bool) -> float | None:
        """None if it is unknown: it is null, or not there because an older release wrote the report."""
        value: float | None = self.values.get(key)
        if value is None:
            return None
        if type(value) not in ((int,) if whole else (int, float)) or not 0 <= value <= _MOST:
            kind = "a whole number" if whole else "a number"
            raise self.refusal(key, f"expected {kind} from 0 to 2^63 - 1, found {_shown(value)}")
        return value

    def at_most(self, key: str, value: float | None, other: str, most: float | None) -> None:
        if value is not None and most is not None and value > most + _ROUNDING * max(1.0, most):
            raise self.refusal(
                key, f"{value:g} is more than {other}" + (f", {most:g}" * (other != f"{most:g}"))
            )

    def _list(self, key: str) -> list[Any]:
        value = self.values.get(key)
        if not isinstance(value, (list, tuple)):
            raise self.refusal(key, f"expected a list, found {_shown(value)}")
        return list(value)


def _object(value: Any, path: Path) -> _Object:
    if not isinstance(value, Mapping):
        raise InvalidFieldError(path, f"expected an object, found {_shown(value)}")
    return _Object(value, path)


def _text(value: Any, path: Path, known: Collection[str] | None = None) -> str:
    if not isinstance(value, str):
        raise InvalidFieldError(path, f"expected a text, found {_shown(value)}")
    if known is not None and value not in known:
        raise InvalidFieldError(path, f"{value!r} is not among those of this report")
    return value


def _shown(value: Any) -> str:
    # Python does not print integers of thousands of digits.
    too_long = type(value) is int and not -_MOST <= value <= _MOST
    return "an integer of more than 64 bits" if too_long else reprlib.repr(value)
