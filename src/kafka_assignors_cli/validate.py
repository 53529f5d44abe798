"""`kafka-assignors validate`: checks a replay against a policy, as a gate of CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from kafka_assignors_cli.console import (
    CannotRun,
    Column,
    ColumnKind,
    ExitCode,
    FittedTable,
    emit_renderable,
    note,
    printable,
)
from kafka_assignors_cli.files import (
    parse_toml,
    read_document,
    read_file,
    require_writable,
    write_file,
)
from kafka_assignors_cli.options import (
    GroupIds,
    JsonFile,
    Master,
    PauseParameters,
    StrictDecoding,
    add_current_directory,
    parse_parameters,
    split_names,
)
from kafka_assignors_cli.replay import run_replay_with_progress
from kafka_assignors_spark.policy import (
    GroupJudgement,
    Judgement,
    Outcome,
    Policy,
    PolicyError,
    Report,
    ReportError,
    Rule,
    RuleJudgement,
    judge,
    read_policy,
    read_report,
)
from kafka_assignors_spark.result import ReplayOptions, to_json

__all__ = ["EPILOG", "judgement_renderables", "judgement_to_json", "validate"]

EPILOG = """Examples:

kafka-assignors validate history/ --policy policy.toml

kafka-assignors replay history/ --json report.json && kafka-assignors validate report.json --policy \
policy.toml     (judged again without Spark)

A policy: max, min or both of a metric of a strategy, in groups, as a number or a multiple of something:

\\[\\[rule]]\n
name = "moves little more than it has to"\n
metric = "moved"\n
strategy = "cooperative-sticky"\n
groups = ["payments-*", "!payments-test"]\n
max = 1.1\n
relative_to = "least"

