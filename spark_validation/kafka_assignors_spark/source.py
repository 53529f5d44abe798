"""A Spark data source for the group records of a live `__consumer_offsets`.

    spark.dataSource.register(GroupRecordsSource)
    spark.read.format("kafka_group_records").option("bootstrap.servers", "broker:9092").load()

Rows have the columns of `tables.RAW`. Offset commits, nearly all of the topic's volume, are dropped by the
first two bytes of the key before anything else looks at them.

Spark's own Kafka connector reads nothing from this topic, and says nothing: it leaves internal topics out.
This source reads with librdkafka (confluent-kafka) instead. It assigns partitions and never subscribes, so
it joins no group, commits nothing and leaves no trace in the topic it reads.

Offsets are pinned when the query is planned: every input partition is a range of offsets of one partition of
the topic, and reads exactly that however long it waits for its turn. Nothing to read is an error: an empty
answer is all too easily taken for a cluster without groups.

Options (names are case-insensitive):

| option | meaning | default |
|---|---|---|
| `bootstrap.servers` | brokers to ask first | required |
| `kafka.<property>` | any librdkafka property (security and the like) | |
| `topic` | the topic to read | `__consumer_offsets` |
| `groups` | a JSON array of group ids: read their partitions alone, and only their records | all groups |
| `startingOffsets`, `endingOffsets` | `earliest` or `latest` | `earliest`, `latest` |
| `maxOffsetsPerTask` | cut longer ranges, so that one partition keeps several cores busy | 1000000 |
| `timeoutSeconds` | longest wait for the brokers when planning, and for the next record in a task | 10 |

No `pushFilters`: with it Spark 4.1 and 4.3 count wrongly when a frame is used with and without a filter.
Options prune instead.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafka_assignors.protocol import group_partition
from kafka_assignors_spark.cluster import SourceError, admin_config, silent_logger
from kafka_assignors_spark.tables import RAW

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = [
    "FORMAT",
    "GroupRecordsReader",
    "GroupRecordsSource",
    "OffsetRange",
    "SourceOptions",
    "key_prefixes",
]

FORMAT = "kafka_group_records"

_ARROW_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_OFFSET_COMMITS = (b"\0\0", b"\0\1")
"""The two versions of a key that say that its record is an offset commit."""

_BATCH_ROWS = 10_000
_CONSUME_MESSAGES = 2_000
_POLL_SECONDS = 0.2


def key_prefixes(groups: Iterable[str]) -> tuple[bytes, ...]:
    """What follows the version, the first two bytes, in every key of these groups: length and name."""
    names = (group.encode("utf-8", "surrogatepass") for group in groups)
    return tuple(len(name).to_bytes(2, "big") + name for name in names)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of the source, checked. Holds no connection, so it can be sent to executors."""

    bootstrap_servers: str
    client_config: Mapping[str, str]
    topic: str
    groups: tuple[str, ...] | None
    from_latest: bool
    to_latest: bool
    max_offsets_per_task: int
    timeout_seconds: float

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options of a query; `SourceError` names the option that is wrong."""
        given = {name.lower(): value for name, value in options.items()}
        client_config = {
            name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")
        }
        servers = given.get("bootstrap.servers") or client_config.get("bootstrap.servers")
        if not servers:
            raise SourceError("option 'bootstrap.servers' is missing: give host:port of at least one broker")
        return cls(
            bootstrap_servers=servers,
            client_config=client_config,
            topic=given.get("topic", "__consumer_offsets"),
            groups=_group_names(given.get("groups")),
            from_latest=_is_latest(given, "startingOffsets", "earliest"),
            to_latest=_is_latest(given, "endingOffsets", "latest"),
            max_offsets_per_task=int(_positive(given, "maxOffsetsPerTask", 1_000_000)),
            timeout_seconds=_positive(given, "timeoutSeconds", 10),
        )


def _group_names(value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    try:
        names = json.loads(value)
    except json.JSONDecodeError as error:
        raise SourceError(f"option 'groups' is not JSON: {error}") from None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise SourceError("option 'groups' must be a JSON array of one or more group ids")
    return tuple(names)


def _is_latest(given: Mapping[str, str], name: str, default: str) -> bool:
    value = given.get(name.lower(), default).lower()
    if value not in ("earliest", "latest"):
        raise SourceError(f"option {name!r} must be 'earliest' or 'latest', not {value!r}")
    return value == "latest"


def _positive(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name.lower(), str(default))
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not value > 0:
        raise SourceError(f"option {name!r} must be a number above 0, not {text!r}")
    return value


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Offsets from `start` up to, and without, `end` of one partition: the work of one task."""

    partition: int
    start: int
    end: int


