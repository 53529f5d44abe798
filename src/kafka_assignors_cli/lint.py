"""`kafka-assignors lint`: is a change of strategy safe to roll, and do these members fit together?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kafka_assignors.lint import (
    RULES,
    Client,
    Facts,
    Finding,
    InvalidSettingError,
    MemberConfig,
    Report,
    Severity,
    lint,
    member_config,
    strategy_use,
)
from kafka_assignors.strategies import Strategy, StrategyError
from kafka_assignors_cli.console import emit, emit_renderable, printable
from kafka_assignors_cli.errors import CannotRun, ExitCode
from kafka_assignors_cli.lintlive import LiveSource, read_live
from kafka_assignors_cli.memberfiles import read_member_file
from kafka_assignors_cli.named import load_named_strategy, split_names
from kafka_assignors_cli.properties import read_properties

__all__ = ["EPILOG", "lint_members", "report_renderables"]

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


def lint_members(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE…", help="One kind of member each: properties, TOML or JSON.", show_default=False
        ),
    ] = None,
    before: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A kind of member as it runs today; may be repeated.", show_default=False
        ),
    ] = None,
    change_to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,…",
            help="Judge giving this list to every member; the preferred one first.",
            show_default=False,
        ),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,…", help="Ask these brokers.", rich_help_panel="Live group", show_default=False
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", metavar="ID", help="The group.", rich_help_panel="Live group", show_default=False
        ),
    ] = None,
    from_: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="NAME,…",
            help="What the group's members list today, if more than they run: the broker does not tell.",
            rich_help_panel="Live group",
            show_default=False,
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Properties of the client, such as security.protocol.",
            rich_help_panel="Live group",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, help="The longest wait for a broker.", rich_help_panel="Live group"
        ),
    ] = 10.0,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE,…", help="Leave these rules out.", rich_help_panel="Output", show_default=False
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Warnings fail, too.", rich_help_panel="Output")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel="Output")
    ] = False,
) -> int:
    """Judge a change of strategy, or the settings of the members of a group."""
    ignored = split_names(ignore or ())
    for rule in ignored:
        if rule not in RULES:
            raise CannotRun(f"--ignore: there is no rule {rule!r}; there are {', '.join(RULES)}")
    if not files and bootstrap_server is None:
        raise CannotRun("give files, or --bootstrap-server and --group")
    if (group is not None or from_ or command_config) and bootstrap_server is None:
        raise CannotRun("--group, --from and --command-config need --bootstrap-server")
    if bootstrap_server is not None and group is None and not files:
        raise CannotRun("--bootstrap-server needs --group, or files to hold against the broker's settings")
    if before and (change_to or not files):
        raise CannotRun("--before needs files to compare with, and no --change-to")
    new_names = _checked(split_names(change_to or ()), "--change-to")
    old_names = _checked(split_names(from_ or ()), "--from")

    given = tuple(map(_member, files or ()))
    facts = Facts(given, tuple(map(_member, before or ())))
    if bootstrap_server is not None:
        config = read_properties(command_config) if command_config is not None else {}
        listed = tuple(strategy_use(Client.UNKNOWN, None, name, _load) for name in old_names)
        live = read_live(LiveSource(bootstrap_server, config, timeout), group, listed)
        facts = dataclasses.replace(
            facts,
            after=given or live.members,
            before=facts.before or (live.members if given else ()),
            assumed_before=not facts.before and bool(given or change_to) and not old_names,
            live=live.group,
            bounds=live.bounds,
            not_judged=live.not_judged,
        )
    if new_names:
        facts = dataclasses.replace(
            facts,
            before=facts.before or facts.after,
            after=tuple(_changed(one, new_names) for one in facts.after),
        )

    report = lint(facts, ignored)
    failed = bool(report.of(Severity.ERROR)) or (strict and bool(report.of(Severity.WARNING)))
    if as_json:
        emit(json.dumps(_as_json(report, failed), indent=2))
    else:
        emit_renderable(*report_renderables(report))
    return ExitCode.VERDICT_FAILED if failed else ExitCode.OK


def _checked(names: tuple[str, ...], option: str) -> tuple[str, ...]:
    """A slip in a name must not be taken for a strategy that the clients happen to know."""
    for name in names:
        if not name.startswith("stock:"):
            try:
                load_named_strategy(name)
            except CannotRun as error:
                raise CannotRun(f"{option}: {error}") from None
    return names


def _load(spec: str) -> Strategy:
    try:
        return load_named_strategy(spec)
    except CannotRun as error:
        raise StrategyError(str(error)) from error


def _member(path: Path) -> MemberConfig:
    file = read_member_file(path)
    try:
        return member_config(str(path), file.settings, _load)
    except InvalidSettingError as error:
        hint = "; no quotes in properties" if file.quoted(error.key) else ""
        raise CannotRun(f"{file.where(error.key)}: {error}{hint}") from None


def _changed(member: MemberConfig, names: Sequence[str]) -> MemberConfig:
    uses = tuple(strategy_use(member.client, member.version, name, _load) for name in names)
    return dataclasses.replace(
        member, strategies=uses, given=member.given | {"partition.assignment.strategy"}
    )


# ---- output


def _as_json(report: Report, failed: bool) -> dict[str, Any]:
    return {
        "format": 1,
        "verdict": "fail" if failed else "pass",
        "findings": [
            {**dataclasses.asdict(finding), "severity": finding.severity.value} for finding in report.findings
        ],
        "not_judged": [dataclasses.asdict(left_open) for left_open in report.not_judged],
    }


_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold"}
_HEADINGS = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.INFO: "Good to know"}
_SHOWN_MEMBERS = 5


def report_renderables(report: Report) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for severity in Severity:
        findings = report.of(severity)
        if findings:
            shown.append(Text(_HEADINGS[severity], style=_STYLES[severity]))
            shown += [Padding(_finding(finding), (0, 0, 1, 2)) for finding in findings]
    if report.not_judged:
        shown.append(Text("Not judged", style="bold"))
        for left_open in report.not_judged:
            words = printable(f"{left_open.what}: {left_open.why}.")
            shown.append(Padding(Text(words), (0, 0, 0, 2)))
        shown.append(Text())
    counts = ", ".join(
        f"{len(report.of(severity))} {severity.value}{'s' if len(report.of(severity)) != 1 else ''}"
        for severity in (Severity.ERROR, Severity.WARNING)
    )
    shown.append(Text(f"{counts}, {len(report.of(Severity.INFO))} good to know.", style="bold"))
    return shown


def _finding(finding: Finding) -> RenderableType:
    members = ", ".join(finding.members[:_SHOWN_MEMBERS])
    more = len(finding.members) - _SHOWN_MEMBERS
    head = Text(printable(finding.rule), style=_STYLES[finding.severity])
    if members:
        head.append(
            printable(f"  {members}{f' and {more} more' if more > 0 else ''}"), style="not bold default"
        )
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    parts = {"what": finding.what, "why": finding.why, "do": finding.to_do}
    for name, words in parts.items():
        if words:
            table.add_row(name, Text(printable(words)))
    grid = Table.grid()
    grid.add_column(overflow="fold")
    grid.add_row(head)
    grid.add_row(Padding(table, (0, 0, 0, 2)))
    return grid
