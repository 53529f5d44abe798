"""The HTML report: one file without external parts, so that it can be mailed, archived and opened offline.

Tables and bars are plain HTML; the one script opens the group that a link leads to. Names of groups,
clients and strategies are untrusted text: the templates escape all of it, and the page's content security
policy allows only its own script, and no request.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from importlib import resources
from operator import attrgetter, itemgetter
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from kafka_assignors_replay.history.measures import COLUMNS, Mode
from kafka_assignors_replay.report.findings import (
    GroupFinding,
    days_of,
    find,
    grouped,
    headline,
    leading_mode,
    period,
    reasons_not_replayed,
    restoring,
    strategies_in_order,
    totals,
    verdicts_by_group,
)
from kafka_assignors_replay.result import RECORDED, GroupSummary, ReplayResult

_SHOWN_GROUPS = 200
"""The greatest number of groups in the report: a report of thousands is too large to mail and to read."""

_SHOWN_FINDINGS = 10
"""Changes in the first list; the others are in the table behind its expander."""

_SHOWN_CULPRITS = 20


def html_report(result: ReplayResult) -> str:
    """`result` as one HTML document."""
    found = find(result)
    sections = _sections(result, found)
    script = _text("report.js")
    environment = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(when=_when, signed=_signed, shell=shlex.quote)
    mode = leading_mode(result)
    return environment.get_template("report.html.j2").render(
        RECORDED=RECORDED,
        result=result,
        mode=mode,
        columns=COLUMNS,
        modes=sorted((each for each in Mode if each in result.options.modes), key=lambda each: each != mode),
        totals={each: totals(result, each) for each in Mode},
        sections=sections,
        shown_findings=_SHOWN_FINDINGS,
        others=len(result.groups) - len(sections),
        places={section["summary"].group: f"group-{place}" for place, section in enumerate(sections)},
        headline=headline(found),
        restoring=restoring(result, mode),
        found=found,
        period=period(days_of(result.history)),
        not_replayed=reasons_not_replayed(result.groups),
        shown_culprits=_SHOWN_CULPRITS,
        causes=_causes(result.groups),
        inferred=sorted({topic for summary in result.groups for topic in summary.inferred_topics}),
        pauses=asdict(result.options.pauses),
        style=Markup(_text("report.css")),
        script=Markup(script),
        script_hash=f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'",
    )


def _printable(value: object) -> object:
    """Text as a terminal shows it: a reader copies names from the page, and some characters reorder text."""
    if type(value) is not str:
        return value
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in value)


def _signed(figure: float, digits: int = 0) -> str:
    """`figure` with its sign; a minus as wide as the plus."""
    return f"{figure:+,.{digits}f}".replace("-", "−") if round(figure, digits) else "0"


def _sections(result: ReplayResult, found: Sequence[GroupFinding]) -> list[dict[str, Any]]:
    """The content of the sections of groups: the largest savings first, groups without a verdict last."""
    summaries = {summary.group: summary for summary in result.groups}
    by_group = {finding.group: finding for finding in found}
    verdicts = verdicts_by_group(result.verdicts)
    mode = leading_mode(result)
    culprits = grouped(result.culprits, attrgetter("group"))
    order = [name for name in by_group if name in summaries]
    order += [name for name in summaries if name not in by_group]
    sections = []
    for group in order[:_SHOWN_GROUPS]:
        finding = by_group.get(group)
        own = {name: verdicts[group][name] for name in strategies_in_order(verdicts[group], result)}
        leading = [by_mode[mode] for by_mode in own.values() if mode in by_mode]
        sections.append(
            {
                "summary": summaries[group],
                "finding": finding,
                "verdicts": own,
                "best": () if finding is None else (finding.best.strategy, *finding.equals),
                "culprits": culprits[group],
                "leading": [verdict for verdict in leading if verdict.rebalances],
            }
        )
    return sections


def _causes(groups: Sequence[GroupSummary]) -> dict[str, tuple[int, int]]:
    """The number of generations and of groups for each cause, the most frequent cause first."""
    by_cause = grouped((item for group in groups for item in group.causes.items()), itemgetter(0))
    counted = {cause: (sum(count for _, count in of), len(of)) for cause, of in by_cause.items()}
    return dict(sorted(counted.items(), key=lambda item: -item[1][0]))


def _text(name: str) -> str:
    return resources.files("kafka_assignors_replay.report").joinpath(name).read_text(encoding="utf-8")


def _when(timestamp: datetime | None) -> str:
    return timestamp.strftime("%Y-%m-%d %H:%M:%S") if timestamp is not None else "–"
