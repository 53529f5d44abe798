"""Rows in buckets, which are read one bucket after the other.

Few rows stay in memory. More rows lie in a temporary file without a name, which the operating system removes
however the process ends.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from kafka_assignors_replay.result import ReplayError

MEMORY_BYTES = 32 << 20
"""The most bytes of rows that stay in memory."""

_WAITING_BYTES = 8 << 20
"""The most bytes of rows that wait until they are written together."""

Key = TypeVar("Key")
Row = tuple[Any, ...]


class Buckets(Generic[Key]):
    """`add` rows, then read the `rows` of a bucket in the order in which they came; `sizes` has the bytes of
    each bucket, as they were given. Threads may read at the same time. `ReplayError` if the file cannot be
    written."""

    def __init__(self) -> None:
        self.sizes: Counter[Key] = Counter()
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 (see `close`)
        self._places: dict[Key, list[tuple[int, int]]] = {}
        self._waiting: dict[Key, list[Row]] = {}
        self._waiting_bytes = 0
        self._lock = threading.Lock()

    def add(self, key: Key, row: Row, size: int) -> None:
        self.sizes[key] += size
        self._waiting.setdefault(key, []).append(row)
        self._waiting_bytes += size
        if self._waiting_bytes > _WAITING_BYTES:
            self._write()

    def texts(self, key: Key) -> Iterator[bytes]:
        """The rows of a bucket: each text is the pickle of a list of them."""
        with self._lock:
            self._write()
        for place in self._places.get(key, ()):
            with self._lock:
                text = self._read(*place)
            yield text

    def rows(self, key: Key) -> Iterator[Row]:
        for text in self.texts(key):
            yield from pickle.loads(text)

    def remove(self, key: Key) -> None:
        """Forget a bucket, none of whose rows waits to be written; the file keeps its size."""
        self._places.pop(key, None)
        del self.sizes[key]

    def count(self, key: Key) -> int:
        """How many texts a bucket has."""
        with self._lock:
            self._write()
        return len(self._places.get(key, ()))

    def close(self) -> None:
        self._file.close()

    def _write(self) -> None:
        for key, rows in self._waiting.items():
            text = pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)
            self._places.setdefault(key, []).append((self._file.seek(0, os.SEEK_END), len(text)))
            try:
                self._file.write(text)
            except OSError as error:
                why = f"records cannot be written there: {error.strerror}"
                raise ReplayError(f"{tempfile.gettempdir()}: {why}; TMPDIR names another directory") from None
        self._waiting = {}
        self._waiting_bytes = 0

    def _read(self, place: int, size: int) -> bytes:
        self._file.seek(place)
        return self._file.read(size)
