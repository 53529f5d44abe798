"""`kafka-assignors replay`: the history of consumer groups under other strategies."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_assignors.arguments import UserError
from kafka_assignors_cli import options
from kafka_assignors_cli.console import ProgressReport, note
from kafka_assignors_cli.output_files import (
    is_stdout,
    require_json_file,
    require_writable,
    write_file,
    write_lines,
)
from kafka_assignors_replay import command_options as shared

if TYPE_CHECKING:
    from kafka_assignors_replay.engine import Choice
    from kafka_assignors_replay.result import Mode, Progress, ReplayOptions, ReplayResult

EPILOG = f"""Examples:

kafka-assignors replay history/ --strategy range,cooperative-sticky --report report.html

kafka-assignors replay s3a://bucket/groups --group payments --strategy my_package:Weighted --json report.json

kafka-assignors replay archive/ --group billing --strategy cooperative-sticky,rack-aware-sticky

kafka-assignors replay --bootstrap-server broker:9092 --command-config client.properties

A history is a directory with raw/ and topics.parquet, or any Parquet with the columns partition, offset, \
timestamp, key and value of the topic __consumer_offsets. Brokers compact that topic, so that a live cluster \
shows little more than the last generation of each group.

{options.CONFIG_EPILOG}
"""

_DEFAULT_STRATEGIES = "range,roundrobin,sticky,cooperative-sticky,rack-aware-sticky"


History = Annotated[
    str | None,
    typer.Argument(
        metavar="HISTORY",
        help="A directory, file or URL of Parquet, or table://NAME; without it, give --bootstrap-server.",
    ),
]
Modes = Annotated[
    list[str] | None,
    typer.Option(
        "--mode",
        metavar="MODE,…",
        help="one-step: start each rebalance from the recorded owners. steady-state: start it from the "
        "strategy's own last assignment, as if the strategy had been in use from the start.",
        show_default="one-step,steady-state",
    ),
]
HtmlFile = Annotated[
    Path | None, options.output_option("--report", metavar="FILE", help="Write an HTML report.")
]
TablesDirectory = Annotated[
    str | None,
    options.output_option(
        metavar="DIR",
        help="Write the tables as Parquet for your own notebooks, to a path or URL that Spark can write.",
    ),
]
FaultParameters = Annotated[
    list[str] | None,
    shared.model_option(
        metavar="NAME=VALUE",
        help="A threshold that classifies rebalance causes, such as crash_loop=5; may be repeated.",
    ),
]


def replay(
    *,
    context: typer.Context,
    history: History = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    group: shared.GroupIds = None,
    strategy: Annotated[list[str] | None, options.strategies_option(_DEFAULT_STRATEGIES)] = None,
    mode: Modes = None,
    strict: shared.StrictDecoding = False,
    skip_corrupt: shared.SkipCorrupt = False,
    html: HtmlFile = None,
    json_file: options.JsonFile = None,
    tables: TablesDirectory = None,
    pause: shared.PauseParameters = None,
    fault: FaultParameters = None,
    master: shared.Master = None,
    spark_config: shared.SparkConfig = None,
    engine: shared.EngineName = None,
    strategy_timeout: shared.StrategyTimeout = 60.0,
) -> None:
    """Replay the recorded rebalances of consumer groups under other strategies."""
    names = options.split_names(strategy or [_DEFAULT_STRATEGIES])
    for name in names:
        options.load_named_strategy(name)
    if html is not None:
        require_writable(html)
    require_json_file(json_file)
    asked = shared.replay_options(context, names, _modes(mode))
    with shared.require_replay_extra("replay", spark=engine == "spark"):
        # If it is missing, fail before minutes of work.
        import kafka_assignors_replay.report.as_html  # noqa: F401
    rules = shared.parse_parameters("--fault", fault, asked.fault_rules)
    asked = dataclasses.replace(asked, fault_rules=rules, tables=tables)
    _show(run_replay_with_progress(asked, "replay", engine), html, json_file)


def _modes(given: list[str] | None) -> tuple[Mode, ...]:
    from kafka_assignors_replay.result import Mode

    known = [mode.value for mode in Mode]
    modes = options.split_names(given or known)
    for mode in modes:
        if mode not in known:
            raise UserError(f"there is no mode {mode!r}: known are {', '.join(known)}")
    return tuple(map(Mode, modes))


def run_replay_with_progress(asked: ReplayOptions, command: str, engine: str | None = None) -> ReplayResult:
    """Run a replay, with progress and the names of damaged files on stderr. `command` is the command that the
    user ran, for errors."""
    spark = engine == "spark"
    with shared.require_replay_extra(command, spark=spark):
        from kafka_assignors_replay.replay import run_replay
        from kafka_assignors_replay.replay_tables import damage_lines

    def on_choice(choice: Choice) -> None:
        note(f"engine: {choice.name} ({choice.why})")

    with (
        shared.require_replay_extra(command, spark=spark),
        ProgressReport("starting", delay_s=0.5) as progress,
    ):

        def on_progress(step: Progress) -> None:
            unit = f" {step.unit}" if step.total else ""
            progress.update(f"[{step.number}/{step.phases}] {step.phase}", step.done, step.total, unit)

        result = run_replay(asked, on_progress, engine=engine, on_choice=on_choice)
    for line in damage_lines(result):
        note(line)
    return result


def _show(result: ReplayResult, html: Path | None, json_file: Path | None) -> None:
    from kafka_assignors_replay.replay_tables import print_replay
    from kafka_assignors_replay.report.as_html import html_report
    from kafka_assignors_replay.report.as_json import json_report_lines

    if not is_stdout(json_file):
        print_replay(result)
    if html is not None:
        write_file(html, html_report(result))
        note(f"wrote {html}")
    if json_file is not None:
        write_lines(json_file, json_report_lines(result))
    if result.options.tables is not None:
        note(f"wrote the tables in {result.options.tables}")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(replay)