Exit codes: 0 all rules hold; 1 one is violated; 2 none is violated, but one could not be judged, or the \
policy cannot be read.
"""

_MOST_REPORT_BYTES = 2**30
"""The limit for a report. A replay of thousands of groups under all strategies writes some 400 MB."""


HistoryOrReport = Annotated[
    str,
    typer.Argument(
        metavar="HISTORY|REPORT.json",
        help="A history to replay (see replay --help), or a file that replay --json wrote.",
    ),
]
PolicyFile = Annotated[Path, typer.Option("--policy", "-p", metavar="FILE", help="The policy, in TOML.")]

_EXIT_CODES = {
    Outcome.HOLDS: ExitCode.OK,
    Outcome.VIOLATED: ExitCode.VERDICT_FAILED,
    Outcome.NOT_JUDGED: ExitCode.CANNOT_RUN,
}


def validate(
    *,
    history: HistoryOrReport,
    policy: PolicyFile,
    group: GroupIds = None,
    strict: StrictDecoding = False,
    pause: PauseParameters = None,
    json_file: JsonFile = None,
    master: Master = None,
) -> int:
    """Check the replay of a history against a policy: may this strategy go to production?"""
    rules = _policy(policy)
    if json_file is not None:
        require_writable(json_file)
    if history.endswith(".json"):
        given = (("--group", group), ("--strict", strict), ("--pause", pause))
        if meaningless := [name for name, value in given if value]:
            raise CannotRun(
                f"{', '.join(meaningless)} cannot change {history}, which was replayed already: "
                "give the history"
            )
        report = _written_report(Path(history))
    else:
        options = ReplayOptions(
            path=history,
            # A replay needs a strategy, also if all rules are about the recorded assignments.
            strategies=rules.strategies or ("cooperative-sticky",),
            modes=rules.modes,
            groups=split_names(group) if group else None,
            strict=strict,
            master=master,
            pauses=parse_parameters("--pause", pause, ReplayOptions().pauses),
        )
        report = read_report(to_json(run_replay_with_progress(options, "validate")))
    judgement = judge(rules, report)
    emit_renderable(*judgement_renderables(judgement, report))
    if json_file is not None:
        text = json.dumps(judgement_to_json(judgement, report, str(policy)), indent=1)
        write_file(json_file, text + "\n")
        note(f"wrote {json_file}")
    return _EXIT_CODES[judgement.outcome]


def _policy(path: Path) -> Policy:
    table = parse_toml(path, read_file(path))
    add_current_directory()
    try:
        return read_policy(table, str(path))
    except PolicyError as error:
        raise CannotRun(str(error)) from None


def _written_report(path: Path) -> Report:
    document = read_document("report", read_file(path, _MOST_REPORT_BYTES), str(path))
    try:
        return read_report(document, str(path))
    except ReportError as error:
        raise CannotRun(str(error)) from None


# ---- output

_FORMAT = 1
"""The version of the JSON form, which docs/validate.md describes. New keys may be added to it; every other
change needs a new number.
"""

_SHOWN_GROUPS = 5

_COLUMNS = (
    Column("rule", ColumnKind.WORDS),
    Column("what has to hold", ColumnKind.WORDS),
    Column("groups"),
    Column("verdict", ColumnKind.TOKEN),
)

_STYLES = {Outcome.HOLDS: "", Outcome.VIOLATED: "bold red", Outcome.NOT_JUDGED: "bold yellow"}


def judgement_renderables(judgement: Judgement, report: Report) -> list[RenderableType]:
    table = FittedTable(_COLUMNS, "Rules")
    lines: list[Text] = []
    for each in judgement.rules:
        table.add(
            [
                printable(each.rule.name),
                printable(_words(each.rule)),
                str(len(each.groups)),
                Text(each.outcome.value, style=_STYLES[each.outcome]),
            ]
        )
        lines += _lines(each)
    return [table, *lines, Text(_verdict(judgement, report), style="bold")]


def _lines(judged: RuleJudgement) -> list[Text]:
    name = printable(judged.rule.name)
    lines = [] if judged.reason is None else [Text(f"{name}: not judged: {printable(judged.reason)}")]
    not_holding = [each for each in judged.groups if each.outcome is not Outcome.HOLDS]
    # Violations first.
    not_holding.sort(key=lambda each: each.outcome is Outcome.NOT_JUDGED)
    lines += [
        Text(f"{name}: {printable(each.group)}: {printable(_found(each))}")
        for each in not_holding[:_SHOWN_GROUPS]
    ]
    if len(not_holding) > _SHOWN_GROUPS:
        lines.append(Text(f"{name}: and {len(not_holding) - _SHOWN_GROUPS} more groups"))
    return lines


def _found(judged: GroupJudgement) -> str:
    if judged.value is None:
        return f"not judged: {judged.reason}"
    bounds = [f"at least {_number(judged.low)}"] if judged.low is not None else []
    bounds += [f"at most {_number(judged.high)}"] if judged.high is not None else []
    return f"{_number(judged.value)}, and has to be {' and '.join(bounds)}"


def _words(rule: Rule) -> str:
    bounds = [f"≥ {_number(rule.min)}"] if rule.min is not None else []
    bounds += [f"≤ {_number(rule.max)}"] if rule.max is not None else []
    times = {None: "", "least": " × the least possible"}.get(rule.relative_to, f" × {rule.relative_to}")
    per = f" per {rule.per}" if rule.per else ""
    return f"{rule.metric}{per} of {rule.strategy} {' and '.join(bounds)}{times} ({rule.mode.value})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _verdict(judgement: Judgement, report: Report) -> str:
    counts = {outcome: sum(rule.outcome is outcome for rule in judgement.rules) for outcome in Outcome}
    said = f"{counts.pop(Outcome.HOLDS)} of {len(judgement.rules)} rules hold"
    said += "".join(f", {count} {outcome.value}" for outcome, count in counts.items() if count)
    word = {
        Outcome.HOLDS: "The policy holds",
        Outcome.VIOLATED: "The policy is violated",
        Outcome.NOT_JUDGED: "The policy could not be judged",
    }[judgement.outcome]
    return f"{word} on {printable(report.source)}: {said}."


def judgement_to_json(judgement: Judgement, report: Report, policy: str) -> dict[str, Any]:
    """The verdict as a JSON object; `policy` names the file of the policy."""
    return {
        "format": _FORMAT,
        "verdict": judgement.outcome.value,
        "policy": policy,
        "source": report.source,
        "rules": [_rule_to_json(each) for each in judgement.rules],
    }


def _rule_to_json(judged: RuleJudgement) -> dict[str, Any]:
    rule = judged.rule
    return {
        "name": rule.name,
        "verdict": judged.outcome.value,
        "reason": judged.reason,
        "metric": rule.metric,
        "strategy": rule.strategy,
        "mode": rule.mode.value,
        "min": rule.min,
        "max": rule.max,
        "relative_to": rule.relative_to,
        "per": rule.per,
        "groups": [
            {
                "group": each.group,
                "verdict": each.outcome.value,
                "value": each.value,
                "at_least": each.low,
                "at_most": each.high,
                "reason": each.reason,
            }
            for each in judged.groups
        ],
    }
