"""`kafka-assignors lint`: is a change of strategy safe to roll, and do these members fit together?"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kafka_assignors.arguments import UserError
from kafka_assignors.group import some_of
from kafka_assignors_cli import options
from kafka_assignors_cli.console import ExitCode, indented, printable
from kafka_assignors_cli.output_files import CiCase, CiFormats, CiOutcome
from kafka_assignors_confluent.connection import Connection
from kafka_assignors_ops.cluster import read_groups, unreadable
from kafka_assignors_ops.lint import RULES, LintReport, lint
from kafka_assignors_ops.lint.members import InvalidSettingError, live_members, member_config, strategy_use
from kafka_assignors_ops.lint.rules import (
    Client,
    LintFacts,
    LintFinding,
    MemberConfig,
    Severity,
    StrategyUse,
    Version,
)
from kafka_assignors_ops.live_group import CLASSIC, LiveGroup
from kafka_assignors_ops.settings_file import read_settings

EPILOG = """Examples:

kafka-assignors lint consumer-a.properties consumer-b.toml

kafka-assignors lint consumer.toml --before deployed/consumer.toml

kafka-assignors lint consumer.toml --change-to cooperative-sticky

kafka-assignors lint --bootstrap-server broker:9092 --group orders --change-to cooperative-sticky,range

kafka-assignors lint consumer.toml --bootstrap-server broker:9092 --group orders

A file describes one kind of member, in its client's own words:  client = "aiokafka"  \
client_version = "0.14.0"  partition_assignment_strategy = ["sticky"]  session_timeout_ms = 45000

