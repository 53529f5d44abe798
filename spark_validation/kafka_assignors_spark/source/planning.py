"""The driver's side of the source: which offsets there are, and how they are divided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from kafka_assignors.wire import group_partition
from kafka_assignors_confluent import Connection
from kafka_assignors_spark.source.cluster import SourceError, describe_offsets_topic, source_errors
from kafka_assignors_spark.source.options import SourceOptions

__all__ = ["OffsetRange", "Planner", "bounded", "cut"]

Offsets = Mapping[int, int]
"""An offset of each partition."""


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Offsets from `start` up to, and without, `end` of one partition: the work of one task.

    `log_start` is where the log began when this was planned: what lies before it is gone.
    """

    partition: int
    start: int
    end: int
    log_start: int = 0


def cut(partition: int, start: int, end: int, longest: int, log_start: int = 0) -> list[OffsetRange]:
    """Ranges of at most `longest` offsets that cover `start` to `end`; none if that is empty."""
    return [
        OffsetRange(partition, at, min(at + longest, end), log_start) for at in range(start, end, longest)
    ]


def bounded(start: Offsets, end: Offsets, most: int) -> dict[int, int]:
    """Where a batch of at most `most` offsets ends that goes from `start` towards `end`.

    Each partition gets the same share, and what one does not need goes to the others, so that none waits for
    a long one. A batch is empty only if nothing is left.
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

    def offsets(self) -> dict[int, tuple[int, int]]:
        """Earliest and latest offset of every partition to read; `SourceError` without an answer."""
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        with source_errors():
            self._connection.forget_complaints()
            count = self._partition_count()
            partitions: Iterable[int] = range(count)
            if self._options.groups is not None:
                partitions = sorted({group_partition(group, count) for group in self._options.groups})
            earliest = self._list_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            latest = self._list_offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: (earliest[partition], latest[partition]) for partition in partitions}

    def _partition_count(self) -> int:
        # Describing never creates a topic; asking for its metadata would, for this one topic.
        topic, wanted = self._options.topic, self._options.topic_id
        description = describe_offsets_topic(self._connection, topic)
        found = str(description.topic_id)
        if wanted not in (None, found):
            raise SourceError(
                f"topic {topic!r} at {self._options.bootstrap_servers} has the id {found}, and should have "
                f"{wanted}: this is another cluster, or the topic was created anew"
            )
        return len(description.partitions)

    def _list_offsets(self, partitions: Iterable[int], spec: Any) -> dict[int, int]:
        # Group records belong to no transaction, so neither a hanging transaction nor an aborted one hides
        # them.
        from confluent_kafka import IsolationLevel, TopicPartition

        topic, connection = self._options.topic, self._connection
        futures = connection.admin.list_offsets(
            {TopicPartition(topic, partition): spec for partition in partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=connection.timeout_s,
        )
        what = f"cannot read the offsets of topic {topic!r}"
        offsets: dict[int, int] = {}
        for asked, future in futures.items():
            offset = connection.result(what, future, f"Describe on Topic {topic!r}").offset
            if offset < 0:
                # The client's answer for a partition whose leader has just gone; it is no error to it.
                raise SourceError(f"{what}: {topic}[{asked.partition}] has no leader that answers; try again")
            offsets[asked.partition] = offset
        return offsets
