"""The catalogue beside the records: every topic of the cluster, and what it was before it changed.

`topics/` has rows of `schemas.TOPICS`, in a file for each look at the cluster that found something new. The
state of a topic before its first entry is not known, so its first row has no `from` and holds for all times
before the next. A deleted topic keeps its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pyspark.sql import SparkSession

from kafka_assignors_spark.archive.directory import STAGING, Directory
from kafka_assignors_spark.catalogue import CatalogueEntry
from kafka_assignors_spark.jobs.arrow_frames import spark_schema, with_micros
from kafka_assignors_spark.schemas import TOPICS
from kafka_assignors_spark.source.cluster import LiveTopic

__all__ = ["TOPICS_FOLDER", "CatalogueLog", "changed"]

TOPICS_FOLDER = "topics"


def changed(known: CatalogueEntry, found: LiveTopic) -> bool:
    """Whether the brokers say something else than the catalogue."""
    now = found.entry(None)
    if (known.topic_id, known.topic.partitions) != (now.topic_id, now.topic.partitions):
        return True
    return found.complete and known.topic.replica_racks != now.topic.replica_racks


class CatalogueLog:
    """The catalogue of an archive, which is read once and then only grows."""

    def __init__(self, spark: SparkSession, folder: Directory) -> None:
        self._spark, self._folder = spark, folder
        self._files = [name for name in folder.names(TOPICS_FOLDER) if name.endswith(".parquet")]
        self._known: dict[str, CatalogueEntry] = {}
        if self._files:
            rows = with_micros(
                spark.read.schema(spark_schema(TOPICS)).parquet(folder.at(TOPICS_FOLDER))
            ).collect()
            read = [CatalogueEntry.from_row(row.asDict()) for row in rows]
            for entry in sorted(read, key=lambda entry: (entry.since is not None, entry.since)):
                self._known[entry.topic.name] = entry

    def note(self, found: Iterable[LiveTopic], now: datetime) -> int:
        """Remember what has changed since the last look; how many topics that were."""
        new = []
        for live in found:
            known = self._known.get(live.topic.name)
            if known is None or changed(known, live):
                new.append(live.entry(None if known is None else now))
        if new:
            self._write(new)
            self._known.update((entry.topic.name, entry) for entry in new)
        return len(new)

    def _write(self, entries: Iterable[CatalogueEntry]) -> None:
        number = int(self._files[-1].partition(".")[0]) + 1 if self._files else 0
        rows = self._spark.createDataFrame([_row(entry) for entry in entries], spark_schema(TOPICS))
        self._folder.write_parquet(rows.coalesce(1), "topics")
        names = self._folder.names(f"{STAGING}/topics")
        (staged,) = (name for name in names if name[0] not in "._")
        name = f"{number:010d}.parquet"
        self._folder.move(f"{STAGING}/topics/{staged}", f"{TOPICS_FOLDER}/{name}")
        self._folder.delete(f"{STAGING}/topics")
        self._files.append(name)


def _row(entry: CatalogueEntry) -> tuple[object, ...]:
    racks = entry.topic.replica_racks
    return (
        entry.topic.name,
        entry.topic_id,
        entry.since,
        entry.topic.partitions,
        None if racks is None else [sorted(each) for each in racks],
    )
