"""The content of an archive: how a batch gets into it exactly once, and how a run opens it.

An archive has records of one topic of one cluster. Its manifest names both; it is written once, and every
later run is compared with it.

The ledger has a small file for every batch: the next offset of each partition, and counts of all that was
read. It decides what is in the archive. A batch with an entry is in the archive. Files of a batch without an
entry are left from a run that was killed, and the batch is written again. Entries are numbered and never
changed; the latest one counts, and a few before it are kept.

A batch becomes one file for each date of its records, and one for each date of its kept commits. The name of
these files follows from the number of the batch and from its offsets. Spark repeats an unfinished batch with
the same offsets, so the second attempt makes the same names, and leaves existing files alone: a file is moved
to its name only when it is complete. The entry in the ledger comes last, and a batch that has one is not
written again.

The catalogue has every topic of the cluster, with its earlier states: rows of `schemas.TOPICS`, in a file for
each look at the cluster that found a change. The state of a topic before its first entry is not known, so its
first row has no `from` and holds for all times before the next. A deleted topic keeps its rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_assignors_confluent.connection import Connection, NotAuthorizedError
from kafka_assignors_confluent.topics import LiveTopic, TopicIdentity, identify_topic
from kafka_assignors_replay.archive import ArchiveError, ArchiveOptions
from kafka_assignors_replay.catalogue import CatalogueEntry, changed_entry
from kafka_assignors_replay.live_catalogue import source_errors
from kafka_assignors_replay.result import MANIFEST
from kafka_assignors_replay.schemas import ARCHIVED, COMMITTED, TOPICS
from kafka_assignors_replay.source.messages import MessageCounts, RangeReport
from kafka_assignors_replay.source.planning import LastRead, Planner, SourceOptions
from kafka_assignors_replay.spark.directory import STAGING, Directory
from kafka_assignors_replay.spark.session import SPARK_ERRORS, collect_with_micros, is_late_worker, one_line

FORMAT = 1


def agree(folder: Directory, found: TopicIdentity) -> None:
    """Require an archive of this topic; an empty folder becomes one.

    `ArchiveError` if the folder has an archive of another topic, or other files.
    """
    if folder.exists(MANIFEST):
        require_same(folder.path, _read_manifest(folder), found)
        return
    if foreign := [name for name in folder.names("") if name != "_archive"]:
        raise ArchiveError(
            f"{folder.path}: {', '.join(foreign[:3])} is there already, and no {MANIFEST}: this is not an "
            "archive; give a folder of its own"
        )
    folder.write(MANIFEST, json.dumps({"format": FORMAT, **asdict(found)}, indent=1) + "\n")


def _read_manifest(folder: Directory) -> TopicIdentity:
    where = folder.at(MANIFEST)
    try:
        read: dict[str, Any] = json.loads(folder.read(MANIFEST))
        number = read["format"]
        if number != FORMAT:
            raise ArchiveError(f"{where}: format {number!r}, and this version knows {FORMAT}")
        return TopicIdentity(**{field.name: read[field.name] for field in fields(TopicIdentity)})
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveError(f"{where}: not the manifest of an archive: {error!r}") from None


def require_same(where: str, archived: TopicIdentity, found: TopicIdentity) -> None:
    """`ArchiveError` if `found` is not the topic of the archive at `where`."""
    if archived.cluster_id != found.cluster_id:
        raise ArchiveError(
            f"{where} is the archive of cluster {archived.cluster_id}, and this is cluster "
            f"{found.cluster_id}: give each cluster a folder of its own"
        )
    if archived.topic != found.topic:
        raise ArchiveError(
            f"{where} is the archive of topic {archived.topic}, not of {found.topic}: "
            "give each a folder of its own"
        )
    if archived.topic_id != found.topic_id:
        raise ArchiveError(
            f"topic {found.topic} was recreated since {where} was begun (its id was {archived.topic_id}, "
            f"and is {found.topic_id}): offsets start over, so begin another archive; this one stays readable"
        )
    if archived.partitions != found.partitions:
        raise ArchiveError(
            f"topic {found.topic} has {found.partitions} partitions, and had {archived.partitions} when "
            f"{where} was begun: groups live in other partitions now, so begin another archive; this one "
            "stays readable"
        )


def require_whole(where: str, topic: str, archived: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """`ArchiveError` if the log of a partition ends before its archived offsets.

    `archived` and `ends` are next offsets by partition; `archived` was read before `ends`. New records take
    the offsets of the lost ones, so an archiver that waits until the log is long enough would skip them.
    """
    for partition, end in sorted(ends.items()):
        if end < archived[partition]:
            raise ArchiveError(
                f"{topic}[{partition}]: the log ends at offset {end}, and {where} has it up to "
                f"{archived[partition]}: the log was truncated (an unclean leader election, or a broker that "
                "lost its disk), and other records get these offsets now; begin another archive; this one "
                "stays readable"
            )


SAFE_LAG_MS = 24 * 3_600_000
"""With less than a day, an archiver that stops in the evening loses history before the morning."""

_SUGGESTED_LAG_MS = 7 * 24 * 3_600_000


def identify(options: ArchiveOptions) -> TopicIdentity:
    """The cluster and the topic; `SourceError` if the cluster does not tell, or there is no such topic."""
    with source_errors():
        return identify_topic(_connection(options), options.topic)


def _connection(options: ArchiveOptions) -> Connection:
    return Connection(options.bootstrap_servers, options.client_config, options.timeout_seconds)


def compaction_warnings(options: ArchiveOptions) -> list[str]:
    """Warnings with the settings that make records stay until they are archived; none if they do.

    `SourceError` if the cluster does not answer.
    """
    from confluent_kafka.admin import ConfigResource, ResourceType  # pyright: ignore[reportPrivateImportUsage]

    topic, resource = options.topic, ConfigResource(ResourceType.TOPIC, options.topic)
    with source_errors():
        connection = _connection(options)
        request = connection.admin.describe_configs([resource], request_timeout=connection.timeout_s)
        right = f"DescribeConfigs on Topic {topic!r}"
        try:
            told = connection.result("its settings are not shown", request[resource], right)
        except NotAuthorizedError as error:
            return [f"cannot tell how long {topic} keeps its records: {error}"]
    policy = str(told["cleanup.policy"].value)
    lag_ms, retention_ms = (int(told[name].value) for name in ("min.compaction.lag.ms", "retention.ms"))
    warnings = []
    if "compact" in policy and lag_ms < SAFE_LAG_MS:
        warnings.append(
            f"min.compaction.lag.ms of {topic} is {lag_ms}: records that the log cleaner removes while no "
            "archiver runs are lost; to keep every record for a week: kafka-configs.sh --bootstrap-server "
            f"{options.bootstrap_servers} --alter --entity-type topics --entity-name {topic} --add-config "
            f"min.compaction.lag.ms={_SUGGESTED_LAG_MS}"
        )
    if "delete" in policy and 0 <= retention_ms < SAFE_LAG_MS:
        warnings.append(
            f"cleanup.policy of {topic} is {policy} and retention.ms {retention_ms}: records that are "
            "deleted while no archiver runs are lost"
        )
    return warnings


RAW_FOLDER = "raw"
COMMITTED_FOLDER = "committed"
_LEDGER = "_archive/ledger"
_KEPT = 5


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The state of an archive after a number of batches.

    Attributes:
        batches: written since the archive was begun; the number of the next one.
        next: the next offset to read, of each partition.
        counts: of all offsets that were read.
        last_timestamp_ms: the latest of all records that were read.
        last_read: the last record that was read of each partition, which shows later whether the log was
            truncated.
    """

    batches: int
    next: Mapping[int, int]
    counts: MessageCounts = field(default_factory=MessageCounts)
    last_timestamp_ms: int | None = None
    last_read: Mapping[int, LastRead] = field(default_factory=dict)

    def after(self, reports: Iterable[RangeReport]) -> LedgerEntry:
        """The state after the batch of these reports."""
        reports = sorted(reports, key=lambda report: report.start)
        next_, last_read = dict(self.next), dict(self.last_read)
        for report in reports:
            if report.last_read is not None:
                last_read[report.partition] = report.last_read
            next_[report.partition] = max(next_[report.partition], report.end)
        stamps = (self.last_timestamp_ms, *(report.last_timestamp_ms for report in reports))
        return LedgerEntry(
            self.batches + 1,
            next_,
            sum((report.counts for report in reports), self.counts),
            max((stamp for stamp in stamps if stamp is not None), default=None),
            last_read,
        )

    @classmethod
    def from_json(cls, text: str) -> LedgerEntry:
        """The inverse of `asdict`; `ValueError`, `TypeError`, `KeyError` or `AttributeError` for any other
        text."""
        read: dict[str, Any] = json.loads(text)
        return cls(
            next={int(partition): offset for partition, offset in read.pop("next").items()},
            counts=MessageCounts.from_json(read.pop("counts")),
            last_read={
                int(partition): LastRead(*map(int, each)) for partition, each in read.pop("last_read").items()
            },
            **read,
        )


