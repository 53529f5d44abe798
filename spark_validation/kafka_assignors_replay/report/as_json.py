"""The JSON report: the whole result, and the findings of the HTML report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields

from kafka_assignors_replay.history.measures import FIGURES, Mode
from kafka_assignors_replay.report.findings import StrategyTotal, find, totals
from kafka_assignors_replay.result import ReplayResult, to_json

FORMAT = 1
"""The version of the schema, which docs/command-line.md describes; a new key leaves it as it is."""


def json_report_lines(result: ReplayResult) -> Iterator[str]:
    """`result` as one JSON object, with a line for each entry of a list: a writer needs no memory for it."""
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
    before = ""
    for each in values:
        if before:
            yield f"{before},"
        before = f"  {json.dumps(to_json(each))}"
    if before:
        yield before


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
        cooperative = finding.cooperative and finding.cooperative.strategy
        said = {"best": finding.best.strategy, "with_cooperative_consumer": cooperative}
        yield {name: said[name] if name in said else getattr(finding, name) for name in _OF_FINDING}


_OF_FINDING = (
    *("group", "mode", "best", "equals", "gains", "worse", "saved_moves", "saved_paused_s_per_day"),
    *("with_cooperative_consumer", "cooperative_paused_s_per_day", "saved_rack_misses", "better_balance"),
)
