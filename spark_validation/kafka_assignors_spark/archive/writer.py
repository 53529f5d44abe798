"""One batch of the stream into the archive, exactly once however often it is tried.

A batch becomes one file in the folder of each date that it has records of, and one in another folder of each
date that it has kept commits of. The name of these files is made from the number of the batch and from the
offsets that it covers. Spark runs a batch that did not end again between the
same offsets, so the second attempt makes the same names, and leaves alone what is there: a file is moved to
its name when it is complete. The entry in the ledger comes last, and a batch that has one is not written
again.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_assignors_spark.archive import ArchiveError
from kafka_assignors_spark.archive.store import COMMITTED_FOLDER, RAW_FOLDER, Ledger, LedgerEntry
from kafka_assignors_spark.jobs.directory import Directory
from kafka_assignors_spark.jobs.session import SPARK_ERRORS, is_late_worker, one_line
from kafka_assignors_spark.schemas import ARCHIVED, COMMITTED
from kafka_assignors_spark.source.messages import RangeReport


class BatchError(RuntimeError):
    """A batch cannot be written: one line that says where and why. A later attempt may succeed."""


class BatchWriter:
    """Writes the batches of one run, one after the other.

    `idle` is clear while a batch is written; `failure` is the error of ours that ended the stream.
    `on_written` is called with the reports of each batch when it is in the archive.
    """

    def __init__(
        self,
        folder: Directory,
        ledger: Ledger,
        cluster_id: str,
        on_written: Callable[[Sequence[RangeReport]], None] = lambda reports: None,
    ) -> None:
        self._folder, self._ledger, self._cluster_id = folder, ledger, cluster_id
        self._on_written = on_written
        self.idle = threading.Event()
        self.idle.set()
        self.failure: ArchiveError | None = None

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """What Spark calls with each batch. Its number is Spark's own, and starts over with a checkpoint."""
        self.idle.clear()
        try:
            self.write(rows)
        except ArchiveError as error:
            self.failure = error
            raise
        finally:
            self.idle.set()

    def write(self, rows: DataFrame) -> None:
        """`rows` are those of `schemas.REPORTED`, or of `schemas.REPORTED_WITH_COMMITS`."""
        rows.persist()
        try:
            reported = rows.where(F.col("report").isNotNull()).select("report").collect()
            reports = [RangeReport.from_json(row["report"]) for row in reported]
            entry = self._ledger.latest
            assert entry is not None  # an archive begins with one
            if _is_new(entry, reports):
                with _batch_errors(self._folder.path):
                    name = batch_name(entry.batches, reports)
                    if any(report.counts.group_records for report in reports):
                        self._folder.write_parquet(self._records(rows), RAW_FOLDER, name, "date")
                    if any(report.counts.commits_kept for report in reports):
                        self._folder.write_parquet(self._commits(rows), COMMITTED_FOLDER, name, "date")
                    self._ledger.append(entry.after(reports))
                self._on_written(reports)
        finally:
            rows.unpersist()

    def _records(self, rows: DataFrame) -> DataFrame:
        records = rows.where(F.col("report").isNull())
        if "topic" in rows.columns:
            records = records.where(F.col("topic").isNull())
        return self._dated(records, ARCHIVED).sortWithinPartitions("date", "partition", "offset")

    def _commits(self, rows: DataFrame) -> DataFrame:
        # The commits of a partition one after the other take the least space.
        commits = self._dated(rows.where(F.col("topic").isNotNull()), COMMITTED)
        return commits.sortWithinPartitions("date", "group", "topic", "topic_partition", "offset")

    def _dated(self, rows: DataFrame, columns: pa.Schema) -> DataFrame:
        # In UTC, regardless of the session's time zone, and before 1970 too: a record without a timestamp has
        # -1 ms.
        day = F.date_from_unix_date(F.floor(F.unix_seconds("timestamp") / 86_400).cast("int"))
        return (
            rows.withColumn("cluster_id", F.lit(self._cluster_id))
            .withColumn("date", day)
            .select(*columns.names)
            .repartition(1)
        )


@contextlib.contextmanager
def _batch_errors(path: str) -> Iterator[None]:
    """Put the cause into the text of an error: Spark passes on nothing else of an error in a callback."""
    try:
        yield
    except SPARK_ERRORS as error:
        if is_late_worker(error):
            raise
        raise BatchError(
            f"{path}: a batch cannot be written: {one_line(error)}; what is archived stays, and the next "
            "attempt goes on there"
        ) from None


def batch_name(number: int, reports: Iterable[RangeReport]) -> str:
    """The name of the files of a batch, without its ending."""
    ranges = sorted((report.partition, report.start, report.end) for report in reports)
    return f"{number:010d}-{hashlib.sha256(repr(ranges).encode()).hexdigest()[:16]}"


def _is_new(entry: LedgerEntry, reports: Iterable[RangeReport]) -> bool:
    """Whether a batch is the one to come; False if it was written before."""
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    for report in reports:
        start[report.partition] = min(start.get(report.partition, report.start), report.start)
        end[report.partition] = max(end.get(report.partition, report.end), report.end)
    if all(entry.next[partition] == offset for partition, offset in end.items()):
        return False
    if all(entry.next[partition] == offset for partition, offset in start.items()):
        return True
    raise ArchiveError(
        f"the checkpoint of the stream goes on at offsets {start}, and the archive at "
        f"{ {partition: entry.next[partition] for partition in start} }: "
        "one of them was restored or edited; remove _archive/checkpoint and start again, "
        "which loses and doubles nothing"
    )
