"""The archiver, from a broker to a folder of Parquet.

`run_archive` opens the archive, starts the stream, watches it, and turns what Spark and the clients raise
into an `ArchiveError` of one line. What a batch becomes is in `writer`.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_assignors_spark.archive.catalogue_log import CatalogueLog
from kafka_assignors_spark.archive.folder import STAGING, Folder
from kafka_assignors_spark.archive.ledger import Entry, Ledger
from kafka_assignors_spark.archive.manifest import Manifest, agree, require_same
from kafka_assignors_spark.archive.result import (
    ArchiveError,
    ArchiveOptions,
    ArchiveProgress,
    ArchiveResult,
    Counts,
)
from kafka_assignors_spark.archive.topic import compaction_warnings, identify
from kafka_assignors_spark.archive.writer import BatchWriter, remove_files_of
from kafka_assignors_spark.cluster import SourceError, live_topics
from kafka_assignors_spark.instants import from_micros
from kafka_assignors_spark.result import ReplayError
from kafka_assignors_spark.session import spark_session
from kafka_assignors_spark.source import FORMAT, GroupRecordsSource, Planner, SourceOptions
from kafka_assignors_spark.spark_errors import SPARK_ERRORS, one_line

__all__ = ["run_archive"]

_CHECKPOINT = "_archive/checkpoint"

_WATCH_SECONDS = 0.2
_LOOK_SECONDS = 2.0
"""Between two looks at the end of the topic, from which the lag is known."""

_CATALOGUE_SECONDS = 60.0
_NOTING_SECONDS = 2.0
_TRIGGER_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 60.0
_OF_THE_STREAM: tuple[type[Exception], ...] = (SourceError, *SPARK_ERRORS)
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


def run_archive(
    options: ArchiveOptions,
    on_progress: Callable[[ArchiveProgress], None],
    on_warning: Callable[[str], None],
    stop: threading.Event,
) -> ArchiveResult:
    """Archive until everything is there (`once`), or until `stop` is set; the batch under way is finished.

    `on_progress` is called every now and then, `on_warning` with what threatens the archive and with what
    goes wrong on the way. Raises `ArchiveError` for whatever is wrong with the cluster, the folder, the
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
        with spark_session(options.master, options.spark_config) as spark, _parquet_timestamps(spark):
            archive = _Archive.open(spark, options, found)
            run = _Run(archive, options, on_progress, on_warning, stop)
            run.go()
    if (missing := run.counts.missing) > 0:
        warnings.append(_missing(run.counts, missing))
        on_warning(warnings[-1])
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
        warnings=tuple(warnings),
        seconds=time.monotonic() - started,
    )


def _check(options: ArchiveOptions) -> None:
    if options.max_offsets_per_batch < 1:
        raise ArchiveError(f"a batch has at least one offset, not {options.max_offsets_per_batch}")
    if options.interval_seconds < 0:
        raise ArchiveError(f"the interval is a number of seconds from 0 up, not {options.interval_seconds:g}")


def _missing(counts: Counts, missing: int) -> str:
    return (
        f"{missing} of {counts.offsets} offsets had no record any more, up to {counts.longest_gap} in a row: "
        "either compaction took them before they could be archived, or they are markers of transactions, "
        "of which there is one for each transaction that commits offsets; the log does not say which"
    )


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (SourceError, ReplayError, OSError) as error:
        raise ArchiveError(str(error)) from None
    except SPARK_ERRORS as error:
        raise ArchiveError(one_line(error)) from None


@contextlib.contextmanager
def _parquet_timestamps(spark: SparkSession) -> Iterator[None]:
    """Timestamps that every reader of Parquet knows. Spark's default is a type that is given up elsewhere."""
    before = spark.conf.get(_TIMESTAMPS)
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(_TIMESTAMPS, str(before))


@dataclass(frozen=True, slots=True)
class _Archive:
    """An archive that is of the topic at hand, and in order."""

    spark: SparkSession
    folder: Folder
    ledger: Ledger
    manifest: Manifest
    catalogue: CatalogueLog

    @property
    def entry(self) -> Entry:
        assert self.ledger.latest is not None  # `open` sees to it
        return self.ledger.latest

    @classmethod
    def open(cls, spark: SparkSession, options: ArchiveOptions, found: Manifest) -> _Archive:
        folder = Folder(spark, options.path)
        agree(folder, found)
        folder.delete(STAGING)
        ledger = Ledger(folder)
        has_checkpoint = bool(folder.names(_CHECKPOINT))
        if ledger.latest is None:
            if has_checkpoint or folder.names("raw"):
                raise ArchiveError(
                    f"{folder.path}: _archive/ledger is gone, so nobody knows what is archived already; "
                    "restore it, or begin another archive"
                )
            offsets = Planner(SourceOptions.parse(_source_options(options))).offsets()
            ledger.append(Entry(0, {partition: earliest for partition, (earliest, _) in offsets.items()}))
        assert ledger.latest is not None
        if not has_checkpoint:
            remove_files_of(folder, ledger.latest.batches)
        return cls(spark, folder, ledger, found, CatalogueLog(spark, folder))


def _source_options(options: ArchiveOptions) -> dict[str, str]:
    return {
        **{f"kafka.{name}": value for name, value in options.client_config.items()},
        "bootstrap.servers": options.bootstrap_servers,
        "topic": options.topic,
        "timeoutSeconds": str(options.timeout_seconds),
    }


