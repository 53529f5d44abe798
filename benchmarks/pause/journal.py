"""The events of a member, row by row, in a file that is mapped into memory.

A row costs a microsecond and no system call, so that the journal does not slow down the member. Rows are
readable even if their writer is killed a moment later. The Java member writes the same rows.
"""

from __future__ import annotations

import enum
import mmap
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["JournalReader", "JournalWriter", "Kind", "Row"]

_ROW = struct.Struct("<qqqii")
"""The kind comes last: a row whose kind is not 0 is complete."""

_KIND = struct.Struct("<i")
_CAPACITY_BYTES = 64 << 20
"""Two million rows. The file is sparse: it occupies only what is written."""


class Kind(enum.IntEnum):
    """The event that a row records."""

    READY = 1
    """The process has loaded its modules, and waits for the order to join."""
    DELIVERED = 2
    """The application got the record."""
    ASSIGNED = 3
    REVOKED = 4
    """Revoked or lost, according to the listener."""
    LEFT = 5
    """The consumer is closed; the process may take a moment to end."""


class Row(NamedTuple):
    """One event.

    Attributes:
        at_ns: its time, in nanoseconds of CLOCK_MONOTONIC.
        produced_ns: when the delivered record was made, by the same clock; else 0.
        offset: the record's offset; else -1.
        partition: -1 if the event has no partition.
    """

    at_ns: int
    produced_ns: int
    offset: int
    partition: int
    kind: int


class JournalWriter:
    """The only writer of a journal."""

    def __init__(self, file: Path) -> None:
        with open(file, "w+b") as created:
            created.truncate(_CAPACITY_BYTES)
            self._map = mmap.mmap(created.fileno(), _CAPACITY_BYTES)
        self._end = 0

    def delivered(self, partition: int, offset: int, produced: bytes) -> None:
        """Add a record; its value is the time at which it was made, in eight bytes (little-endian)."""
        self._add(int.from_bytes(produced, "little"), offset, partition, Kind.DELIVERED)

    def add(self, kind: Kind, partitions: Iterable[int] = (-1,)) -> None:
        for partition in partitions:
            self._add(0, -1, partition, kind)

    def _add(self, produced_ns: int, offset: int, partition: int, kind: Kind) -> None:
        _ROW.pack_into(self._map, self._end, time.monotonic_ns(), produced_ns, offset, partition, kind)
        self._end += _ROW.size


class JournalReader:
    """Reads a journal, also while it is written or before it exists."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._map: mmap.mmap | None = None
        self._end = 0

    def new_rows(self) -> list[Row]:
        """The rows added since the last call."""
        if self._map is None:
            if not self._file.exists() or self._file.stat().st_size < _CAPACITY_BYTES:
                return []
            with open(self._file, "rb") as written:
                self._map = mmap.mmap(written.fileno(), 0, access=mmap.ACCESS_READ)
        rows = []
        while self._end < _CAPACITY_BYTES:
            # The kind first: the writer may complete the row while the other fields are read.
            if not _KIND.unpack_from(self._map, self._end + _ROW.size - _KIND.size)[0]:
                break
            rows.append(Row._make(_ROW.unpack_from(self._map, self._end)))
            self._end += _ROW.size
        return rows
