"""The archiver, from a broker to a folder of Parquet.

`run_archive` looks at the cluster, opens the archive (`store`), runs the stream (`Run`), and turns errors of
Spark and of the clients into an `ArchiveError` of one line.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from pyspark.sql.streaming.query import StreamingQuery

from kafka_assignors_confluent.connection import Connection
from kafka_assignors_confluent.topics import live_topics
from kafka_assignors_replay.archive import ArchiveError, ArchiveOptions, ArchiveProgress, ArchiveResult
from kafka_assignors_replay.archive.store import (
    CHECKPOINT,
    Archive,
    BatchWriter,
    compaction_warnings,
    identify,
    require_same,
    require_whole,
    source_options,
)
from kafka_assignors_replay.folds.records import from_micros
from kafka_assignors_replay.live_catalogue import SourceError, source_errors
from kafka_assignors_replay.result import ReplayError
from kafka_assignors_replay.source import FORMAT, GroupRecordsSource
from kafka_assignors_replay.source.messages import MessageCounts, RangeReport
from kafka_assignors_replay.source.planning import Planner, SourceOptions
from kafka_assignors_replay.spark.session import SPARK_ERRORS, is_late_worker, one_line, spark_session

_MOST_LOOKS = 1_000


class Lag:
    """The lag in offsets, which is None before the first look, and in seconds.

    A look notes the end of the topic and the time. The lag in seconds is the age of the oldest look whose end
    the archive has not reached.
    """

    def __init__(self) -> None:
        self.offsets: int | None = None
        self.seconds = 0.0
        self._ahead: list[tuple[float, Mapping[int, int]]] = []

    def look(self, ends: Mapping[int, int], next_: Mapping[int, int], now: float) -> None:
        """Note that at `now`, in seconds, the topic ends at `ends` and the archive at `next_`."""
        self._ahead.append((now, ends))
        while self._ahead and all(next_[partition] >= end for partition, end in self._ahead[0][1].items()):
            del self._ahead[0]
        if len(self._ahead) > _MOST_LOOKS:
            # A backlog of days: the oldest look stays, and half of the others go.
            self._ahead = self._ahead[::2]
        self.offsets = sum(max(0, end - next_[partition]) for partition, end in ends.items())
        self.seconds = now - self._ahead[0][0] if self._ahead else 0.0


_WATCH_SECONDS = 0.2
_LOOK_SECONDS = 2.0
"""The time between two looks at the end of the topic, which give the lag."""

_CATALOGUE_SECONDS = 60.0
_NOTING_SECONDS = 2.0
"""How long Spark gets to note a batch as done; otherwise it would read the batch a second time."""

_TRIGGER_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 60.0
_MOST_LATE_WORKERS = 30
"""The most starts that may fail for lack of processor time in a run that otherwise ends with its first error.
With fifteen busy processes for each core most starts fail, and each takes ten seconds."""


_OF_THE_STREAM: tuple[type[Exception], ...] = (SourceError, *SPARK_ERRORS)


class Run:
    """A run, from the start of its stream to the end. Its counts can be read at any time."""

    def __init__(
        self,
        archive: Archive,
        options: ArchiveOptions,
        on_progress: Callable[[ArchiveProgress], None],
        on_warning: Callable[[str], None],
        stop: threading.Event,
    ) -> None:
        self._archive, self._options, self._stop = archive, options, stop
        self._on_progress, self._on_warning = on_progress, on_warning
        self._begin = archive.entry
        self._planner = Planner(SourceOptions.parse(source_options(options)))
        self._worked = False
        self._target = self._ends()
        self._told_log_start: dict[int, int] = {}
        self._writer = BatchWriter(
            archive.folder, archive.ledger, archive.manifest.cluster_id, self._tell_of_deleted
        )
        self._next_look = self._next_catalogue = self._idle_since = 0.0
        self._told = MessageCounts()
        self.topics_changed = 0
        self.lag = Lag()
        self.warnings: list[str] = []

    @property
    def batches(self) -> int:
        return self._archive.entry.batches - self._begin.batches

    @property
    def counts(self) -> MessageCounts:
        return self._archive.entry.counts.since(self._begin.counts)

    @property
    def complete(self) -> bool:
        """Whether the archive has all records that were in the topic when the run began."""
        next_ = self._archive.entry.next
        return all(next_[partition] >= end for partition, end in self._target.items())

    def go(self) -> None:
        """Archive until there is no more to do; start the stream again after an error that may pass."""
        pause, late_workers = 1.0, 0
        while True:
            before = self._archive.entry.batches
            try:
                self._watch(self._start())
                self._look()
                self._tell_of_missing()
                return
            except _OF_THE_STREAM as error:
                if self._writer.failure is not None:
                    raise self._writer.failure from None
                # A topic that was recreated or truncated ends the archiver; without an answer it goes on.
                with contextlib.suppress(SourceError):
                    require_same(self._archive.folder.path, self._archive.manifest, identify(self._options))
                    self._ends()
                late = is_late_worker(error)
                late_workers += late
                may_start = late and late_workers <= _MOST_LATE_WORKERS
                if (self._options.once or not self._worked) and not may_start:
                    raise
                if late or self._archive.entry.batches > before:
                    pause = 1.0
                self._on_warning(f"{one_line(error)}; trying again in {pause:g} s")
            self._report("waiting to try again")
            if self._stop.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _start(self) -> StreamingQuery:
        spark, options, entry = self._archive.spark, self._options, self._archive.entry
        given = {
            **source_options(options),
            "topicId": self._archive.manifest.topic_id,
            "startingOffsets": json.dumps(entry.next),
            "lastRead": json.dumps(entry.last_read),
            "maxOffsetsPerBatch": str(options.max_offsets_per_batch),
            "batchIntervalSeconds": str(0 if options.once else options.interval_seconds),
            "reports": "true",
        }
        if options.committed_offsets_s is not None:
            given["committedOffsetsSeconds"] = str(options.committed_offsets_s)
        if options.once:
            given["endingOffsets"] = json.dumps(self._target)
        spark.dataSource.register(GroupRecordsSource)
        return (
            spark.readStream.format(FORMAT)
            .options(**given)
            .load()
            .writeStream.queryName("kafka-assignors archive")
            .option("checkpointLocation", self._archive.folder.at(CHECKPOINT))
            .trigger(processingTime=f"{_TRIGGER_SECONDS} seconds")
            .foreachBatch(self._writer)
            .start()
        )

    def _watch(self, query: StreamingQuery) -> None:
        """Return when the stream has nothing more to do; raise the error that it fails with."""
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
        """Whether the run may end: nothing more to do, or told to stop, and no batch under way."""
        done = self._options.once and self.complete
        if not (done or self._stop.is_set()) or not self._writer.idle.is_set():
            self._idle_since = now
            return False
        return not query.status["isTriggerActive"] or now > self._idle_since + _NOTING_SECONDS

    def _note_topics(self) -> None:
        options = self._options
        with source_errors():
            connection = Connection(options.bootstrap_servers, options.client_config, options.timeout_seconds)
            topics = [*live_topics(connection)]
        self.topics_changed += self._archive.catalogue.note(topics, datetime.now(timezone.utc))

    def _look(self) -> None:
        # The archive first: while the brokers are asked, it may pass the ends that they return.
        next_ = self._archive.entry.next
        self.lag.look(self._ends(), next_, time.monotonic())
        if self.complete:
            self._tell_of_missing()

    def _tell_of_missing(self) -> None:
        """Warn of missing records once in a run, and again after a longer gap than ever."""
        counts = self.counts
        if not counts.missing or (self._told.missing and counts.longest_gap <= self._told.longest_gap):
            return
        self._told = counts
        self._warn(
            f"{counts.missing} of {counts.offsets} offsets had no record any more, up to "
            f"{counts.longest_gap} in a row since the archive was begun: either compaction took them before "
            "they could be archived, or they are markers of transactions, one for each that commits offsets; "
            "the log does not say which"
        )

    def _tell_of_deleted(self, reports: Sequence[RangeReport]) -> None:
        """Warn once for each place where the log of a partition begins after the archived offsets."""
        for report in sorted(reports, key=lambda report: (report.partition, report.start)):
            partition, log_start = report.partition, report.log_start
            if report.start >= log_start or self._told_log_start.get(partition) == log_start:
                continue
            self._told_log_start[partition] = log_start
            self._warn(
                f"{self._options.topic}[{partition}]: the log begins at offset {log_start}, and the archive "
                f"ended at {report.start}: {log_start - report.start} offsets were deleted before they were "
                "archived; run the archiver without --once, or more often than records are deleted"
            )

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        self._on_warning(text)

    def _ends(self) -> dict[int, int]:
        next_ = self._archive.entry.next
        ends = {partition: end for partition, (_, end) in self._planner.offsets().items()}
        archive = self._archive
        require_same(archive.folder.path, archive.manifest, replace(archive.manifest, partitions=len(ends)))
        require_whole(archive.folder.path, archive.manifest.topic, next_, ends)
        return ends

    def _report(self, phase: str) -> None:
        self._on_progress(
            ArchiveProgress(phase, self.counts, self.batches, self.lag.offsets, self.lag.seconds)
        )


def run_archive(
    options: ArchiveOptions,
    on_progress: Callable[[ArchiveProgress], None],
    on_warning: Callable[[str], None],
    stop: threading.Event,
) -> ArchiveResult:
    """Archive until all records are there (`once`), or until `stop` is set; the batch under way is finished.

    `on_progress` is called often, `on_warning` for each risk for the archive and for each error after which
    the run goes on. Raises `ArchiveError` for any problem with the cluster, the folder, the options or the
    environment; a stream that fails after it has worked is started again.
    """
    started = time.monotonic()
    _check(options)
    on_progress(ArchiveProgress("asking the cluster"))
    try:
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
    except (SourceError, ReplayError, OSError) as error:
        raise ArchiveError(str(error)) from None
    except SPARK_ERRORS as error:
        raise ArchiveError(one_line(error)) from None
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
    if options.committed_offsets_s is not None and options.committed_offsets_s < 1:
        raise ArchiveError(
            f"the interval of committed offsets has at least one second, not {options.committed_offsets_s}"
        )
