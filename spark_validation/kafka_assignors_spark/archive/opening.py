"""An archive as a run finds it, or begins it: of the right topic, and in order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

from kafka_assignors_spark.archive.catalogue_log import CatalogueLog
from kafka_assignors_spark.archive.directory import STAGING, Directory
from kafka_assignors_spark.archive.ledger import Ledger, LedgerEntry
from kafka_assignors_spark.archive.manifest import Manifest, agree
from kafka_assignors_spark.archive.result import ArchiveError, ArchiveOptions
from kafka_assignors_spark.archive.writer import RAW_FOLDER, remove_files_of
from kafka_assignors_spark.source import Planner, SourceOptions

__all__ = ["CHECKPOINT", "Archive", "source_options"]

CHECKPOINT = "_archive/checkpoint"
_LOCK = "_archive/lock"


@dataclass(frozen=True, slots=True)
class Archive:
    """The parts of an archive, which is of the topic that `manifest` names."""

    spark: SparkSession
    folder: Directory
    ledger: Ledger
    manifest: Manifest
    catalogue: CatalogueLog

    @property
    def entry(self) -> LedgerEntry:
        assert self.ledger.latest is not None  # `open` sees to it
        return self.ledger.latest

    @classmethod
    @contextlib.contextmanager
    def open(cls, spark: SparkSession, options: ArchiveOptions, found: Manifest) -> Iterator[Archive]:
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
            yield cls._opened(folder, spark, options, found)

    @classmethod
    def _opened(
        cls, folder: Directory, spark: SparkSession, options: ArchiveOptions, found: Manifest
    ) -> Archive:
        folder.delete(STAGING)
        ledger = Ledger(folder)
        has_checkpoint = bool(folder.names(CHECKPOINT))
        if ledger.latest is None:
            if has_checkpoint or folder.names(RAW_FOLDER):
                raise ArchiveError(
                    f"{folder.path}: _archive/ledger is gone, so the archived offsets are not known; "
                    "restore it, or begin another archive"
                )
            offsets = Planner(SourceOptions.parse(source_options(options))).offsets()
            ledger.append(
                LedgerEntry(0, {partition: earliest for partition, (earliest, _) in offsets.items()})
            )
        assert ledger.latest is not None
        if not has_checkpoint:
            remove_files_of(folder, ledger.latest.batches)
        return cls(spark, folder, ledger, found, CatalogueLog(spark, folder))


def source_options(options: ArchiveOptions) -> dict[str, str]:
    """The options of the source that name the cluster and the topic."""
    return {
        **{f"kafka.{name}": value for name, value in options.client_config.items()},
        "bootstrap.servers": options.bootstrap_servers,
        "topic": options.topic,
        "timeoutSeconds": str(options.timeout_seconds),
    }