class GroupRecordsSource(DataSource):
    """The data source: names itself, gives its schema and makes the reader."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return RAW

    def reader(self, schema: StructType) -> GroupRecordsReader:
        return GroupRecordsReader(SourceOptions.parse(self.options))


class GroupRecordsReader(DataSourceReader):
    """Plans on the driver, reads on the executors. It is pickled, so clients are made inside its methods."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[OffsetRange]:
        """The ranges to read as of now; `SourceError` if there is nothing to read or nobody answers."""
        options = self.options
        offsets = _Planner(options).offsets()
        ranges: list[OffsetRange] = []
        for partition, (earliest, latest) in sorted(offsets.items()):
            start = latest if options.from_latest else earliest
            end = latest if options.to_latest else earliest
            step = options.max_offsets_per_task
            ranges.extend(OffsetRange(partition, at, min(at + step, end)) for at in range(start, end, step))
        if not ranges:
            where = f"topic {options.topic!r} at {options.bootstrap_servers}"
            if options.groups is not None:
                where = f"partitions {sorted(offsets)} of {where}, where the groups asked for live,"
            raise SourceError(f"nothing to read: {where} has no records in the range of offsets asked for")
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of `tables.RAW`, in the order of offsets."""
        assert isinstance(partition, OffsetRange)
        return _read(self.options, partition)


# On the driver


class _Planner:
    """Asks the brokers for partitions and offsets, once."""

    def __init__(self, options: SourceOptions) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._options = options
        self._errors: list[str] = []
        try:
            self._admin = AdminClient(
                admin_config(options.bootstrap_servers, options.client_config, self._errors)
            )
        except KafkaException as error:
            raise SourceError(f"client configuration: {error.args[0].str()}") from None

    def offsets(self) -> dict[int, tuple[int, int]]:
        """Earliest and latest offset of every partition to read."""
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        count = self._partition_count()
        partitions: Iterable[int] = range(count)
        if self._options.groups is not None:
            partitions = sorted({group_partition(group, count) for group in self._options.groups})
        earliest = self._list_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        latest = self._list_offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: (earliest[partition], latest[partition]) for partition in partitions}

    def _partition_count(self) -> int:
        # Describing never creates a topic; asking for its metadata would, for this one topic.
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        topic = self._options.topic
        request = self._admin.describe_topics(
            TopicCollection([topic]), request_timeout=self._options.timeout_seconds
        )
        try:
            return len(request[topic].result().partitions)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise SourceError(
                    f"there is no topic {topic!r} at {self._options.bootstrap_servers}: "
                    "no consumer group has ever been there"
                ) from None
            raise self._unreachable(error) from None

    def _list_offsets(self, partitions: Iterable[int], spec: Any) -> dict[int, int]:
        # Group records belong to no transaction, so neither a hanging transaction nor an aborted one hides
        # them.
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

        topic = self._options.topic
        futures = self._admin.list_offsets(
            {TopicPartition(topic, partition): spec for partition in partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._options.timeout_seconds,
        )
        try:
            return {asked.partition: future.result().offset for asked, future in futures.items()}
        except KafkaException as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> SourceError:
        return SourceError(
            f"no answer from {self._options.bootstrap_servers} within {self._options.timeout_seconds:g} s: "
            f"{error.args[0].str()}" + (f" ({self._errors[-1]})" if self._errors else "")
        )


# On an executor


def _read(options: SourceOptions, work: OffsetRange) -> Iterator[pa.RecordBatch]:
    prefixes = None if options.groups is None else key_prefixes(options.groups)
    rows: list[Message] = []
    with contextlib.closing(_messages(options, work)) as messages:
        for message in messages:
            key = message.key()
            if key is None or key.startswith(_OFFSET_COMMITS):
                continue
            if prefixes is not None and not key.startswith(prefixes, 2):
                continue
            rows.append(message)
            if len(rows) == _BATCH_ROWS:
                yield _batch(work.partition, rows)
                rows = []
    if rows:
        yield _batch(work.partition, rows)


def _batch(partition: int, rows: Sequence[Message]) -> pa.RecordBatch:
    # Kafka's timestamps are milliseconds since 1970 in UTC, Spark's are microseconds.
    stamps = pa.array([row.timestamp()[1] * 1000 for row in rows], pa.int64())
    columns = [
        pa.array([partition] * len(rows), pa.int32()),
        pa.array([row.offset() for row in rows], pa.int64()),
        stamps.cast(pa.timestamp("us", "UTC")),
        pa.array([row.key() for row in rows], pa.binary()),
        pa.array([row.value() for row in rows], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)


def _messages(options: SourceOptions, work: OffsetRange) -> Generator[Message, None, None]:
    """Every message of the range that is still in the log, in order; `SourceError` if it ends early."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    where = f"{options.topic}[{work.partition}]"
    errors: list[str] = []
    consumer = Consumer(
        {
            # The default back-off after a full queue costs four times the wall time.
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 50,
            **options.client_config,
            "bootstrap.servers": options.bootstrap_servers,
            "group.id": "kafka-assignors-unused",  # librdkafka wants one; nothing is ever sent under it
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            "error_cb": lambda error: errors.append(error.str()),
            "logger": silent_logger(),
        }
    )
    try:
        consumer.assign([TopicPartition(options.topic, work.partition, work.start)])
        position = work.start
        deadline = time.monotonic() + options.timeout_seconds
        while position < work.end:
            # Never ask for more than is left, or the tail of every range waits for messages that do not
            # come.
            messages = consumer.consume(min(_CONSUME_MESSAGES, work.end - position), timeout=_POLL_SECONDS)
            if messages:
                deadline = time.monotonic() + options.timeout_seconds
            elif time.monotonic() > deadline:
                raise SourceError(
                    f"{where}: no record within {options.timeout_seconds:g} s after offset {position - 1}, "
                    f"wanted up to {work.end - 1}" + (f" ({errors[-1]})" if errors else "")
                )
            for message in messages:
                error, offset = message.error(), message.offset()
                assert offset is not None  # a partition that is assigned always says where it is
                if error is None:
                    if offset >= work.end:
                        return
                    position = offset + 1
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    if offset < work.end:
                        raise SourceError(
                            f"{where}: the log ends at {offset}, and ended at {work.end} "
                            "when the query was planned: was the topic truncated?"
                        )
                    return  # what is left of the range are control records, or compacted away
                elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    continue  # librdkafka looks up the coordinator of the group that is never used
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    raise SourceError(
                        f"{where}: offset {position} is gone, "
                        "the log was cleaned up while it was read: run again"
                    )
                else:
                    raise SourceError(f"{where}: {error.str()}")
    finally:
        consumer.close()
