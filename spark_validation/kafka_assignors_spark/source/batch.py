"""The batch reader: what is in the topic now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_assignors_spark.source.cluster import SourceError
from kafka_assignors_spark.source.options import SourceOptions
from kafka_assignors_spark.source.planning import OffsetRange, Planner, cut
from kafka_assignors_spark.source.reading import read_range

__all__ = ["GroupRecordsReader"]


class GroupRecordsReader(DataSourceReader):
    """Plans on the driver, reads on the executors. It is pickled, so clients are made inside its methods."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[OffsetRange]:
        """The ranges to read as of now; `SourceError` if there is nothing to read or no broker answers."""
        options = self.options
        offsets = Planner(options).offsets()
        ranges: list[OffsetRange] = []
        for partition, (earliest, latest) in sorted(offsets.items()):
            start = options.starting.of(partition, earliest, latest)
            end = min(options.ending.of(partition, earliest, latest), latest)
            ranges += cut(partition, start, end, options.max_offsets_per_task, earliest)
        if not ranges:
            where = f"topic {options.topic!r} at {options.bootstrap_servers}"
            if options.groups is not None:
                where = f"partitions {sorted(offsets)} of {where}, where the groups asked for live,"
            raise SourceError(f"nothing to read: {where} has no records in the range of offsets asked for")
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of `schemas.RAW`, in the order of offsets."""
        assert isinstance(partition, OffsetRange)
        return read_range(self.options, partition)
