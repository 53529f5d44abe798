"""A Spark data source for the group records of a live `__consumer_offsets`.

    spark.dataSource.register(GroupRecordsSource)
    spark.read.format("kafka_group_records").option("bootstrap.servers", "broker:9092").load()
    spark.readStream.format("kafka_group_records").option("bootstrap.servers", "broker:9092").load()

Rows have the columns of `schemas.RAW`. Offset commits, nearly all of the topic's volume, are dropped by the
first two bytes of the key before anything else looks at them.

Spark's own Kafka connector reads nothing from this topic, and says nothing: it leaves internal topics out.
This source reads with librdkafka (confluent-kafka) instead. It assigns partitions and never subscribes, so
it joins no group, commits nothing and leaves no trace in the topic it reads.

Offsets are pinned when the query, or a batch of a stream, is planned: every input partition is a range of
offsets of one partition of the topic, and reads exactly that however long it waits for its turn. Nothing to
read is an error in a batch query: an empty answer is all too easily taken for a cluster without groups.

Options (names are case-insensitive):

| option | meaning | default |
|---|---|---|
| `bootstrap.servers` | brokers to ask first | required |
| `kafka.<property>` | any librdkafka property (security and the like) | |
| `topic` | the topic to read | `__consumer_offsets` |
| `topicId` | the id that the topic must have, or the query fails | any |
| `groups` | a JSON array of group ids: read their partitions alone, and only their records | all groups |
| `startingOffsets` | `earliest`, `latest`, or a JSON object of offsets by partition | `earliest` |
| `lastRead` | the last record read before `startingOffsets`: a JSON object of `[offset + 1, leader epoch]` \
by partition; the query fails if the log has it no longer (KIP-320) | |
| `endingOffsets` | the same | `latest` |
| `maxOffsetsPerTask` | cut longer ranges, so that one partition keeps several cores busy | 1000000 |
| `timeoutSeconds` | longest wait for the brokers when planning, and for the next record in a task | 10 |
| `committedOffsetsSeconds` | a row, too, for the last offset commit of each partition of a \
group in each interval of so many seconds, and `reports` (`schemas.REPORTED_WITH_COMMITS`) | none |
| `reports` | `true` adds a column, and after each range a row where it is a `RangeReport` as JSON | `false` |
| `maxOffsetsPerBatch` | in a stream, the longest batch, over all partitions | 1000000 |
| `batchIntervalSeconds` | in a stream, from one batch that reaches the end of the log to the next | 0 |

Offsets asked for that are gone from the log are no error: they are `missing` in the report.

A stream plans its batches itself, on every version of PySpark. `Trigger.AvailableNow` is several batches from
PySpark 4.2 on, and one bounded batch before. Before 4.2 a stream that goes on from a checkpoint must be told
where that is, by `startingOffsets`.

No `pushFilters`: with it Spark 4.1 and 4.3 count wrongly when a frame is used with and without a filter.
Options prune instead.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from kafka_assignors_spark.jobs.arrow_frames import spark_schema
from kafka_assignors_spark.source.messages import RangeReport, key_prefixes
from kafka_assignors_spark.source.planning import LastRead, OffsetRange, Planner, SourceOptions
from kafka_assignors_spark.source.readers import GroupRecordsReader, GroupRecordsStreamReader

__all__ = [
    "FORMAT",
    "GroupRecordsReader",
    "GroupRecordsSource",
    "GroupRecordsStreamReader",
    "LastRead",
    "OffsetRange",
    "Planner",
    "RangeReport",
    "SourceOptions",
    "key_prefixes",
]

FORMAT = "kafka_group_records"


class GroupRecordsSource(DataSource):
    """The data source: names itself, gives its schema and makes the readers."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(SourceOptions.parse(self.options).columns)

    def reader(self, schema: StructType) -> GroupRecordsReader:
        return GroupRecordsReader(SourceOptions.parse(self.options))

    def streamReader(self, schema: StructType) -> GroupRecordsStreamReader:
        return GroupRecordsStreamReader(SourceOptions.parse(self.options))
