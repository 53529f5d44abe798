"""`kafka-assignors replay`: the history of consumer groups under other strategies.

`validate` shares the options, the run and the reports.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from kafka_assignors.arguments import UserError
from kafka_assignors_cli import options
from kafka_assignors_cli.console import ProgressReport, note, sigterm_interrupts
from kafka_assignors_cli.output_files import is_stdout, require_files, write_file, write_lines
from kafka_assignors_replay.history.pause_model import PauseModel
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

_DEFAULT_STRATEGIES = ",".join(ReplayOptions().strategies)
_MODES = ",".join(Mode)

_spark_option = functools.partial(typer.Option, rich_help_panel="Spark")
_model_option = functools.partial(typer.Option, rich_help_panel="Models and thresholds")

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
        show_default=_MODES,
    ),
]
HtmlFile = Annotated[
    Path | None, options.output_option("--report", metavar="FILE", help="Write an HTML report.")
]
GroupIds = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="ID", help="Replay only these groups; may be repeated."),
]
EngineName = Annotated[
    Literal["spark", "local"] | None,
    typer.Option(
        "--engine",
        metavar="spark|local",
        help="What runs the replay. local needs neither Spark nor Java: this process and a few workers read "
        "a history from a disk. Both give the same figures.",
        show_default="local without PySpark, for a small history and for a cluster, otherwise spark",
    ),
]
SparkConfig = Annotated[
    Path | None,
    _spark_option(
        metavar="FILE",
        help="Properties of Spark, as for spark-submit --properties-file: spark.master, jars, credentials.",
    ),
]
StrategyTimeout = Annotated[
    float,
    _model_option(
        **options.SECONDS,
        min=0.001,
        max=1e9,
        help="The longest time that a strategy may take for one rebalance; after it, the strategy has failed "
        "there.",
    ),
]
StrictDecoding = Annotated[bool, typer.Option("--strict", help="Fail if a record does not decode.")]
SkipCorrupt = Annotated[
    bool,
    typer.Option(
        "--skip-corrupt",
        help="Leave out damaged files of a history on a disk, and name them. Every file is read once more.",
    ),
]
PauseParameters = Annotated[
    list[str] | None,
    _model_option(
        metavar="NAME=VALUE",
        help="A parameter of the pause model, such as heartbeat_interval_s=5; may be repeated.",
    ),
]


def replay(
    *,
    context: typer.Context,
    history: History = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    group: GroupIds = None,
    strategy: Annotated[list[str] | None, options.strategies_option(_DEFAULT_STRATEGIES)] = None,
    mode: Modes = None,
    strict: StrictDecoding = False,
    skip_corrupt: SkipCorrupt = False,
    html: HtmlFile = None,
    json_file: options.JsonFile = None,
    pause: PauseParameters = None,
    spark_config: SparkConfig = None,
    engine: EngineName = None,
    strategy_timeout: StrategyTimeout = 60.0,
) -> None:
    """Replay the recorded rebalances of consumer groups under other strategies."""
    names = options.split_names(strategy or [_DEFAULT_STRATEGIES])
    for name in names:
        options.load_named_strategy(name)
    modes = options.split_names(mode or [_MODES])
    if unknown := [each for each in modes if each not in [*Mode]]:
        raise UserError(f"there is no mode {unknown[0]!r}: known are {', '.join(Mode)}")
    require_reports(html, json_file)
    asked = replay_options(context, names, map(Mode, modes))
    result = run_replay_with_progress(asked, "replay", engine)
    if not is_stdout(json_file):
        from kafka_assignors_replay.replay_tables import print_replay

        print_replay(result)
    write_reports(result, html, json_file)


def replay_options(
    context: typer.Context, strategies: tuple[str, ...], modes: Iterable[Mode]
) -> ReplayOptions:
    """The options of a replay, from the parameters of `context` that `replay` and `validate` share."""
    given = context.params
    on_disk, server, engine = given["history"], given["bootstrap_server"], given["engine"]
    for name, value in (("HISTORY", on_disk), ("--bootstrap-server", server)):
        if value == "":
            raise UserError(f"{name} is empty")
    if (on_disk is None) == (server is None):
        raise UserError("give either a history or --bootstrap-server")
    if on_disk is not None:
        options.refuse(context, ("command_config", "timeout"), "on a history")
    if engine == "local" or (engine is None and server is not None):
        options.refuse(context, ("spark_config",), "without --engine spark")
    config, properties = (given[name] and Path(given[name]) for name in ("command_config", "spark_config"))
    if properties is not None and not properties.is_file():
        raise UserError(f"{properties}: there is no such file")
    return ReplayOptions(
        path=on_disk,
        bootstrap_servers=server,
        strategies=strategies,
        modes=tuple(modes),
        groups=tuple(given["group"]) if given["group"] else None,
        strict=given["strict"],
        skip_corrupt=given["skip_corrupt"],
        client_config=options.client_config(config),
        timeout_seconds=given["timeout"] or options.TIMEOUT_S,
        spark_config=None if properties is None else str(properties.absolute()),
        pauses=_pauses(given["pause"] or ()),
        strategy_timeout_s=given["strategy_timeout"],
    )


def _pauses(given: Iterable[str]) -> PauseModel:
    """The model of pauses with these parameters, each NAME=VALUE."""
    known = asdict(PauseModel())
    values: dict[str, float] = {}
    for each in given:
        name, _, text = (part.strip() for part in each.partition("="))
        if name not in known:
            raise UserError(f"--pause {each}: expected NAME=VALUE, with one of {', '.join(known)}")
        try:
            values[name] = float(text)
        except ValueError:
            raise UserError(f"--pause {each}: {name} has to be a number") from None
    try:
        return PauseModel(**values)
    except ValueError as error:
        raise UserError(f"--pause: {error}") from None


def run_replay_with_progress(asked: ReplayOptions, command: str, engine: str | None = None) -> ReplayResult:
    """Run a replay for the user's `command`, with progress, damaged files and warnings on stderr."""

    def on_progress(step: Progress) -> None:
        unit = f" {step.unit}" if step.total else ""
        progress.update(f"[{step.number}/{step.phases}] {step.phase}", step.done, step.total, unit)

    # The extra `spark` contains the extra `replay`.
    with options.require_extra(command, "spark" if engine == "spark" else "replay", "spark"):
        if asked.path is None:
            import confluent_kafka  # noqa: F401
        from kafka_assignors_replay.engine import OBJECTS, Choice
        from kafka_assignors_replay.replay import run_replay
        from kafka_assignors_replay.replay_tables import damage_lines

        def on_choice(choice: Choice) -> None:
            note(f"engine: {choice.name} ({choice.why})")

        gc.set_threshold(OBJECTS)
        with sigterm_interrupts(), ProgressReport("starting", delay_s=0.5) as progress:
            result = run_replay(asked, on_progress, engine=engine, on_choice=on_choice)
    for line in (*damage_lines(result), *(f"warning: {each}" for each in result.warnings)):
        note(line)
    return result


def require_reports(html: Path | None, *others: Path | None) -> None:
    """Fail before minutes of work if a report cannot be written."""
    require_files(html, *others)
    if html is not None:
        with options.require_extra("the report", "replay"):
            import kafka_assignors_replay.report.as_html  # noqa: F401


def write_reports(result: ReplayResult, html: Path | None, json_file: Path | None) -> None:
    if html is not None:
        from kafka_assignors_replay.report.as_html import html_report

        write_file(html, html_report(result))
        note(f"wrote {html}")
    if json_file is not None:
        from kafka_assignors_replay.report.as_json import json_report_lines

        write_lines(json_file, json_report_lines(result))


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(replay)
