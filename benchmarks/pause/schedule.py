"""The events of a group, one after the other, always in this order.

    rest     no records and no event: only the CPU is measured
    join     a fifth member joins
    leave    the oldest member, which leads, leaves
    kill     the next oldest is killed (SIGKILL); the window begins when its session may expire
    refill   a fourth member joins again
    none     nothing, for twice the window
    rolling  one member after the other leaves, and another process joins as soon as it has left
    slow     a fifth member joins, while one of the four learns late of the rebalance

Every process that will join has loaded its client before the first event.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Collection

from benchmarks.pause.figures import Occurrence, Recording
from benchmarks.pause.group import Group, Settings
from benchmarks.pause.peers import Peer
from compat_tests.support.kafka_cluster import Kafka

__all__ = ["EVENTS", "measure"]

EVENTS = ("rest", "join", "leave", "kill", "refill", "none", "rolling", "slow")
_FIRST = ("a", "b", "c", "d")


def measure(
    kafka: Kafka,
    name: str,
    peer: Peer,
    settings: Settings,
    events: Collection[str],
    *,
    seed: int,
) -> Recording:
    """Form a group of a peer, run the events, and return the recording.

    `seed` decides where in their heartbeat interval the events find the members; it is the same for every
    peer. The run ends early if an event leaves a partition without an owner for too long.
    """
    with Group(kafka, peer, settings) as group:
        run = _Run(group, settings, seed)
        with contextlib.suppress(_Unsettled):
            run.all_of(events)
        return Recording(name, settings.partitions, run.occurrences, group.rows, run.cpu)


class _Unsettled(Exception):
    """Some partitions are not being delivered."""


class _Run:
    def __init__(self, group: Group, settings: Settings, seed: int) -> None:
        self._group = group
        self._settings = settings
        self._random = random.Random(seed)
        self.occurrences: list[Occurrence] = []
        self.cpu: dict[str, float] = {}

    def all_of(self, events: Collection[str]) -> None:
        """Run these events, and the events that must precede them."""
        self.form()
        if "rest" in events:
            self.rest()
        if {"join", "leave"} & set(events):
            self.join("join", "e")
            self.leave()
        if {"kill", "refill"} & set(events):
            self.kill()
            self.join("refill", "f")
        if "none" in events:
            self.nothing()
        if "rolling" in events:
            self.rolling()
        if "slow" in events:
            self.slow()

    def form(self) -> None:
        group = self._group
        group.stand_by([*_FIRST, "e", "f", "g", "h", "i", "slow", "k"], slow=["slow"])
        for name in _FIRST:
            group.join(name)
        group.start_producer()
        if not group.settle():
            raise _Unsettled
        group.has_state()
        # Wait until the initial backlog and the early heartbeats after the assignment are over.
        time.sleep(self._settings.window_s)

    def nothing(self) -> None:
        def twice() -> None:
            self._occurs("none", lambda: None)
            self._occurs("none", lambda: None)

        self._measure_cpu("steady", twice)
        first, second = self.occurrences[-2:]
        both = dataclasses.replace(
            first, event="none twice", end_ns=second.end_ns, window_end_ns=second.window_end_ns
        )
        self.occurrences.append(both)

    def rest(self) -> None:
        self._group.hold_producer()
        time.sleep(self._settings.settled_within_s)
        self._measure_cpu("rest", lambda: time.sleep(self._settings.rest_s))
        self._group.resume_producer()
        self._group.settle()

    def join(self, event: str, name: str, windows: int = 1) -> None:
        self._occurs(event, lambda: self._group.join(name), joined=name, windows=windows)

    def leave(self) -> None:
        oldest = self._group.live[0]
        self._occurs("leave", lambda: self._group.leave(oldest), left=oldest)

    def kill(self) -> None:
        oldest = self._group.live[0]
        noticed_s = (self._settings.session_timeout_ms - self._settings.heartbeat_interval_ms) / 1000
        self._occurs("kill", lambda: self._group.kill(oldest), left=oldest, after_s=noticed_s)

    def rolling(self) -> None:
        for old, new in zip(list(self._group.live), ("g", "h", "i", "slow"), strict=True):
            self._restart("rolling", old, new)

    def slow(self) -> None:
        if "slow" not in self._group.live:
            self._restart("preparation", self._group.live[0], "slow")
        self.join("slow", "k", windows=2)

    def _restart(self, event: str, old: str, new: str) -> None:
        def restart() -> None:
            self._group.leave(old)
            self._group.join(new)

        self._occurs(event, restart, left=old, joined=new)

    def _occurs(
        self,
        event: str,
        action: Callable[[], None],
        *,
        left: str | None = None,
        joined: str | None = None,
        after_s: float = 0.0,
        windows: int = 1,
    ) -> None:
        begin_ns = time.monotonic_ns()
        action()
        window_begin_ns = begin_ns + int(after_s * 1e9)
        window_end_ns = window_begin_ns + int(windows * self._settings.window_s * 1e9)
        time.sleep(max(0.0, (window_end_ns - time.monotonic_ns()) / 1e9))
        settled = self._group.settle()
        # All heartbeats are in step after this event; a random pause lets the next event meet them anywhere.
        time.sleep(self._random.uniform(0, self._settings.heartbeat_interval_ms / 1000))
        self._group.check()
        self._group.read()
        self.occurrences.append(
            Occurrence(
                event, begin_ns, time.monotonic_ns(), window_begin_ns, window_end_ns, left, joined, settled
            )
        )
        if not settled:
            raise _Unsettled

    def _measure_cpu(self, what: str, action: Callable[[], None]) -> None:
        """Run `action`, and record the mean CPU milliseconds per second of a member."""
        before_ns, began = self._group.cpu_ns(), time.monotonic()
        action()
        took_ms = (self._group.cpu_ns() - before_ns) / 1e6
        self.cpu[what] = took_ms / (time.monotonic() - began) / len(self._group.live)
