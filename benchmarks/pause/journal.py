"""What happened to a member, row by row, in a file that is mapped into memory.

A row costs a microsecond and no system call, so that telling does not slow down what is told about, and rows
are there for readers even when their writer was killed a moment later. The Java member writes the same rows.
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

_CAPACITY_BYTES = 64 << 20
"""Two million rows. The file is sparse: it takes what is written."""


class Kind(enum.IntEnum):
    """What a row tells."""

    READY = 1
    """The process has loaded what it needs, and waits for the order to join."""
    DELIVERED = 2
    """The application was given the record."""
    ASSIGNED = 3
    REVOKED = 4
    """Revoked or lost, as the listener was told."""
    LEFT = 5
    """The consumer is closed; the process may take a moment to end."""


class Row(NamedTuple):
    """One thing that happened.

    Attributes:
        at_ns: when, in nanoseconds of CLOCK_MONOTONIC.
        produced_ns: when the record that was delivered was made, by the same clock; else 0.
        offset: that of the record; else -1.
        partition: -1 if it is about none.
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
        """A record whose value is the time at which it was made, eight bytes with the lowest first."""
        self._add(int.from_bytes(produced, "little"), offset, partition, Kind.DELIVERED)

    def add(self, kind: Kind, partitions: Iterable[int] = (-1,)) -> None:
        for partition in partitions:
            self._add(0, -1, partition, kind)

    def _add(self, produced_ns: int, offset: int, partition: int, kind: Kind) -> None:
        _ROW.pack_into(self._map, self._end, time.monotonic_ns(), produced_ns, offset, partition, kind)
        self._end += _ROW.size


class JournalReader:
    """Reads a journal, also while it is written; it need not be there yet."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._map: mmap.mmap | None = None
        self._end = 0

    def new_rows(self) -> list[Row]:
        """What was added since the last call."""
        if self._map is None:
            if not self._file.exists() or self._file.stat().st_size < _CAPACITY_BYTES:
                return []
            with open(self._file, "rb") as written:
                self._map = mmap.mmap(written.fileno(), 0, access=mmap.ACCESS_READ)
        rows = []
        while self._end < _CAPACITY_BYTES:
            row = Row._make(_ROW.unpack_from(self._map, self._end))
            if not row.kind:
                break
            rows.append(row)
            self._end += _ROW.size
        return rows
