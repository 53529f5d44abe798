"""When a member sends its next heartbeat, the same in both clients."""

from __future__ import annotations

__all__ = ["HeartbeatPace"]

_AFTER_AN_ASSIGNMENT_S = 0.02
"""The second round of a cooperative rebalance begins when the old owners have revoked, most of them within
milliseconds. Other members learn of it by a heartbeat alone, and the partitions that move wait for them."""

_BEYOND_S = 0.001
"""A look after this much more time finds the poll interval exceeded, not just reached."""


class HeartbeatPace:
    """How long to wait until the next heartbeat: the interval, but less for a moment after an assignment.

    Durations are in seconds. The clock is the caller's.
    """

    def __init__(self, interval_s: float, max_poll_interval_s: float) -> None:
        self._interval_s = interval_s
        self._max_poll_interval_s = max_poll_interval_s
        self._pause_s = interval_s

    def wait_s(self, since_poll_s: float) -> float:
        """How long from now; less if the poll interval ends before, which the heartbeat task has to see.

        `since_poll_s`: how long ago the user last polled.
        """
        left_s = self._max_poll_interval_s - since_poll_s
        return min(self._pause_s, left_s + _BEYOND_S) if left_s > 0 else self._pause_s

    def assigned(self) -> None:
        """The member was assigned: the next heartbeat comes soon."""
        self._pause_s = min(_AFTER_AN_ASSIGNMENT_S, self._interval_s)

    def waited(self) -> None:
        """The time is over: the next wait is twice as long, up to the interval."""
        self._pause_s = min(2 * self._pause_s, self._interval_s)

    def failed(self, retry_s: float) -> None:
        """The heartbeat got no answer: the next comes after `retry_s`."""
        self._pause_s = min(retry_s, self._interval_s)