class Ledger:
    """The entries of an archive, with the latest in memory. One thread appends, others may read."""

    def __init__(self, folder: Directory) -> None:
        self._folder = folder
        self.latest: LedgerEntry | None = None
        names = [name for name in folder.names(_LEDGER) if name.endswith(".json")]
        if names:
            where = f"{_LEDGER}/{names[-1]}"
            try:
                self.latest = LedgerEntry.from_json(folder.read(where))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ArchiveError(f"{folder.at(where)}: not an entry of the ledger: {error!r}") from None

    def append(self, entry: LedgerEntry) -> None:
        self._folder.write(f"{_LEDGER}/{entry.batches:010d}.json", json.dumps(asdict(entry)) + "\n")
        self.latest = entry
        for name in self._folder.names(_LEDGER)[:-_KEPT]:
            self._folder.delete(f"{_LEDGER}/{name}")


class BatchError(RuntimeError):
    """A batch cannot be written: one line that says where and why. A later attempt may succeed."""


class BatchWriter:
    """Writes the batches of one run, one after the other.

    `idle` is clear while a batch is written; `failure` is the `ArchiveError` that ended the stream.
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
        """Write a batch; Spark calls it. `batch_id` is Spark's own number, which starts over with a new
        checkpoint."""
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
                self._write_new(entry, rows, reports)
                self._on_written(reports)
        finally:
            rows.unpersist()

    def _write_new(self, entry: LedgerEntry, rows: DataFrame, reports: Sequence[RangeReport]) -> None:
        name = batch_name(entry.batches, reports)
        try:
            if any(report.counts.group_records for report in reports):
                self._folder.write_parquet(self._records(rows), RAW_FOLDER, name, "date")
            if any(report.counts.commits_kept for report in reports):
                self._folder.write_parquet(self._commits(rows), COMMITTED_FOLDER, name, "date")
            self._ledger.append(entry.after(reports))
        except SPARK_ERRORS as error:
            if is_late_worker(error):
                raise
            # Spark passes on only the text of an error in a callback.
            raise BatchError(
                f"{self._folder.path}: a batch cannot be written: {one_line(error)}; archived records stay, "
                "and the next attempt continues there"
            ) from None

    def _records(self, rows: DataFrame) -> DataFrame:
        records = rows.where(F.col("report").isNull())
        if "topic" in rows.columns:
            records = records.where(F.col("topic").isNull())
        return self._dated(records, ARCHIVED).sortWithinPartitions("date", "partition", "offset")

    def _commits(self, rows: DataFrame) -> DataFrame:
        # Sorted by partition, commits take the least space.
        commits = self._dated(rows.where(F.col("topic").isNotNull()), COMMITTED)
        return commits.sortWithinPartitions("date", "group", "topic", "topic_partition", "offset")

    def _dated(self, rows: DataFrame, columns: pa.Schema) -> DataFrame:
        # In UTC, regardless of the session's time zone, also before 1970: a record without a time has -1 ms.
        day = F.date_from_unix_date(F.floor(F.unix_seconds("timestamp") / 86_400).cast("int"))
        return (
            rows.withColumn("cluster_id", F.lit(self._cluster_id))
            .withColumn("date", day)
            .select(*columns.names)
            .repartition(1)
        )


def batch_name(number: int, reports: Iterable[RangeReport]) -> str:
    """The name of the files of a batch, without its ending."""
    ranges = sorted((report.partition, report.start, report.end) for report in reports)
    return f"{number:010d}-{hashlib.sha256(repr(ranges).encode()).hexdigest()[:16]}"


def _is_new(entry: LedgerEntry, reports: Iterable[RangeReport]) -> bool:
    """Whether a batch is the next one; False if it was written before."""
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


TOPICS_FOLDER = "topics"


class CatalogueLog:
    """The catalogue of an archive, which is read once and then only grows."""

    def __init__(self, spark: SparkSession, folder: Directory) -> None:
        self._spark, self._folder = spark, folder
        files = [name for name in folder.names(TOPICS_FOLDER) if name.endswith(".parquet")]
        self._next_file = int(files[-1].partition(".")[0]) + 1 if files else 0
        self._known: dict[str, CatalogueEntry] = {}
        if files:
            rows = spark.read.schema(from_arrow_schema(TOPICS)).parquet(folder.at(TOPICS_FOLDER))
            read = map(CatalogueEntry.from_row, collect_with_micros(rows))
            for entry in sorted(read, key=lambda entry: (entry.since is not None, entry.since)):
                self._known[entry.topic.name] = entry

    def note(self, found: Iterable[LiveTopic], now: datetime) -> int:
        """Write the topics that have changed since the last look; returns how many there are."""
        changes = (
            changed_entry(self._known.get(live.topic.name), live.topic, now, racks_known=live.complete)
            for live in found
        )
        if new := [entry for entry in changes if entry is not None]:
            rows = self._spark.createDataFrame([entry.row() for entry in new], from_arrow_schema(TOPICS))
            self._folder.write_parquet(rows.coalesce(1), TOPICS_FOLDER, f"{self._next_file:010d}")
            self._next_file += 1
            self._known.update((entry.topic.name, entry) for entry in new)
        return len(new)


CHECKPOINT = "_archive/checkpoint"
_LOCK = "_archive/lock"


@dataclass(frozen=True, slots=True)
class Archive:
    """The parts of an archive of the topic that `manifest` names."""

    spark: SparkSession
    folder: Directory
    ledger: Ledger
    manifest: TopicIdentity
    catalogue: CatalogueLog

    @property
    def entry(self) -> LedgerEntry:
        assert self.ledger.latest is not None  # `open` writes the first entry
        return self.ledger.latest

    @classmethod
    @contextlib.contextmanager
    def open(cls, spark: SparkSession, options: ArchiveOptions, found: TopicIdentity) -> Iterator[Archive]:
        """Open the archive at the path of the options, for this process alone until the block ends.

        Raises `ArchiveError` if the archive is of another topic, damaged, or open in another process.
        """
        folder = Directory(spark, options.path)
        agree(folder, found)
        with folder.lock(_LOCK) as locked:
            if not locked:
                raise ArchiveError(
                    f"{folder.path}: another archiver writes to this archive: stop it first, or give this "
                    "one a folder of its own"
                )
            folder.delete(STAGING)
            ledger = Ledger(folder)
            has_checkpoint = bool(folder.names(CHECKPOINT))
            if ledger.latest is None:
                if has_checkpoint or folder.names(RAW_FOLDER) or folder.names(COMMITTED_FOLDER):
                    raise ArchiveError(
                        f"{folder.path}: _archive/ledger is gone, so the archived offsets are not known; "
                        "restore it, or begin another archive"
                    )
                log = Planner(SourceOptions.parse(source_options(options))).offsets()
                ledger.append(
                    LedgerEntry(0, {partition: earliest for partition, (earliest, _) in log.items()})
                )
            archive = cls(spark, folder, ledger, found, CatalogueLog(spark, folder))
            if not has_checkpoint:
                remove_files_of(folder, archive.entry.batches)
            yield archive


def source_options(options: ArchiveOptions) -> dict[str, str]:
    """The options of the source that name the cluster and the topic."""
    return {
        **{f"kafka.{name}": value for name, value in options.client_config.items()},
        "bootstrap.servers": options.bootstrap_servers,
        "topic": options.topic,
        "timeoutSeconds": str(options.timeout_seconds),
    }


def remove_files_of(folder: Directory, number: int) -> None:
    """Remove the files of an unfinished batch of a killed run, which would get other names now."""
    for kind in (RAW_FOLDER, COMMITTED_FOLDER):
        for date in folder.names(kind):
            for name in folder.names(f"{kind}/{date}"):
                if name.startswith(f"{number:010d}-"):
                    folder.delete(f"{kind}/{date}/{name}")