Exit codes: 0 no finding of severity error; 1 there is one (with --strict: or a warning); 2 could not judge.
"""


Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE…", help="One kind of member each: properties, TOML or JSON."),
]
Before = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A kind of member as it runs today; may be repeated."),
]
ChangeTo = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,…",
        help="Judge a change of every member to this list; the preferred strategy first.",
    ),
]
GroupId = Annotated[
    str | None, options.cluster_option("--group", "-g", metavar="ID", help="The running group.")
]
From = Annotated[
    list[str] | None,
    options.cluster_option(
        "--from",
        metavar="NAME,…",
        help="The list of the group's members today, if it has more than the strategy in use: brokers do not "
        "show it.",
    ),
]
Ignore = Annotated[list[str] | None, options.output_option(metavar="RULE,…", help="Skip these rules.")]
Strict = Annotated[bool, typer.Option("--strict", help="Fail on warnings, too.", rich_help_panel="Output")]


def lint_members(
    *,
    context: typer.Context,
    files: Files = None,
    before: Before = None,
    change_to: ChangeTo = None,
    bootstrap_server: options.BootstrapServer = None,
    group: GroupId = None,
    from_: From = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    ignore: Ignore = None,
    strict: Strict = False,
    json_file: options.JsonFile = None,
    junit: options.JunitFile = None,
    github: options.Github = False,
) -> int:
    """Judge a change of strategy, or the settings of the members of a group."""
    ignored = options.split_names(ignore or ())
    for rule in ignored:
        if rule not in RULES:
            raise UserError(f"--ignore: there is no rule {rule!r}; there are {', '.join(RULES)}")
    if not files and group is None:
        raise UserError("give files, or --bootstrap-server and --group")
    if group is None:
        live_options = ("bootstrap_server", "command_config", "timeout", "from_")
        options.refuse(context, live_options, "without --group")
    if before and (change_to or not files):
        raise UserError("--before needs files to compare with, and no --change-to")
    ci = CiFormats(junit, github, json_file)
    ci.require()
    new_names = _checked(change_to or (), "--change-to")
    old_names = _checked(from_ or (), "--from")

    facts = LintFacts(tuple(map(_member, files or ())), tuple(map(_member, before or ())))
    if group is not None:
        live = _read_group(options.cluster_address(bootstrap_server, command_config, timeout), group)
        facts = _with_live(facts, live, old_names, is_change=bool(files or change_to))
    if new_names:
        changed = tuple(_changed(one, new_names) for one in facts.after)
        facts = dataclasses.replace(facts, before=facts.before or facts.after, after=changed)

    report = lint(facts, ignored)
    failed = bool(report.of(Severity.ERROR)) or (strict and bool(report.of(Severity.WARNING)))
    document = json.dumps(_to_json(report, "fail" if failed else "pass"), indent=2)
    verdicts = _ci_cases(report, ignored, strict=strict)
    ci.write_result("lint", report_renderables(report), document, verdicts)
    return ExitCode.VERDICT_FAILED if failed else ExitCode.OK


def _checked(values: Sequence[str], option: str) -> tuple[str, ...]:
    """The names in `values`. Each strategy is loaded: a misspelled name must not pass for one of a client."""
    names = options.split_names(values)
    if values and not names:
        raise UserError(f"{option}: expected names of strategies, with commas between")
    for name in names:
        if not name.startswith("stock:"):
            options.load_named_strategy(name, option)
    return names


def _member(path: Path) -> MemberConfig:
    settings = read_settings(path)
    try:
        return member_config(str(path), settings, options.load_silently)
    except InvalidSettingError as error:
        # A quote is part of the value in properties.
        is_quoted = str(settings.get(error.key or "")).startswith(('"', "'"))
        raise UserError(f"{path}: {error}{'; no quotes in properties' if is_quoted else ''}") from None


def _changed(member: MemberConfig, names: Sequence[str]) -> MemberConfig:
    uses = tuple(_use(member.client, member.version, name, "--change-to") for name in names)
    return dataclasses.replace(
        member, strategies=uses, given=member.given | {"partition.assignment.strategy"}
    )


def _use(client: Client, version: Version | None, name: str, option: str) -> StrategyUse:
    """The strategy `name` of `option` in a member of this client."""
    try:
        return strategy_use(client, version, name, options.load_silently, option)
    except InvalidSettingError as error:
        raise UserError(str(error)) from None


# ---- the running group

_PAUSE_S = 0.2
"""The time between two looks at a group that is rebalancing."""


def _read_group(address: options.ClusterAddress, group: str) -> LiveGroup:
    with options.require_extra("a running cluster", "admin"):
        connection = Connection(address.bootstrap_servers, address.config, address.timeout_s)
    deadline = time.monotonic() + connection.timeout_s
    while True:
        (live,) = read_groups(connection, [group], topics=False)
        if problem := unreadable(connection, [live]):
            raise UserError(problem)
        if live.group_type != CLASSIC or not live.state.endswith("Rebalance"):
            break
        if time.monotonic() > deadline:
            raise UserError(
                f"group {group!r} is rebalancing ({live.state}), so its strategy is not known: try again"
            )
        time.sleep(_PAUSE_S)
    if live.protocol_type not in (None, "", "consumer"):
        raise UserError(f"group {group!r} is not a group of consumers, but of {live.protocol_type!r}")
    return live


def _with_live(files: LintFacts, live: LiveGroup, listed: Sequence[str], *, is_change: bool) -> LintFacts:
    """Add a running group to the members in files: it is the state before the change, or what is judged.

    `listed` are the strategies that its members list, if the user gives them.
    """
    uses = [_use(Client.UNKNOWN, None, name, "--from") for name in listed]
    runs = live.protocol if live.group_type == CLASSIC else None
    if uses and runs and runs != uses[0].name:
        raise UserError(
            f"--from begins with {uses[0].name!r}, and group {live.id!r} runs {runs!r}, so not every "
            "member has this list: finish the restart that gives it to all, or give the list they have"
        )
    members, not_judged = live_members(live, uses)
    return dataclasses.replace(
        files,
        after=files.after or members,
        before=files.before or (members if files.after else ()),
        assumed_before=not (files.before or listed) and is_change,
        live=live,
        not_judged=not_judged,
    )


# ---- output


def _to_json(report: LintReport, verdict: str) -> dict[str, Any]:
    return {
        "format": 1,
        "verdict": verdict,
        "findings": [
            {**dataclasses.asdict(finding), "severity": finding.severity.value} for finding in report.findings
        ],
        "not_judged": [dataclasses.asdict(left_open) for left_open in report.not_judged],
    }


def _ci_cases(report: LintReport, ignored: Sequence[str], *, strict: bool) -> list[CiCase]:
    """The verdict of each finding, of each rule without one, and of each question that is left open."""
    outcomes = {
        Severity.ERROR: CiOutcome.FAILED,
        Severity.WARNING: CiOutcome.FAILED if strict else CiOutcome.WARNED,
        Severity.INFO: CiOutcome.PASSED,
    }
    found = [
        CiCase(
            finding.rule,
            ", ".join(finding.members) or "the group",
            outcomes[finding.severity],
            " ".join(filter(None, (finding.what, finding.why, finding.to_do))),
            # The members of a group in files are named by their files.
            next(filter(os.path.isfile, finding.members), None),
        )
        for finding in report.findings
    ]
    silent = [rule for rule in RULES if rule not in {finding.rule for finding in report.findings}]
    found += [
        CiCase(rule, "the group", CiOutcome.SKIPPED if rule in ignored else CiOutcome.PASSED, "--ignore")
        for rule in silent
    ]
    return [
        *found,
        *(CiCase("not judged", each.what, CiOutcome.SKIPPED, each.why) for each in report.not_judged),
    ]


_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold"}
_HEADINGS = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.INFO: "Good to know"}
_SHOWN_MEMBERS = 5


def report_renderables(report: LintReport) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for severity in Severity:
        findings = report.of(severity)
        if findings:
            shown.append(Text(_HEADINGS[severity], style=_STYLES[severity]))
            shown += [Padding(_finding(finding), (0, 0, 1, 2)) for finding in findings]
    if report.not_judged:
        shown.append(Text("Not judged", style="bold"))
        shown += indented(f"{left_open.what}: {left_open.why}." for left_open in report.not_judged)
        shown.append(Text())
    counts = ", ".join(
        f"{len(report.of(severity))} {severity.value}{'s' if len(report.of(severity)) != 1 else ''}"
        for severity in (Severity.ERROR, Severity.WARNING)
    )
    shown.append(Text(f"{counts}, {len(report.of(Severity.INFO))} good to know.", style="bold"))
    return shown


def _finding(finding: LintFinding) -> RenderableType:
    named = some_of([*finding.members], _SHOWN_MEMBERS)
    head = Text(printable(finding.rule), style=_STYLES[finding.severity])
    head.append(printable(f"  {named}" if named else ""), style="not bold default")
    parts = {"what": finding.what, "why": finding.why, "do": finding.to_do}
    table = Table.grid(padding=(0, 1))
    for name, words in parts.items():
        if words:
            table.add_row(f"  {name}", Text(printable(words)))
    return Group(head, table)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lint", epilog=EPILOG)(lint_members)
