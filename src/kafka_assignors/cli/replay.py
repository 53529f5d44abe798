"""`kafka-assignors replay`: the history of consumer groups under other strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_assignors.cli.console import note
from kafka_assignors.cli.errors import CannotRun
from kafka_assignors.cli.named import load_named_strategy, split_names
from kafka_assignors.cli.parameters import parameters
from kafka_assignors.cli.properties import read_properties
from kafka_assignors.cli.replaying import needs_spark, run_with_progress
from kafka_assignors.cli.spark import Master, SparkConfig, spark_properties
from kafka_assignors.cli.written import prepare, write

__all__ = ["EPILOG", "replay"]

EPILOG = """Examples:

kafka-assignors replay history/ --strategy range,cooperative-sticky --report report.html

kafka-assignors replay s3a://bucket/groups --group payments --strategy my_package:Weighted --json report.json

kafka-assignors replay --bootstrap-server broker:9092 --command-config client.properties

A history is a directory with raw/ and topics.parquet, or any Parquet with the columns partition, offset, \
timestamp, key and value of the topic __consumer_offsets. A broker compacts that topic, so that a live one \
shows little more than the last generation of each group.

client.properties holds librdkafka's properties, one name=value per line: passwords have no place on a
command line.
"""

_ALL = "range,roundrobin,sticky,cooperative-sticky,rack-aware-sticky"


def replay(
    history: Annotated[
        str | None,
        typer.Argument(metavar="HISTORY", help="A directory, file or URL of Parquet that Spark can read."),
    ] = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,…", help="Read a live cluster instead.", rich_help_panel="Source"),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Properties of the client, such as security.protocol.",
            rich_help_panel="Source",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, help="The longest wait for a broker.", rich_help_panel="Source"
        ),
    ] = 10.0,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="ID", help="Only these groups; may be repeated."),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy",
            "-s",
            metavar="NAME,…",
            help="Names, module:attribute or FILE.toml; may be repeated.",
            show_default=_ALL,
        ),
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODE,…",
            help="one-step: from what production had before each rebalance. rollout: as if the strategy had "
            "been running all along.",
            show_default="one-step,rollout",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a record does not decode.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write an HTML report.", rich_help_panel="Output"),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the whole result as JSON.", rich_help_panel="Output"
        ),
    ] = None,
    tables: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write the tables as Parquet for your own notebooks, to a path or URL that Spark can write.",
            rich_help_panel="Output",
        ),
    ] = None,
    pause: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the model of pauses, such as heartbeat_interval_s=5; may be repeated.",
            rich_help_panel="Models and thresholds",
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A threshold of whose fault rebalances are, such as crash_loop=5; may be repeated.",
            rich_help_panel="Models and thresholds",
        ),
    ] = None,
    master: Master = None,
    spark_config: SparkConfig = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Keep here what is done, and go on from it: give the same directory again after an "
            "interruption. A path or URL that Spark can write; nobody else should be able to.",
            rich_help_panel="Spark",
        ),
    ] = None,
) -> None:
    """Replay the recorded rebalances of consumer groups under other strategies, on Spark."""
    if (history is None) == (bootstrap_server is None):
        raise CannotRun("give either a history or --bootstrap-server")
    names = split_names(strategy or [_ALL])
    for name in names:
        load_named_strategy(name)
    for path in (html, json_file):
        if path is not None:
            prepare(path)
    config = read_properties(command_config) if command_config is not None else {}
    properties = spark_properties(spark_config)

    with needs_spark("replay"):
        from kafka_assignors.cli.tables import print_replay
        from kafka_assignors_spark.options import Mode, ReplayOptions
        from kafka_assignors_spark.report import html_report, json_report

    modes = split_names(mode or [each.value for each in Mode])
    for each in modes:
        if each not in {known.value for known in Mode}:
            raise CannotRun(
                f"there is no mode {each!r}: known are {', '.join(known.value for known in Mode)}"
            )
    default = ReplayOptions()
    result = run_with_progress(
        ReplayOptions(
            path=history,
            bootstrap_servers=bootstrap_server,
            strategies=names,
            modes=tuple(map(Mode, modes)),
            groups=tuple(group) if group else None,
            strict=strict,
            client_config=config,
            timeout_seconds=timeout,
            master=master,
            spark_config=properties,
            checkpoint=checkpoint,
            pauses=parameters("--pause", pause or (), default.pauses),
            fault_rules=parameters("--fault", fault or (), default.fault_rules),
            tables=tables,
        )
    )
    print_replay(result)
    if html is not None:
        write(html, html_report(result, html.parent))
        note(f"wrote {html}")
    if json_file is not None:
        write(json_file, json_report(result))
        note(f"wrote {json_file}")
    if tables is not None:
        note(f"wrote the tables in {tables}")
