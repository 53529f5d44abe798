"""The time limit for every wait in a test.

The limit catches hangs and does not measure speed: a test reaches it only if the condition never holds, even
on a busy machine. A whole test may take longer (`timeout` in pyproject.toml).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

HANG_S = 240.0

SOON_S = HANG_S / 4
"""The limit for an action that must end while something else blocks for HANG_S."""

_TICK_S = 0.25
_LOOK_EVERY_S = 0.05

_T = TypeVar("_T")


def wait_for(what: str, condition: Callable[[], _T | None], timeout_s: float = HANG_S) -> _T:
    """Wait until `condition` is true, and return its value; raises TimeoutError, which says for what."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(_LOOK_EVERY_S)
    return value


def stand_by(seconds: float) -> None:
    """Sleep, in seconds counted as in `hang_limit`, so that a busy machine gets more time."""
    for _ in range(math.ceil(seconds / _TICK_S)):
        time.sleep(_TICK_S)


@contextlib.asynccontextmanager
async def hang_limit(limit_s: float = HANG_S) -> AsyncIterator[None]:
    """Raise TimeoutError in the block after this event loop has run for `limit_s` seconds.

    The seconds are counted in short sleeps. A sleep takes longer while the process gets no processor time,
    and that time extends the limit.
    """
    # asyncio.timeout needs Python 3.11. The environments of the tests that use this function run 3.13.
    async with asyncio.timeout(None) as timeout:  # type: ignore[attr-defined]

        async def tick() -> None:
            for _ in range(round(limit_s / _TICK_S)):
                await asyncio.sleep(_TICK_S)
            timeout.reschedule(asyncio.get_running_loop().time())

        ticking = asyncio.ensure_future(tick())
        try:
            yield
        finally:
            ticking.cancel()
