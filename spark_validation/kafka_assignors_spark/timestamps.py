"""Timestamps between Spark and Python.

Spark passes naive times to Python in the time zone of the process, where an hour is missing or doubled twice
a year. So timestamps cross as microseconds since 1970, and Python's side has aware times in UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

__all__ = ["FIRST_MICROS", "LAST_MICROS", "from_micros", "to_micros"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

FIRST_MICROS, LAST_MICROS = -1_000, 253_370_764_800_000_000
"""The times that a record can have here: from Kafka's -1 ms, for no time, to the year 9999.

A producer may give a record any time of 64 bits in milliseconds, and `datetime` ends with that year.
"""


def from_micros(micros: int) -> datetime:
    """The instant, in UTC, that many microseconds after 1970 began."""
    return _EPOCH + timedelta(microseconds=micros)


def to_micros(instant: datetime) -> int:
    """The inverse of `from_micros`, for any aware time."""
    return (instant - _EPOCH) // timedelta(microseconds=1)
