"""The clock of a lease, which every adapter passes to the machine as `now` and `sent_at`.

A lease must end while the computer sleeps: the coordinator's clock goes on, and partitions get other owners.
`time.monotonic` stands still then on Linux and macOS. The machine itself reads no clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial


def _choose() -> Callable[[], float]:
    # On macOS the clock of this name goes on while the computer sleeps, and there is no CLOCK_BOOTTIME.
    name = "CLOCK_MONOTONIC" if sys.platform == "darwin" else "CLOCK_BOOTTIME"
    number = getattr(time, name, None)
    if number is None:
        return time.monotonic  # Windows, where it goes on.
    try:
        time.clock_gettime(number)
    except OSError:  # A kernel, or a sandbox, that does not have it.
        return time.monotonic
    return partial(time.clock_gettime, number)


including_suspend: Callable[[], float] = _choose()
"""Seconds that never go back and go on while the computer is suspended.

Call it as `clock.including_suspend()`, so that a test can put another clock in its place."""
