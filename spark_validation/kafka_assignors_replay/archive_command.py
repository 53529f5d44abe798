"""`kafka-assignors archive`: keeps the history of consumer groups before the brokers compact it."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_assignors_cli import options
from kafka_assignors_cli.console import ProgressReport, emit, note
from kafka_assignors_cli.output_files import is_stdout, require_files, write_document

if TYPE_CHECKING:
    from kafka_assignors_replay.archive.run import ArchiveOptions, ArchiveResult

EPILOG = f"""Examples:

kafka-assignors archive --bootstrap-server broker:9092 --to archive/ --once

kafka-assignors archive --command-config client.properties --to s3://bucket/groups

kafka-assignors replay archive/

Brokers compact __consumer_offsets, so that they remember little more than the last generation of a group. \
The archive keeps every record of a group that it sees, as Parquet by date, with the topics beside \
them. It leaves out offset commits. A run continues after the newest file, also after a kill: no record is \
missing or duplicated. One archive is of one cluster, and one archiver writes to it.

{options.CONFIG_EPILOG} pyarrow finds the credentials of an object store in the environment.

Ctrl-C or SIGTERM writes what was read and ends, a second Ctrl-C ends at once.

Exit codes: 0 done: with --once all is archived, otherwise a signal ended it; 2 it cannot run, and one line \
on stderr says why; 130 a signal ended --once before all was archived.
"""


def archive(
    *,
    context: typer.Context,
    to: Annotated[
        str,
        typer.Option(
            metavar="PATH", help="The archive: a folder, or a URL such as s3://, gs://, abfs:// or hdfs://."
        ),
    ],
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything that was there at the start is archived.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(
            **options.SECONDS,
            min=0.0,
            help="The longest time that group records wait for a file. Each file has at least one record.",
        ),
    ] = 300.0,
    max_offsets: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="The most offsets in a file, of all partitions of the topic together."
        ),
    ] = 1_000_000,
    json_file: options.JsonFile = None,
) -> None:
    """Keep the history of consumer groups: copy their records to Parquet before the brokers compact them."""
    if once:
        options.refuse(context, ("interval",), "with --once, which does not wait")
    address = options.cluster_address(bootstrap_server, command_config, timeout)
    require_files(json_file)
    with options.require_extra("archive", "replay"):
        import confluent_kafka  # noqa: F401

        from kafka_assignors_replay.archive.run import ArchiveOptions

    asked = ArchiveOptions(
        path=to,
        bootstrap_servers=address.bootstrap_servers,
        once=once,
        interval_seconds=interval,
        max_offsets_per_batch=max_offsets,
        client_config=address.config,
        timeout_seconds=address.timeout_s,
    )
    result = _run(asked)
    if not is_stdout(json_file):
        emit("\n".join(_summary(result)))
    write_document(json_file, json.dumps(result.to_json()))
    if once and not result.complete:
        raise KeyboardInterrupt


def _run(asked: ArchiveOptions) -> ArchiveResult:
    """Archive with progress on stderr, until all is archived or a signal ends it."""
    from kafka_assignors_replay.archive.run import run_archive

    line_interval_s = None if asked.once else 60.0  # of a process that runs for months
    with (
        _stop_signals() as stop,
        ProgressReport("asking the cluster", delay_s=0.5, line_interval_s=line_interval_s) as progress,
    ):

        def on_progress(phase: str, so_far: ArchiveResult) -> None:
            behind = f"{so_far.lag_offsets} offsets behind" if so_far.lag_offsets else "up to date"
            progress.update(phase, so_far.counts.records, detail=f" group records, {behind}")

        return run_archive(asked, on_progress, lambda text: note(f"warning: {text}"), stop)


@contextlib.contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second Ctrl-C interrupts."""
    stop = threading.Event()

    def handle(*_: object) -> None:
        # Before `set`, which takes a lock that a second signal must not wait for.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summary(result: ArchiveResult) -> Iterator[str]:
    counts = result.counts
    yield f"{result.path}: {result.topic} of cluster {result.cluster_id}, {result.partitions} partitions"
    yield f"archived: {counts.records} group records out of {counts.offsets} offsets"
    left_out = f"{counts.offset_commits} offset commits, {counts.without_key} records without a key"
    yield f"left out: {left_out}"
    if counts.missing:
        why = "compacted or deleted before they were archived, or markers of transactions"
        yield f"missing:  {counts.missing} offsets had no record any more: {why}"
    if result.last_timestamp is not None:
        yield f"up to:    {result.last_timestamp.isoformat(timespec='seconds')}"
    if result.lag_offsets:
        yield f"behind:   {result.lag_offsets} offsets"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(archive)
