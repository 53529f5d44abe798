"""The archive: the group records of `__consumer_offsets`, copied to Parquet before the broker compacts them.

    archive.json            whose records these are (`topic`)
    raw/date=2026-03-01/    the records, as `schemas.ARCHIVED`: a file for each batch (`writer`)
    committed/date=…/       committed offsets, thinned, as `schemas.COMMITTED`, if they are asked for
    topics/                 the catalogue, as `schemas.TOPICS` (`store`)
    _archive/ledger/        up to where the archive goes, and what was left out (`store`)
    _archive/checkpoint/    Spark's own note of the batch under way
    _archive/staging/       files on their way to their names

Every record is in exactly one file under `raw/`, and every file there is complete, so that any program that
reads Parquet can read it, while it is being written too. `replay` reads the folder as it is.
"""

from __future__ import annotations

from kafka_assignors_spark.archive.result import (
    ArchiveError,
    ArchiveOptions,
    ArchiveProgress,
    ArchiveResult,
    Counts,
)
from kafka_assignors_spark.archive.run import run_archive

__all__ = ["ArchiveError", "ArchiveOptions", "ArchiveProgress", "ArchiveResult", "Counts", "run_archive"]
