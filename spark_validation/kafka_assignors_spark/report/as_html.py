"""The HTML report: one file without external parts, so that it can be mailed, archived and opened offline.

The tables are plain HTML with all figures; the plots need JavaScript. Names of
groups, clients and strategies are untrusted text: the template escapes all of it, data for the plots goes
through `_for_script`, and the page's content security policy allows only its own two scripts, and no request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from kafka_assignors_spark.folds.faults import FaultKind
from kafka_assignors_spark.options import RECORDED, Mode
from kafka_assignors_spark.report import plots
from kafka_assignors_spark.report.findings import (
    PLOTTED_GROUPS,
    GroupFinding,
    days_of,
    find,
    headline,
    in_order,
    leading_mode,
    moving_groups,
    period,
    sentence,
    totals,
)
from kafka_assignors_spark.result import (
    Churn,
    Culprit,
    GroupSummary,
    OwnershipSpan,
    ReplayResult,
    TableFile,
    TimelineRow,
    Verdict,
)
from kafka_assignors_spark.schemas import TABLES

__all__ = ["html_report"]

_SHOWN_GROUPS = 200
"""The greatest number of groups in the report: a report of thousands is too large to mail and to read."""

_BARS_FOR_GROUPS = 15
_SHOWN_CULPRITS = 20
_SHOWN_CHANGES = 20
_NOT_CHARGED = (FaultKind.DEPLOYMENT, FaultKind.SCALED)


@dataclass(frozen=True, slots=True)
class _StrategyRow:
    """One row of a group's table."""

    strategy: str
    verdicts: Mapping[Mode, Verdict]
    best: bool


@dataclass(frozen=True, slots=True)
class _GroupSection:
    """The section of one group."""

    summary: GroupSummary
    finding: GroupFinding | None
    sentence: str
    rows: tuple[_StrategyRow, ...]
    culprits: tuple[Culprit, ...]
    owned: tuple[OwnershipSpan, ...]
    latest_changes: tuple[tuple[OwnershipSpan, OwnershipSpan], ...]
    files: tuple[TableFile, ...]
    plotted: bool


def html_report(result: ReplayResult, folder: Path | None = None) -> str:
    """`result` as one HTML document for a file in `folder`: links to files are relative to it."""
    found = find(result)
    every = _sections(result, found)
    sections = every[:_SHOWN_GROUPS]
    blamed = sorted(
        (culprit for culprit in result.culprits if culprit.kind not in _NOT_CHARGED),
        key=lambda culprit: -culprit.generations,
    )
    script = _text("report.js")
    plotly = get_plotlyjs()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(when=_when, share=_share, ratio=_ratio)
    return environment.from_string(_text("report.html.j2")).render(
        RECORDED=RECORDED,
        result=result,
        history=result.history,
        mode=leading_mode(result),
        modes=[mode for mode in Mode if mode in result.options.modes],
        totals={mode: totals(result, mode) for mode in Mode},
        sections=sections,
        others=len(every) - len(sections),
        places={section.summary.group: f"group-{place}" for place, section in enumerate(sections)},
        suggested=[s for s in every if s.finding is not None and s.finding.suggests],
        headline=headline(found),
        tiles=_tiles(result, found),
        period=period(days_of(result.history)),
        not_replayed=_not_replayed(result.groups),
        blamed=blamed[:_SHOWN_CULPRITS],
        blameworthy=len(blamed),
        causes=_causes(result.churn),
        inferred=sorted({topic for summary in result.groups for topic in summary.inferred_topics}),
        made_again=sum(summary.incarnations - 1 for summary in result.groups),
        pauses=asdict(result.options.pauses),
        fault_rules=asdict(result.options.fault_rules),
        tables=TABLES,
        link=partial(_link, result.options.tables, folder),
        plotted_groups=PLOTTED_GROUPS,
        bars_for_groups=_BARS_FOR_GROUPS,
        figures=_for_script(_figures(result, found, sections)),
        style=Markup(_text("report.css")),
        script=Markup(script),
        plotly=Markup(plotly),
        script_hashes=" ".join(f"'{_csp_hash(source)}'" for source in (plotly, script)),
    )


@dataclass(frozen=True, slots=True)
class _Tile:
    """One of the figures at the top of the report; `good` is None for a figure that is neither."""

    title: str
    figure: str
    detail: str
    good: bool | None = None


def _tiles(result: ReplayResult, found: Sequence[GroupFinding]) -> tuple[_Tile, ...]:
    """The moves and pauses that the gains and trade-offs of all groups save, the check, and the groups."""
    moved, saved_moves = (sum(f.recorded.moved for f in found), sum(f.saved_moves for f in found))
    paused = sum(f.paused_s_per_day[0] for f in found)
    saved_paused = sum(f.saved_paused_s_per_day for f in found)
    changing, trading = sum(f.gains for f in found), sum(f.trades for f in found)
    truth = result.truth
    return (
        _Tile("Moves saved", f"{saved_moves:+,}", f"of {moved:,} moved partitions", _sign(saved_moves)),
        _Tile(
            "Pause saved (model)",
            f"{saved_paused:+,.0f} s",
            f"of {paused:,.0f} partition-seconds {period(days_of(result.history))}",
            _sign(round(saved_paused)),
        ),
        _Tile(
            "Accuracy check",
            "passes" if truth.holds else "fails",
            "recorded assignments, computed again",
            truth.holds,
        ),
        _Tile("Groups that gain", f"{changing:,}", f"of {len(result.groups):,}; {trading:,} trade-offs"),
    )


