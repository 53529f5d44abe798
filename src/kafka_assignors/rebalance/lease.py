"""Until when a member may deliver.

A member may deliver only while the coordinator cannot have given its partitions away:
    - within the session timeout after it *sent* the last request that was accepted: the coordinator's own
      timer starts later, when the request arrives. The arrival of the response proves nothing: it may have
      lain in the socket of a frozen process;
    - within the rebalance timeout after it sent the last request that was accepted and *not* answered
      REBALANCE_IN_PROGRESS: a rebalance may begin right after, and may end without this member. Between the
      responses to JoinGroup and SyncGroup, heartbeats are answered OK but do not count here: the coordinator
      removes a member whose SyncGroup does not come within the rebalance timeout.
After the lease the member delivers nothing, and a heartbeat that is answered OK does not bring it back:
while a coordinator that took over loads the group, it says OK to all heartbeats, also of members that were
removed long ago (`GroupCoordinatorService.heartbeat` of Kafka). The member joins again. Only a SyncGroup
response or a heartbeat's REBALANCE_IN_PROGRESS brings the lease back: they come from a coordinator that knows
the member. The end of a lease alone is no loss: only the coordinator can say so.

A lease must end while the computer sleeps, since the coordinator's clock goes on and partitions get other
owners. `time.monotonic` stops during sleep on Linux and macOS.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

NEVER = -math.inf


@dataclass(frozen=True, slots=True)
class Settings:
    """The timeouts of a member, in seconds.

    `rebalance_timeout` is the one in the JoinGroup request (Java sends max.poll.interval.ms); for a request
    too old to have one, it is the session timeout.
    """

    session_timeout: float
    rebalance_timeout: float
    max_poll_interval: float
    static: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """When the last requests were sent that the coordinator accepted.

    Attributes:
        heard_at: when the last request was sent whose response shows that the coordinator has this member.
        stable_at: the same for a response that is not REBALANCE_IN_PROGRESS.
    """

    heard_at: float = NEVER
    stable_at: float = NEVER

    def renewed(self, sent_at: float, *, rebalancing: bool) -> Lease:
        """The lease after a request sent at `sent_at` was accepted; responses may come in any order.

        `rebalancing`: a rebalance may be going on, so only the session timeout starts again.
        """
        stable_at = self.stable_at if rebalancing else max(self.stable_at, sent_at)
        return Lease(max(self.heard_at, sent_at), stable_at)

    def until(self, settings: Settings) -> float:
        """When the lease ends; -inf if the member has none."""
        return min(self.heard_at + settings.session_timeout, self.stable_at + settings.rebalance_timeout)


NO_LEASE = Lease()


def _choose_clock() -> Callable[[], float]:
    # On macOS CLOCK_MONOTONIC goes on while the computer sleeps, and there is no CLOCK_BOOTTIME.
    name = "CLOCK_MONOTONIC" if sys.platform == "darwin" else "CLOCK_BOOTTIME"
    number = getattr(time, name, None)
    if number is None:
        return time.monotonic  # Windows, where it goes on.
    try:
        time.clock_gettime(number)
    except OSError:  # A kernel, or a sandbox, that does not have it.
        return time.monotonic
    return partial(time.clock_gettime, number)


clock: Callable[[], float] = _choose_clock()
"""Seconds that never go back and go on while the computer is suspended. Tests replace `lease.clock`."""