class _Lag:
    """How far an archive is behind the topic.

    The archive has what was in the topic at the time of the latest look whose end it has reached.
    """

    def __init__(self) -> None:
        self.offsets: int | None = None
        self.seconds = 0.0
        self._ahead: deque[tuple[float, Mapping[int, int]]] = deque()

    def look(self, ends: Mapping[int, int], next_: Mapping[int, int], now: float) -> None:
        """The topic ends at `ends` now, a time in seconds, and the archive at `next_`."""
        self._ahead.append((now, ends))
        while self._ahead and all(next_[partition] >= end for partition, end in self._ahead[0][1].items()):
            self._ahead.popleft()
        self.offsets = sum(max(0, end - next_[partition]) for partition, end in ends.items())
        self.seconds = now - self._ahead[0][0] if self._ahead else 0.0


class _Run:
    """One run of the archiver, from the start of its stream to the end."""

    def __init__(
        self,
        archive: _Archive,
        options: ArchiveOptions,
        on_progress: Callable[[ArchiveProgress], None],
        on_warning: Callable[[str], None],
        stop: threading.Event,
    ) -> None:
        self._archive, self._options, self._stop = archive, options, stop
        self._on_progress, self._on_warning = on_progress, on_warning
        self._begin = archive.entry
        self._planner: Planner | None = None
        self._worked = False
        self._target = self._ends()
        self._writer = BatchWriter(archive.folder, archive.ledger, archive.manifest.cluster_id)
        self._next_look = self._next_catalogue = self._idle_since = 0.0
        self.topics_changed = 0
        self.lag = _Lag()

    @property
    def batches(self) -> int:
        return self._archive.entry.batches - self._begin.batches

    @property
    def counts(self) -> Counts:
        return self._archive.entry.counts.since(self._begin.counts)

    @property
    def complete(self) -> bool:
        """Whether the archive has what was in the topic when the run began."""
        next_ = self._archive.entry.next
        return all(next_[partition] >= end for partition, end in self._target.items())

    def go(self) -> None:
        """Archive until there is no more to do, starting the stream again where that can help."""
        pause = 1.0
        while True:
            before = self._archive.entry.batches
            try:
                if self._worked:
                    found = identify(self._options)
                    require_same(self._archive.folder.path, self._archive.manifest, found)
                self._watch(self._start())
                self._look()
                return
            except _OF_THE_STREAM as error:
                if self._writer.failure is not None:
                    raise self._writer.failure from None
                if self._options.once or not self._worked:
                    raise
                self._on_warning(f"{one_line(error)}; trying again in {pause:g} s")
            pause = 1.0 if self._archive.entry.batches > before else min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self._report("waiting to try again")
            if self._stop.wait(pause):
                return

    def _start(self) -> StreamingQuery:
        spark, options, entry = self._archive.spark, self._options, self._archive.entry
        given = {
            **_source_options(options),
            "topicId": self._archive.manifest.topic_id,
            "startingOffsets": json.dumps(entry.next),
            "maxOffsetsPerBatch": str(options.max_offsets_per_batch),
            "batchIntervalSeconds": str(0 if options.once else options.interval_seconds),
            "reports": "true",
        }
        if options.once:
            given["endingOffsets"] = json.dumps(self._target)
        spark.dataSource.register(GroupRecordsSource)
        return (
            spark.readStream.format(FORMAT)
            .options(**given)
            .load()
            .writeStream.queryName("kafka-assignors archive")
            .option("checkpointLocation", self._archive.folder.at(_CHECKPOINT))
            .trigger(processingTime=f"{_TRIGGER_SECONDS} seconds")
            .foreachBatch(self._writer)
            .start()
        )

    def _watch(self, query: StreamingQuery) -> None:
        """Until the stream has done what it is for; what it fails with is raised."""
        try:
            while query.isActive:
                now = time.monotonic()
                if now >= self._next_catalogue:
                    self._next_catalogue = now + _CATALOGUE_SECONDS
                    self._note_topics()
                if now >= self._next_look:
                    self._next_look = now + _LOOK_SECONDS
                    self._look()
                self._worked = self._worked or query.lastProgress is not None
                if self._may_end(query, now):
                    return
                self._report("finishing the last batch" if self._stop.is_set() else "archiving")
                time.sleep(_WATCH_SECONDS)
            if (error := query.exception()) is not None:
                raise error
        finally:
            query.stop()

    def _may_end(self, query: StreamingQuery, now: float) -> bool:
        """Whether it is time to end. Spark would read a batch that it did not note as done a second time."""
        done = self._options.once and self.complete
        if not (done or self._stop.is_set()) or not self._writer.idle.is_set():
            self._idle_since = now
            return False
        return not query.status["isTriggerActive"] or now > self._idle_since + _NOTING_SECONDS

    def _note_topics(self) -> None:
        options = self._options
        topics = live_topics(options.bootstrap_servers, options.client_config, options.timeout_seconds)
        self.topics_changed += self._archive.catalogue.note(topics, datetime.now(timezone.utc))

    def _look(self) -> None:
        # The archive first: what it reaches while we ask may lie behind the ends that we get.
        next_ = self._archive.entry.next
        self.lag.look(self._ends(), next_, time.monotonic())

    def _ends(self) -> dict[int, int]:
        if self._planner is None:
            self._planner = Planner(SourceOptions.parse(_source_options(self._options)))
        ends = {partition: end for partition, (_, end) in self._planner.offsets().items()}
        archive = self._archive
        require_same(archive.folder.path, archive.manifest, replace(archive.manifest, partitions=len(ends)))
        return ends

    def _report(self, phase: str) -> None:
        self._on_progress(
            ArchiveProgress(phase, self.counts, self.batches, self.lag.offsets, self.lag.seconds)
        )