def _sign(figure: int) -> bool | None:
    return None if figure == 0 else figure > 0


def _sections(result: ReplayResult, found: Sequence[GroupFinding]) -> list[_GroupSection]:
    """A section for each group: the largest savings first, groups without a verdict last."""
    summaries = {summary.group: summary for summary in result.groups}
    by_group = {finding.group: finding for finding in found}
    verdicts: dict[str, dict[str, dict[Mode, Verdict]]] = defaultdict(lambda: defaultdict(dict))
    for verdict in result.verdicts:
        verdicts[verdict.group][verdict.strategy][verdict.mode] = verdict
    culprits: dict[str, list[Culprit]] = defaultdict(list)
    for culprit in result.culprits:
        culprits[culprit.group].append(culprit)
    files: dict[str, list[TableFile]] = defaultdict(list)
    for file in result.files:
        files[file.group].append(file)
    owned: dict[str, list[OwnershipSpan]] = defaultdict(list)
    for span in result.ownership:
        owned[span.group].append(span)
    order = [*by_group, *(name for name in summaries if name not in by_group)]
    sections = []
    for index, group in enumerate(name for name in order if name in summaries):
        finding = by_group.get(group)
        rows = tuple(
            _StrategyRow(
                name,
                verdicts[group][name],
                finding is not None and name in (finding.best.strategy, *finding.equals),
            )
            for name in in_order(verdicts[group], result)
        )
        text = sentence(finding, summaries[group]) if finding is not None else ""
        sections.append(
            _GroupSection(
                summaries[group],
                finding,
                text,
                rows,
                tuple(culprits[group]),
                tuple(owned[group]),
                tuple(reversed(plots.owner_changes(owned[group])[-_SHOWN_CHANGES:])),
                tuple(files[group]),
                finding is not None and index < PLOTTED_GROUPS,
            )
        )
    return sections


def _figures(
    result: ReplayResult, found: Sequence[GroupFinding], sections: Sequence[_GroupSection]
) -> dict[str, plots.Figure]:
    """The figures by the id of their element."""
    mode = leading_mode(result)
    rows: dict[str, list[TimelineRow]] = defaultdict(list)
    for row in result.timeline:
        if row.mode is mode:
            rows[row.group].append(row)
    recorded = [row for own in rows.values() for row in own if row.strategy == RECORDED]
    names = in_order({row.strategy for row in result.timeline}, result)
    moving = [finding for finding in found if finding.group in moving_groups(result)]
    leading = [verdict for verdict in result.verdicts if verdict.mode is mode]
    figures = {
        "moved-in-total": plots.moved_in_total(totals(result, mode)),
        "moved-by-group": plots.moved_by_group(moving[:_BARS_FOR_GROUPS], leading, names),
        "generations": plots.generations(
            recorded, [section.summary for section in sections[:PLOTTED_GROUPS]]
        ),
    }
    for index, section in enumerate(sections):
        if section.plotted:
            own = rows[section.summary.group]
            figures[f"moved-{index}"] = plots.moved_over_time(own, names)
            figures[f"balance-{index}"] = plots.balance_over_time(own, names)
        if section.owned:
            figures[f"owned-{index}"] = plots.ownership(section.owned)
    return figures


def _not_replayed(groups: Sequence[GroupSummary]) -> dict[str, int]:
    """The number of rebalances that were not replayed, by reason, the most frequent first."""
    reasons: dict[str, int] = defaultdict(int)
    for summary in groups:
        for reason, count in summary.not_replayed.items():
            reasons[reason] += count
    return dict(sorted(reasons.items(), key=lambda item: -item[1]))


def _causes(churn: Sequence[Churn]) -> dict[str, tuple[int, int]]:
    """For each cause the numbers of its generations and groups, the most frequent first."""
    by_cause: dict[str, list[int]] = defaultdict(list)
    for each in churn:
        by_cause[each.cause].append(each.generations)
    counted = {cause: (sum(counts), len(counts)) for cause, counts in by_cause.items()}
    return dict(sorted(counted.items(), key=lambda item: -item[1][0]))


def _for_script(value: Any) -> Markup:
    """JSON that can stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _csp_hash(source: str) -> str:
    digest = hashlib.sha256(source.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


_SCHEMES_THAT_RUN = frozenset({"javascript", "vbscript", "data"})
"""Schemes of links that a browser executes, or shows as a page of its own, instead of following."""


def _link(tables: str | None, folder: Path | None, file: str) -> str:
    """The link from the report to a file of the tables."""
    assert tables is not None
    whole = f"{tables.rstrip('/')}/{file}"
    scheme, elsewhere, _ = whole.partition("://")
    if elsewhere and scheme.lower() not in _SCHEMES_THAT_RUN:
        return quote(whole, safe=":/")
    # The dot prevents a browser from reading a folder's name as a scheme.
    return "./" + quote(os.path.relpath(whole, folder or Path.cwd()).replace(os.sep, "/"))


def _text(name: str) -> str:
    return resources.files("kafka_assignors_spark.report").joinpath(name).read_text(encoding="utf-8")


def _when(timestamp: datetime | None) -> str:
    return timestamp.strftime("%Y-%m-%d %H:%M:%S") if timestamp is not None else "–"


def _share(value: float) -> str:
    return f"{value:.1%}"


def _ratio(value: float) -> str:
    return f"{value:.2f}"
