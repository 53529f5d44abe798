"""The JSON report: the whole result, and the findings of the HTML report."""

from __future__ import annotations

import json

from kafka_assignors_spark.options import Mode
from kafka_assignors_spark.report.findings import GroupFinding, find, sentence, totals
from kafka_assignors_spark.result import ReplayResult, to_json

__all__ = ["FORMAT", "json_report"]

FORMAT = 1
"""The version of the schema, which docs/command-line.md describes. New keys leave it as it is; any other
change increments it.
"""


def json_report(result: ReplayResult) -> str:
    """`result` as a JSON document of one object, ending with a newline."""
    summaries = {summary.group: summary for summary in result.groups}
    document = {
        "format": FORMAT,
        "findings": [
            {**_finding_to_json(each), "sentence": sentence(each, summaries.get(each.group))}
            for each in find(result)
        ],
        "totals": [to_json(total) for mode in Mode for total in totals(result, mode)],
        **to_json(result),
    }
    return json.dumps(document, indent=1) + "\n"


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
