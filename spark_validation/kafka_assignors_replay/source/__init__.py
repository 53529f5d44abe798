"""A Spark data source for the group records of a live `__consumer_offsets`.

    spark.dataSource.register(GroupRecordsSource)
    spark.read.format("kafka_group_records").option("bootstrap.servers", "broker:9092").load()
    spark.readStream.format("kafka_group_records").option("bootstrap.servers", "broker:9092").load()

Rows have the columns of `schemas.RAW`. Offset commits, nearly all of the topic's volume, are dropped first,
by the first two bytes of the key.

Spark's own Kafka connector leaves internal topics out, and reads nothing from this topic without an error.
This source reads with librdkafka (confluent-kafka) instead. It assigns partitions and never subscribes, so
it joins no group, commits nothing and leaves no trace in the topic.

Offsets are fixed when the query, or a batch of a stream, is planned: every input partition is a range of
offsets of one partition of the topic, and reads exactly this range, also if it starts late. Offsets in the
range that are gone from the log are no error: the report counts them as `missing`. A batch query without
records is an error, since an empty result could be taken for a cluster without groups.

The source has no `pushFilters`: with it Spark 4.1 and 4.3 count wrongly when a frame is used with and without
a filter. Options restrict the rows instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kafka_assignors_replay.live_catalogue import SourceError
from kafka_assignors_replay.source.messages import read_range
from kafka_assignors_replay.source.planning import (
    LogOffsets,
    OffsetRange,
    Planner,
    SourceOptions,
    bounded,
    cut,
)

FORMAT = "kafka_group_records"


class GroupRecordsSource(DataSource):
    """The data source: its name, its schema and its readers.

    Options (names are case-insensitive):

    | option | meaning | default |
    |---|---|---|
    | `bootstrap.servers` | brokers to ask first | required |
    | `kafka.<property>` | any librdkafka property (security and the like) | |
    | `topic` | the topic to read | `__consumer_offsets` |
    | `topicId` | the id that the topic must have, or the query fails | any |
    | `groups` | a JSON array of group ids: read their partitions alone, and only their records | all groups |
    | `startingOffsets` | `earliest`, `latest`, or a JSON object of offsets by partition | `earliest` |
    | `lastRead` | the last record read before `startingOffsets`: a JSON object of `[offset + 1, leader \
    epoch]` by partition; the query fails if the log has it no longer (KIP-320) | |
    | `endingOffsets` | the same | `latest` |
    | `maxOffsetsPerTask` | cut longer ranges, so that one partition keeps several cores busy | 1000000 |
    | `timeoutSeconds` | longest wait for the brokers when planning, and for the next record in a task | 10 |
    | `committedOffsetsSeconds` | also a row for the last offset commit of each partition of a \
    group in each interval of this many seconds, and `reports` (`schemas.REPORTED_WITH_COMMITS`) | none |
    | `reports` | `true` adds a column, and after each range a row with a `RangeReport` as JSON | `false` |
    | `maxOffsetsPerBatch` | in a stream, the longest batch, over all partitions | 1000000 |
    | `batchIntervalSeconds` | in a stream, from one batch that reaches the end of the log to the next | 0 |
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(SourceOptions.parse(self.options).columns)

    def reader(self, schema: StructType) -> GroupRecordsReader:
        return GroupRecordsReader(SourceOptions.parse(self.options))

    def streamReader(self, schema: StructType) -> GroupRecordsStreamReader:
        return GroupRecordsStreamReader(SourceOptions.parse(self.options))


