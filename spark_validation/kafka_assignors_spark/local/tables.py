"""The tables of a replay as Parquet, a folder each, written without Spark."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafka_assignors_spark.arrow import record_batch
from kafka_assignors_spark.options import WHOLE_GROUPS
from kafka_assignors_spark.result import TableFile
from kafka_assignors_spark.schemas import TABLES

__all__ = ["TableWriter"]

_FILE = "part-00000.parquet"
_ROW_GROUP = 20_000
"""So many rows are collected before they are written."""


class TableWriter:
    """Writes rows of all tables into a folder, in place of what an earlier replay left there."""

    def __init__(self, folder: str) -> None:
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        self._rows: Counter[tuple[str, str]] = Counter()  # by group and table
        for name, schema in TABLES.items():
            place = Path(folder, name)
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            self._writers[name] = pq.ParquetWriter(place / _FILE, schema)

    def write(self, tables: Mapping[str, list[tuple[Any, ...]]]) -> None:
        for name, rows in tables.items():
            if name in WHOLE_GROUPS:
                self._rows.update((row[0], name) for row in rows)
            self._waiting[name] += rows
            if len(self._waiting[name]) >= _ROW_GROUP:
                self._flush(name)

    def close(self) -> tuple[TableFile, ...]:
        """Write what is left, and say how many rows each group has."""
        for name, writer in self._writers.items():
            self._flush(name)
            writer.close()
        self._writers = {}
        return tuple(
            TableFile(group, table, f"{table}/{_FILE}", rows)
            for (group, table), rows in sorted(self._rows.items())
        )

    def _flush(self, name: str) -> None:
        if rows := self._waiting[name]:
            self._writers[name].write_batch(record_batch(rows, TABLES[name]))
            self._waiting[name] = []
