"""The JSON report: the whole result, and the findings of the HTML report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields

from kafka_assignors_spark.options import Mode
from kafka_assignors_spark.report.findings import GroupFinding, find, sentence, totals
from kafka_assignors_spark.result import ReplayResult, to_json

__all__ = ["FORMAT", "json_report", "json_report_lines"]

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
    summaries = {summary.group: summary for summary in result.groups}
    for each in find(result):
        yield {**_finding_to_json(each), "sentence": sentence(each, summaries.get(each.group))}


def _finding_to_json(finding: GroupFinding) -> dict[str, object]:
    """A finding names verdicts by strategy; the verdicts themselves are in the document already."""
    return {
        "group": finding.group,
        "mode": finding.mode.value,
        "best": finding.best.strategy,
        "equals": list(finding.equals),
        "gains": finding.gains,
        "worse": list(finding.worse),
        "saved_moves": finding.saved_moves,
        "saved_paused_s_per_day": finding.saved_paused_s_per_day,
        "with_cooperative_consumer": finding.cooperative and finding.cooperative.strategy,
        "cooperative_paused_s_per_day": finding.cooperative_paused_s_per_day,
        "saved_rack_misses": finding.saved_rack_misses,
        "better_balance": finding.better_balance,
    }
