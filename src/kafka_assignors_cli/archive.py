"""`kafka-assignors archive`: the history of consumer groups, kept before the brokers compact it."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_assignors_cli.cluster import BootstrapServer, CommandConfig, Timeout
from kafka_assignors_cli.console import ProgressReport, emit, note
from kafka_assignors_cli.errors import CannotRun
from kafka_assignors_cli.properties import read_properties
from kafka_assignors_cli.spark import Master, SparkConfig, spark_properties

if TYPE_CHECKING:
    from kafka_assignors_spark.archive import ArchiveProgress, ArchiveResult

__all__ = ["EPILOG", "archive"]

EPILOG = """Examples:

kafka-assignors archive --bootstrap-server broker:9092 --to archive/ --once

kafka-assignors archive --bootstrap-server broker:9092 --to s3a://bucket/groups --spark-config s3.properties

kafka-assignors replay archive/

Brokers compact __consumer_offsets, so that they remember little more than the last generation of a group. \
The archive keeps every record of a group that it sees, and none of the offset commits, as Parquet by date, \
with the topics beside them. A run goes on where the last one ended, however that ended: no record is \
missing or there twice. One archive is of one cluster.

client.properties holds librdkafka's properties, one name=value per line: passwords have no place on a \
command line. s3.properties is in Spark's own form: spark.jars.packages, spark.hadoop.fs.s3a.… and so on.

Ctrl-C or SIGTERM ends it after the batch under way, a second Ctrl-C at once.

Exit codes: 0 done: with --once all is archived, without it was told to end; 2 it cannot run, and one line \
on stderr says why; 130 --once was told to end before all was archived.
"""

_SPARK_EXTRA = {"pyspark", "pyarrow", "confluent_kafka"}
_LINE_INTERVAL_S = 60.0
"""Between two lines of progress of a process that runs for months."""


def archive(
    to: Annotated[
        str,
        typer.Option("--to", metavar="PATH", help="The archive: a folder or URL that Hadoop can write to."),
    ],
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    timeout: Timeout = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything that was there at the start is archived.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="How long to wait between batches when it has caught up. Every batch is a file or more.",
        ),
    ] = 300.0,
    max_offsets: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="The longest batch, in offsets of all partitions of the topic together."
        ),
    ] = 1_000_000,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print what was done as one line of JSON.", rich_help_panel="Output"),
    ] = False,
    master: Master = None,
    spark_config: SparkConfig = None,
) -> None:
    """Keep the history of consumer groups: copy their records to Parquet before the brokers compact them."""
    config = read_properties(command_config) if command_config is not None else {}
    servers = bootstrap_server or config.get("bootstrap.servers")
    if not servers:
        raise CannotRun(
            "give --bootstrap-server HOST:PORT, or bootstrap.servers in the file of --command-config"
        )
    properties = spark_properties(spark_config)
    try:
        from kafka_assignors_spark.archive import ArchiveError, ArchiveOptions, run_archive
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _SPARK_EXTRA:
            raise
        raise CannotRun(f'archive needs {error.name}: pip install "kafka-assignors[spark]"') from None

    options = ArchiveOptions(
        path=to,
        bootstrap_servers=servers,
        once=once,
        interval_seconds=interval,
        max_offsets_per_batch=max_offsets,
        client_config=config,
        timeout_seconds=timeout or 10.0,
        master=master,
        spark_config=properties,
    )
    line_interval_s = None if once else _LINE_INTERVAL_S
    with (
        _told_to_stop() as stop,
        ProgressReport("asking the cluster", delay_s=0.5, line_interval_s=line_interval_s) as progress,
    ):

        def on_progress(step: ArchiveProgress) -> None:
            progress.update(step.phase, step.counts.records, detail=_lag(step))

        try:
            result = run_archive(options, on_progress, lambda text: note(f"warning: {text}"), stop)
        except ArchiveError as error:
            raise CannotRun(str(error)) from error
    if as_json:
        emit(json.dumps(result.to_json()))
    else:
        for line in _summary(result):
            emit(line)
    if once and not result.complete:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _told_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set. A second Ctrl-C interrupts."""
    stop = threading.Event()
    told = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if told and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not told:
            # Before `set`, which takes a lock: a second signal that interrupts it must not wait for it.
            told = True
            stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, handle) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _lag(step: ArchiveProgress) -> str:
    if step.lag_offsets is None:
        return ""
    if not step.lag_offsets:
        return " group records, up to date"
    return f" group records, {step.lag_offsets} offsets and {step.lag_seconds:.0f} s behind"


def _summary(result: ArchiveResult) -> Iterator[str]:
    counts, total = result.counts, result.total
    yield f"{result.path}: {result.topic} of cluster {result.cluster_id}, {result.partitions} partitions"
    kinds = ", ".join(f"{count} of key version {version}" for version, count in counts.group_records.items())
    yield f"archived: {counts.records} group records" + (f" ({kinds})" if kinds else "")
    yield (
        f"left out: {counts.offset_commits} offset commits, {counts.without_key} records without a key; "
        f"{counts.missing} offsets had no record"
    )
    yield f"in all:   {total.records} group records out of {total.offsets} offsets"
    if result.last_timestamp is not None:
        yield f"up to:    {result.last_timestamp.isoformat(timespec='seconds')}"
    if result.lag_offsets:
        yield f"behind:   {result.lag_offsets} offsets"
