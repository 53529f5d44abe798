"""`kafka-assignors validate`: a replay as a gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_assignors.cli.console import note
from kafka_assignors.cli.errors import CannotRun, ExitCode
from kafka_assignors.cli.jsontext import read_document
from kafka_assignors.cli.named import add_current_directory, split_names
from kafka_assignors.cli.parameters import parameters
from kafka_assignors.cli.replaying import run_with_progress
from kafka_assignors.cli.textfiles import read_file
from kafka_assignors.cli.toml import parse_toml
from kafka_assignors.cli.written import prepare, write

if TYPE_CHECKING:
    from kafka_assignors_spark.policy import Policy, Report

__all__ = ["EPILOG", "validate"]

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
"""A replay of thousands of groups under all strategies writes some 400 MB."""


def validate(
    history: Annotated[
        str,
        typer.Argument(
            metavar="HISTORY|REPORT.json",
            help="A history to replay (see replay --help), or what replay --json wrote.",
        ),
    ],
    policy: Annotated[Path, typer.Option("--policy", "-p", metavar="FILE", help="The policy, in TOML.")],
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="ID", help="Replay only these groups; may be repeated."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a record does not decode.")] = False,
    pause: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the model of pauses, such as heartbeat_interval_s=5; may be repeated.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the verdict as JSON.", rich_help_panel="Output"),
    ] = None,
    master: Annotated[str, typer.Option(metavar="URL", help="Spark's master.")] = "local[*]",
) -> int:
    """Hold the replay of a history against a policy: may this strategy go to production?"""
    from kafka_assignors.cli.judgements import judgement_to_json, print_judgement
    from kafka_assignors_spark.policy import Outcome, judge

    rules = _policy(policy)
    if json_file is not None:
        prepare(json_file)
    if history.endswith(".json"):
        given = (("--group", group), ("--strict", strict), ("--pause", pause))
        if meaningless := [name for name, value in given if value]:
            raise CannotRun(
                f"{', '.join(meaningless)} cannot change {history}, which was replayed already: "
                "give the history"
            )
        report = _written_report(Path(history))
    else:
        report = _replayed(history, rules, group, strict, pause, master)
    judgement = judge(rules, report)
    print_judgement(judgement, report)
    if json_file is not None:
        text = json.dumps(judgement_to_json(judgement, report, str(policy)), indent=1)
        write(json_file, text + "\n")
        note(f"wrote {json_file}")
    return {
        Outcome.HOLDS: ExitCode.OK,
        Outcome.VIOLATED: ExitCode.VERDICT_FAILED,
        Outcome.NOT_JUDGED: ExitCode.CANNOT_RUN,
    }[judgement.outcome]


def _policy(path: Path) -> Policy:
    from kafka_assignors_spark.policy import PolicyError, read_policy

    table = parse_toml(path, read_file(path))
    add_current_directory()
    try:
        return read_policy(table, str(path))
    except PolicyError as error:
        raise CannotRun(str(error)) from None


def _written_report(path: Path) -> Report:
    from kafka_assignors_spark.policy import ReportError, read_report

    document = read_document("report", read_file(path, _MOST_REPORT_BYTES), str(path))
    try:
        return read_report(document, str(path))
    except ReportError as error:
        raise CannotRun(str(error)) from None


def _replayed(
    history: str,
    rules: Policy,
    group: list[str] | None,
    strict: bool,
    pause: list[str] | None,
    master: str,
) -> Report:
    from kafka_assignors_spark.options import ReplayOptions
    from kafka_assignors_spark.policy import read_report
    from kafka_assignors_spark.result import to_json

    options = ReplayOptions(
        path=history,
        # Something has to be replayed, even if all rules are about what was recorded.
        strategies=rules.strategies or ("cooperative-sticky",),
        modes=rules.modes,
        groups=split_names(group) if group else None,
        strict=strict,
        master=master,
        pauses=parameters("--pause", pause or (), ReplayOptions().pauses),
    )
    return read_report(to_json(run_with_progress(options, "validate")))
