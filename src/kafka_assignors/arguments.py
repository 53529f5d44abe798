"""What a user or an application gives: the error that asks for a change, and checks of single values.

The checks raise `TypeError` (a bool is not a number here) or `ValueError`, which name the argument.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from kafka_assignors.strategy import LONGEST_NAME, fits_kafka_string


class UserError(Exception):
    """The user has to change something. The message is one line: what is wrong, where, and what to do."""


def require_number(name: str, value: object, *, most: float = math.inf, above_zero: bool = False) -> None:
    """Raise unless `value` is a finite int or float from 0 to `most`; `above_zero` refuses 0 as well."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, not {value!r}")
    # An int that is too large for a float is refused too: arithmetic with floats would raise.
    if 0 <= value <= min(most, sys.float_info.max) and (value or not above_zero):
        return
    if above_zero:
        allowed = "above 0 and finite" if math.isinf(most) else f"above 0 and at most {most:g}"
    else:
        allowed = "a finite number of at least 0" if math.isinf(most) else f"from 0 to {most:g}"
    raise ValueError(f"{name} must be {allowed}, not {value!r}")


def require_integer(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """Raise unless `value` is an int from `least` to `most`; without `most` there is no upper limit."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < least or (most is not None and value > most):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be {allowed}, not {value}")


MOST_WARMING = 1000
"""The most warm-ups at a time: each is a task or a thread."""

_INTERVALS = (
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
    "rebalance_timeout_ms",
    "auto_commit_interval_ms",
    "retry_backoff_ms",
)


def require_intervals(settings: Mapping[str, object]) -> None:
    """Raise TypeError or ValueError for a time in a consumer's settings that is not a number above 0.

    With 0 a consumer sends heartbeats, commits or joins one after another, without a pause.
    """
    for name in _INTERVALS:
        if settings.get(name) is not None:
            require_number(name, settings[name], above_zero=True)


def require_warming(max_warming: object, warm_timeout_ms: object) -> None:
    """Raise TypeError or ValueError for a limit of warm-ups that is none."""
    require_integer("max_warming", max_warming, least=1, most=MOST_WARMING)
    require_number("warm_timeout_ms", warm_timeout_ms, above_zero=True)


def require_warming_listener(listener: object, *, cooperative: bool) -> None:
    """Raise TypeError for a listener with warm-ups that a consumer cannot run."""
    if hasattr(listener, "on_partitions_warming") and not cooperative:
        raise TypeError(
            f"{listener!r} has on_partitions_warming, and a member of an eager group gives up all partitions "
            "before it joins: take the eager assignors off partition_assignment_strategy first"
        )


def optional_name(argument: str, value: object) -> str | None:
    """The value of an argument that is a name or None; TypeError for anything else."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise TypeError(f"{argument} must be a non-empty str or None, not {value!r}")
    if not fits_kafka_string(value):
        raise TypeError(f"{argument} must be text of at most {LONGEST_NAME} bytes")
    return value


def require_client_rack(value: object) -> str | None:
    """The rack in a consumer's setting `client_rack`; clients take "" as no rack."""
    return optional_name("client_rack", None if value == "" else value)


def require_reason(value: object) -> str:
    """The reason that the user gives for a rebalance; TypeError for anything but a str or None."""
    if value is None or value == "":
        return "the application asked for it"
    if not isinstance(value, str):
        raise TypeError(f"reason must be a str or None, not {value!r}")
    return value.encode("utf-8", "replace").decode()  # A lone surrogate fits in no request.


def require_group(group_id: object, stock_consumer: str) -> None:
    """Raise TypeError for a cooperative consumer without a group; `stock_consumer` needs none."""
    if not isinstance(group_id, str) or not group_id:
        raise TypeError(
            f"group_id must be a non-empty str, not {group_id!r}: without a group, use {stock_consumer}"
        )
