"""The archiver, from a broker to a folder of Parquet.

`run_archive` looks at the cluster, opens the archive (`opening`), lets the stream run (`run`, `writer`), and
turns what Spark and the clients raise into an `ArchiveError` of one line.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from kafka_assignors_spark.archive.opening import Archive
from kafka_assignors_spark.archive.result import (
    ArchiveError,
    ArchiveOptions,
    ArchiveProgress,
    ArchiveResult,
)
from kafka_assignors_spark.archive.run import Run
from kafka_assignors_spark.archive.topic import compaction_warnings, identify
from kafka_assignors_spark.jobs.session import spark_session
from kafka_assignors_spark.jobs.spark_errors import SPARK_ERRORS, one_line
from kafka_assignors_spark.options import ReplayError
from kafka_assignors_spark.source.cluster import SourceError
from kafka_assignors_spark.timestamps import from_micros

__all__ = ["run_archive"]


def run_archive(
    options: ArchiveOptions,
    on_progress: Callable[[ArchiveProgress], None],
    on_warning: Callable[[str], None],
    stop: threading.Event,
) -> ArchiveResult:
    """Archive until everything is there (`once`), or until `stop` is set; the batch under way is finished.

    `on_progress` is called every now and then, `on_warning` with what threatens the archive and with what
    goes wrong on the way. Raises `ArchiveError` for any problem with the cluster, the folder, the
    options or the environment; a stream that has worked and fails is started again.
    """
    started = time.monotonic()
    _check(options)
    on_progress(ArchiveProgress("asking the cluster"))
    with _one_line_errors():
        found = identify(options)
        warnings = compaction_warnings(options)
        for warning in warnings:
            on_warning(warning)
        on_progress(ArchiveProgress("starting Spark"))
        with (
            spark_session(options.master, options.spark_config) as spark,
            Archive.open(spark, options, found) as archive,
        ):
            run = Run(archive, options, on_progress, on_warning, stop)
            run.go()
    last = archive.entry.last_timestamp_ms
    return ArchiveResult(
        path=archive.folder.path,
        cluster_id=found.cluster_id,
        topic=found.topic,
        partitions=found.partitions,
        batches=run.batches,
        counts=run.counts,
        total=archive.entry.counts,
        last_timestamp=None if last is None else from_micros(last * 1000),
        topics_changed=run.topics_changed,
        lag_offsets=run.lag.offsets,
        lag_seconds=run.lag.seconds,
        complete=run.complete,
        warnings=(*warnings, *run.warnings),
        seconds=time.monotonic() - started,
    )


def _check(options: ArchiveOptions) -> None:
    if options.max_offsets_per_batch < 1:
        raise ArchiveError(f"a batch has at least one offset, not {options.max_offsets_per_batch}")
    if options.interval_seconds < 0:
        raise ArchiveError(f"the interval is a number of seconds from 0 up, not {options.interval_seconds:g}")


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (SourceError, ReplayError, OSError) as error:
        raise ArchiveError(str(error)) from None
    except SPARK_ERRORS as error:
        raise ArchiveError(one_line(error)) from None
