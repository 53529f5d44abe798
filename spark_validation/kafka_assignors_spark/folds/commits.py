"""The offset commits of a topic, thinned: of each partition of a group the last commit in each interval.

An interval is a span of the records' own timestamps: with 60 seconds, a minute of UTC. The last commit of an
interval is the one at the greatest offset of the offsets topic, so what is kept does not depend on where one
reading ends and the next begins: the last of the last ones of several readings is the last of all. A reading
that ends in the middle of an interval keeps a commit of it that a later reading replaces, and
`rates.RecentRates` takes the later one.

A commit whose bytes do not follow their schema is counted, and hides no other.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_assignors.wire import OffsetCommitKey, ProtocolError, decode_key, decode_offset_commit

__all__ = ["CommitThinner", "KeptCommit"]

_MOST_BYTES = 32 << 20
"""What the commits in hand may take; with more, the thinner hands them over early."""

_COMMIT_BYTES = 500
"""What a commit in hand takes beside its key."""

_MOST_KEYS = 100_000
"""Decoded keys that are remembered."""

_MICROS = 1_000_000


class KeptCommit(NamedTuple):
    """A commit that stays: the place and time of its record, whose it is, and the `committed` offset, which
    is None where the commit was deleted (a tombstone)."""

    offset: int
    micros: int
    group: str
    topic: str
    topic_partition: int
    committed: int | None


class CommitThinner:
    """Thins the commits of one partition of the offsets topic: `add` each in the order of offsets, and `take`
    what is kept when `full` says so, and in the end.

    `kept` counts what was taken, `undecodable` the commits whose bytes do not follow their schema. The memory
    is bounded by `_MOST_BYTES`, and by one record.
    """

    def __init__(self, interval_s: int) -> None:
        self._interval = interval_s * _MICROS
        self._keys: dict[bytes, OffsetCommitKey | None] = {}
        self._last: dict[tuple[OffsetCommitKey, int], KeptCommit] = {}
        self._bytes = 0
        self.kept = 0
        self.undecodable = 0

    @property
    def full(self) -> bool:
        return self._bytes >= _MOST_BYTES

    def add(self, offset: int, micros: int, key: bytes, value: bytes | None) -> None:
        """One commit: the bytes of its record, which may be any."""
        whose, committed = self._key(key), None
        if whose is not None and value is not None:
            committed = _committed(value)
        if whose is None or (committed is None and value is not None):
            self.undecodable += 1
            return
        place = whose, micros // self._interval
        if place not in self._last:
            self._bytes += len(key) + _COMMIT_BYTES
        self._last[place] = KeptCommit(offset, micros, whose.group, whose.topic, whose.partition, committed)

    def take(self) -> list[KeptCommit]:
        """The commits in hand, in the order of offsets."""
        taken = sorted(self._last.values())
        self._last, self._bytes = {}, 0
        self.kept += len(taken)
        return taken

    def _key(self, key: bytes) -> OffsetCommitKey | None:
        """Whose commit it is, the same under both versions of a key; None for bytes that are no key."""
        if key not in self._keys:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            self._keys[key] = _whose(key)
        return self._keys[key]


def _whose(key: bytes) -> OffsetCommitKey | None:
    try:
        decoded = decode_key(key)
    except ProtocolError:
        return None
    if not isinstance(decoded, OffsetCommitKey) or decoded.partition < 0:
        return None
    return OffsetCommitKey(decoded.group, decoded.topic, decoded.partition)


def _committed(value: bytes) -> int | None:
    """The committed offset; None for bytes that are no commit, and for an offset below 0."""
    try:
        committed = decode_offset_commit(value).offset
    except ProtocolError:
        return None
    return committed if committed >= 0 else None
