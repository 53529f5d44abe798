"""`kafka-assignors replay`: the history of consumer groups under other strategies."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from kafka_assignors.cli.console import ProgressReport, note
from kafka_assignors.cli.errors import CannotRun
from kafka_assignors.cli.named import load_named_strategy, split_names
from kafka_assignors.cli.properties import read_properties
from kafka_assignors.cli.spark import Master, SparkConfig, spark_properties

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
_SPARK_EXTRA = {"pyspark", "pyarrow", "confluent_kafka", "plotly", "jinja2"}


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
            help="Names or module:attribute; may be repeated.",
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
    master: Master = None,
    spark_config: SparkConfig = None,
) -> None:
    """Replay the recorded rebalances of consumer groups under other strategies, on Spark."""
    if (history is None) == (bootstrap_server is None):
        raise CannotRun("give either a history or --bootstrap-server")
    names = split_names(strategy or [_ALL])
    for name in names:
        load_named_strategy(name)
    for path in (html, json_file):
        if path is not None:
            _prepare(path)
    config = read_properties(command_config) if command_config is not None else {}
    properties = spark_properties(spark_config)

    try:
        from kafka_assignors.cli.tables import print_replay
        from kafka_assignors_spark.job import run_replay
        from kafka_assignors_spark.report import html_report, json_report
        from kafka_assignors_spark.result import Mode, Progress, ReplayError, ReplayOptions
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _SPARK_EXTRA:
            raise
        raise CannotRun(f'replay needs {error.name}: pip install "kafka-assignors[spark]"') from None

    modes = split_names(mode or [each.value for each in Mode])
    for each in modes:
        if each not in {known.value for known in Mode}:
            raise CannotRun(
                f"there is no mode {each!r}: known are {', '.join(known.value for known in Mode)}"
            )
    options = ReplayOptions(
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
    )
    with ProgressReport("starting Spark", delay_s=0.5) as progress:

        def on_progress(step: Progress) -> None:
            progress.update(f"[{step.number}/{step.phases}] {step.phase}", step.done, step.total)

        try:
            result = run_replay(options, on_progress)
        except ReplayError as error:
            raise CannotRun(str(error)) from error
    print_replay(result)
    for path, text in ((html, html_report), (json_file, json_report)):
        if path is not None:
            _write(path, text(result))
            note(f"wrote {path}")


def _prepare(path: Path) -> None:
    """Fail now, and not after minutes of work, if `path` cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise CannotRun(f"cannot write {path}: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    """Replace `path` as a whole, so that a reader never sees half a report."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CannotRun(f"cannot write {path}: {error.strerror}") from None
