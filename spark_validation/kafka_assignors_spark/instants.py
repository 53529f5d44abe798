"""Timestamps between Spark and Python.

Spark hands Python naive times in the time zone of whatever process asks, where an hour is missing or doubled
twice a year. So timestamps cross as microseconds since 1970, and Python's side has aware times in UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

__all__ = ["from_micros", "millis_to_micros", "to_micros"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = (datetime.min.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
_LATEST = (datetime.max.replace(microsecond=999_000, tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The instant, in UTC, that many microseconds after 1970 began; see `millis_to_micros` for its bounds."""
    return _EPOCH + timedelta(microseconds=_bounded(micros))


def millis_to_micros(millis: int) -> int:
    """A timestamp of Kafka, in milliseconds since 1970, in microseconds.

    Kafka takes any 64-bit number from a producer. A number outside the years 1 to 9999, which many readers of
    Parquet cannot show, becomes the first or the last millisecond of these years.
    """
    return _bounded(millis * 1000)


def to_micros(instant: datetime) -> int:
    """The inverse of `from_micros`, for any aware time."""
    return (instant - _EPOCH) // _MICROSECOND


def _bounded(micros: int) -> int:
    return min(max(micros, _EARLIEST), _LATEST)
