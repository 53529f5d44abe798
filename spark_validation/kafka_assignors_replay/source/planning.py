"""The plan of a query: its checked options, and the driver's ranges of existing offsets."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kafka_assignors_confluent.connection import Connection, NoLeaderError, UnreachableError
from kafka_assignors_confluent.topics import describe_offsets_topic, list_offsets
from kafka_assignors_replay.folds.consumer_offsets import group_partition
from kafka_assignors_replay.live_catalogue import SourceError, source_errors
from kafka_assignors_replay.schemas import RAW, REPORTED, REPORTED_WITH_COMMITS


class LastRead(NamedTuple):
    """The offset after the last record that was read of a partition, and its leader epoch."""

    offset: int
    leader_epoch: int


LogOffsets = Mapping[int, tuple[int, int]]
"""The earliest and the latest offset of each partition."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or the end of a query: an end of the log, or an offset of each partition.

    A partition without an offset begins, or ends, with the log (`latest` says which end).
    """

    latest: bool
    offsets: Mapping[int, int] | None = None

    def of(self, partition: int, earliest: int, latest: int) -> int:
        """The offset in a partition that has the offsets from `earliest` to `latest`, without the latter."""
        end_of_log = latest if self.latest else earliest
        if self.offsets is None:
            return end_of_log
        return self.offsets.get(partition, end_of_log)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of the source, checked. Holds no connection, so it can be sent to executors."""

    bootstrap_servers: str
    client_config: Mapping[str, str]
    topic: str
    topic_id: str | None
    groups: tuple[str, ...] | None
    starting: Bound
    last_read: Mapping[int, LastRead]
    ending: Bound
    max_offsets_per_task: int
    max_offsets_per_batch: int
    batch_interval_seconds: float
    timeout_seconds: float
    reports: bool
    committed_offsets_s: int | None

    @property
    def columns(self) -> pa.Schema:
        if self.committed_offsets_s is not None:
            return REPORTED_WITH_COMMITS
        return REPORTED if self.reports else RAW

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
        committed_offsets_s = _whole_seconds(given, "committedOffsetsSeconds")
        return cls(
            bootstrap_servers=servers,
            client_config=client_config,
            topic=given.get("topic", "__consumer_offsets"),
            topic_id=given.get("topicid"),
            groups=_group_names(given.get("groups")),
            starting=_bound(given, "startingOffsets", "earliest"),
            last_read=_last_read(given.get("lastread", "{}")),
            ending=_bound(given, "endingOffsets", "latest"),
            max_offsets_per_task=int(_number(given, "maxOffsetsPerTask", 1_000_000)),
            max_offsets_per_batch=int(_number(given, "maxOffsetsPerBatch", 1_000_000)),
            batch_interval_seconds=_number(given, "batchIntervalSeconds", 0, zero=True),
            timeout_seconds=_number(given, "timeoutSeconds", 10),
            reports=_flag(given, "reports") or committed_offsets_s is not None,
            committed_offsets_s=committed_offsets_s,
        )

    def starts(self, log: LogOffsets) -> dict[int, int]:
        """The start offset of each partition."""
        return {partition: self.starting.of(partition, *ends) for partition, ends in log.items()}

    def ends(self, log: LogOffsets) -> dict[int, int]:
        """The end offset of each partition, within the log."""
        return {
            partition: min(self.ending.of(partition, earliest, latest), latest)
            for partition, (earliest, latest) in log.items()
        }


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


def _bound(given: Mapping[str, str], name: str, default: str) -> Bound:
    value = given.get(name.lower(), default)
    if value.lower() in ("earliest", "latest"):
        return Bound(value.lower() == "latest")
    try:
        offsets = {int(partition): offset for partition, offset in json.loads(value).items()}
    except (ValueError, AttributeError):
        offsets = {-1: -1}
    if any(partition < 0 or type(offset) is not int or offset < 0 for partition, offset in offsets.items()):
        raise SourceError(
            f"option {name!r} must be 'earliest', 'latest' or a JSON object of offsets by partition, "
            f"not {value!r}"
        )
    return Bound(default == "latest", offsets)