class _RangeReader:
    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of `schemas.RAW`, in the order of offsets."""
        assert isinstance(partition, OffsetRange)
        return read_range(self.options, partition)


class GroupRecordsReader(_RangeReader, DataSourceReader):
    """Plans on the driver, reads on the executors. It is pickled, so clients are made inside its methods."""

    def partitions(self) -> Sequence[OffsetRange]:
        """The ranges to read now; `SourceError` if there is nothing to read or no broker answers."""
        options = self.options
        log = Planner(options).offsets()
        ends = options.ends(log)
        ranges: list[OffsetRange] = []
        for partition, start in sorted(options.starts(log).items()):
            ranges += cut(partition, start, ends[partition], options.max_offsets_per_task, log[partition][0])
        if not ranges:
            where = f"topic {options.topic!r} at {options.bootstrap_servers}"
            if options.groups is not None:
                where = f"partitions {sorted(log)} of {where}, where the groups asked for live,"
            raise SourceError(f"nothing to read: {where} has no records in the range of offsets asked for")
        return ranges


if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # before PySpark 4.2
        SupportsTriggerAvailableNow = object


class GroupRecordsStreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in a process of the driver that lives as long as the query, and reads on the executors.

    `Trigger.AvailableNow` runs several batches from PySpark 4.2 on, and one bounded batch before.

    An offset of the stream is an object of the next offset by partition: `{"0": 17, "1": 4}`. Spark writes
    the offsets of each batch to the checkpoint before the batch runs, and reads an unfinished batch again
    between the same offsets, so the reader keeps no state and `commit` does nothing. Before PySpark 4.2
    `latestOffset` does not get the start of the batch: the reader remembers the end of the last one; after a
    checkpoint it takes the start from the option `startingOffsets`, or from the batch that Spark runs again.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._planner: Planner | None = None
        self._position: dict[int, int] | None = None
        self._ends: dict[int, int] | None = None
        self._quiet_until = 0.0

    def initialOffset(self) -> dict[str, int]:
        """The start of a query without a checkpoint."""
        self._position = self.options.starts(self._log())
        return _offset(self._position)

    def latestOffset(self, start: Mapping[str, int] | None = None, limit: object = None) -> dict[str, int]:
        """The end of the next batch: at most `maxOffsetsPerBatch` from `start`, regardless of Spark's
        `limit`.

        After a batch that reaches the end of the log, the next one waits for `batchIntervalSeconds`.
        """
        begin = self._position if start is None else _offsets(start)
        if begin is not None and time.monotonic() < self._quiet_until:
            return _offset(begin)
        log = self._log()
        begin = self.options.starts(log) if begin is None else begin
        ends = self._ends if self._ends is not None else self.options.ends(log)
        self._check(begin, log)
        ends = {partition: max(end, begin[partition]) for partition, end in ends.items()}
        planned = bounded(begin, ends, self.options.max_offsets_per_batch)
        if planned == ends:
            self._quiet_until = time.monotonic() + self.options.batch_interval_seconds
        self._position = begin
        return _offset(planned)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than the current end of the log."""
        self._ends = self.options.ends(self._log())

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[OffsetRange]:
        """The ranges of one batch. Deleted offsets are left out, and reported as missing."""
        begin, self._position = _offsets(start), _offsets(end)
        log = self._log()
        ranges: list[OffsetRange] = []
        for partition, stop in sorted(self._position.items()):
            log_start, _ = log.get(partition, (0, 0))
            ranges += cut(partition, begin[partition], stop, self.options.max_offsets_per_task, log_start)
        return ranges

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    def _log(self) -> LogOffsets:
        if self._planner is None:
            self._planner = Planner(self.options)
        return self._planner.offsets()

    def _check(self, begin: Mapping[int, int], log: LogOffsets) -> None:
        topic = self.options.topic
        if begin.keys() != log.keys():
            raise SourceError(
                f"topic {topic!r} has {len(log)} partitions, and had {len(begin)}: "
                "its groups live in other partitions now, which is another history"
            )
        for partition, (_, latest) in log.items():
            if latest < begin[partition]:
                raise SourceError(
                    f"{topic}[{partition}]: the log ends at {latest}, and was read up to {begin[partition]}: "
                    "was the topic truncated, or recreated?"
                )


def _offset(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _offsets(offset: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): value for partition, value in offset.items()}
