"""Timestamps between Spark and Python.

Spark passes naive times to Python in the time zone of the process, where an hour is missing or doubled twice
a year. So timestamps cross as microseconds since 1970, and Python's side has aware times in UTC.

Kafka takes any 64-bit number of milliseconds from a producer. A time outside the years 1 to 9999, which
neither `datetime` nor many readers of Parquet can show, becomes the first or last millisecond of these years.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

FIRST_MICROS = (datetime.min.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
LAST_MICROS = (datetime.max.replace(microsecond=999_000, tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The time in UTC that many microseconds after 1970 began; OverflowError outside the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=micros)


def millis_to_micros(millis: int) -> int:
    """Convert a timestamp of Kafka, milliseconds since 1970, to microseconds within the years 1 to 9999."""
    return min(max(millis * 1000, FIRST_MICROS), LAST_MICROS)


def to_micros(instant: datetime) -> int:
    """The inverse of `from_micros`, for any aware time."""
    return (instant - _EPOCH) // _MICROSECOND