def _last_read(value: str) -> dict[int, LastRead]:
    try:
        return {int(partition): LastRead(*map(int, read)) for partition, read in json.loads(value).items()}
    except (ValueError, TypeError, AttributeError):
        raise SourceError(
            f"option 'lastRead' must be a JSON object of [offset, leader epoch] by partition, not {value!r}"
        ) from None


def _number(given: Mapping[str, str], name: str, default: float, *, zero: bool = False) -> float:
    text = given.get(name.lower(), str(default))
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not (value > 0 or (zero and value == 0)):
        raise SourceError(
            f"option {name!r} must be a number {'not below' if zero else 'above'} 0, not {text!r}"
        )
    return value


def _whole_seconds(given: Mapping[str, str], name: str) -> int | None:
    if (text := given.get(name.lower())) is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text[:11]) < 1 << 31):
        raise SourceError(f"option {name!r} must be a whole number of seconds above 0, not {text!r}")
    return int(text)


def _flag(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "false").lower()
    if value not in ("true", "false"):
        raise SourceError(f"option {name!r} must be 'true' or 'false', not {value!r}")
    return value == "true"


_FIRST_WAIT_SECONDS = 5.0
"""The first wait for the leaders' answers. After it, the brokers are asked again for the leaders, and it
doubles.

librdkafka waits for the leaders in its metadata, also for a dead one until the controller notices.
"""


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Offsets of one partition from `start` to `end`, without `end`: the work of one task.

    `log_start` is the first offset of the log when this was planned; earlier records are gone.
    """

    partition: int
    start: int
    end: int
    log_start: int = 0


def cut(partition: int, start: int, end: int, longest: int, log_start: int = 0) -> list[OffsetRange]:
    """Ranges of at most `longest` offsets that cover `start` to `end`; none for an empty range."""
    return [
        OffsetRange(partition, at, min(at + longest, end), log_start) for at in range(start, end, longest)
    ]


def bounded(start: Mapping[int, int], end: Mapping[int, int], most: int) -> dict[int, int]:
    """The end of a batch of at most `most` offsets, from `start` towards `end`.

    Each partition gets the same share, and the others get what a partition does not need, so that no
    partition waits for a long one. A batch is empty only if nothing is left.
    """
    left = most
    batch: dict[int, int] = {}
    backlogs = sorted((end[partition] - start[partition], partition) for partition in end)
    for number, (backlog, partition) in enumerate(backlogs):
        taken = min(backlog, left // (len(backlogs) - number))
        batch[partition] = start[partition] + taken
        left -= taken
    return batch


class Planner:
    """Asks the brokers for partitions and offsets. It keeps a connection, so it cannot be pickled."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        with source_errors():
            self._connection = Connection(
                options.bootstrap_servers, options.client_config, options.timeout_seconds
            )

    def offsets(self) -> LogOffsets:
        """Earliest and latest offset of every partition to read; `SourceError` without an answer.

        The brokers are asked again while a leader does not answer, until `timeout_seconds` are over.
        """
        deadline = time.monotonic() + self._options.timeout_seconds
        wait = _FIRST_WAIT_SECONDS
        with source_errors():
            while True:
                left = deadline - time.monotonic()
                try:
                    return self._offsets(min(wait, left))
                except (NoLeaderError, UnreachableError):
                    if left <= wait or time.monotonic() >= deadline:
                        raise
                    wait *= 2

    def _offsets(self, wait: float) -> LogOffsets:
        self._connection.forget_complaints()
        # Describing never creates a topic; asking for its metadata would, for this one topic.
        topic, wanted, groups = self._options.topic, self._options.topic_id, self._options.groups
        description = describe_offsets_topic(self._connection, topic)
        found, count = str(description.topic_id), len(description.partitions)
        if wanted not in (None, found):
            raise SourceError(
                f"topic {topic!r} at {self._options.bootstrap_servers} has the id {found}, and should have "
                f"{wanted}: this is another cluster, or the topic was recreated"
            )
        where_groups_live = sorted({group_partition(group, count) for group in groups or ()})
        return list_offsets(self._connection, topic, where_groups_live or range(count), wait)
