"""The events of a run, and their times: a function of the seed alone.

A plan is an endless sequence of rounds. In each round, random events happen for `ROUND_S` seconds, and may
overlap. Then every disturbance ends, and the group has to settle before the next round.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from compat_tests.support.fault_proxy import Direction, Effect, Fault

SESSION_TIMEOUT_S = 6.0
REBALANCE_TIMEOUT_S = MAX_POLL_INTERVAL_S = 10.0
"""Java and librdkafka have one setting for both."""

ROUND_S = 40.0
PARTITIONS: Mapping[str, int] = {"orders": 8, "payments": 5}
"""The topics, and their initial numbers of partitions."""

BROKERS = (1, 2, 3)

_PAUSE_S = 3.0
_MOST_PARTITIONS = 16
_MEMBERS = (3, 6)
"""The minimum and the maximum number of members."""

_MOST_OF_ONE_KIND: Mapping[str, int] = {"java": 2, "librdkafka": 2}
_START_S = 5.0
_STATIC = 0.4
"""The share of static members among those that join."""

_BROKER_RECOVERS_S = 20.0

_OURS = ("aiokafka", "kafka-python", "aiokafka-copying", "kafka-python-copying")
"""Kinds of members that connect through the proxy and know all orders."""


class Action:
    """An event as a value, which names its target and its duration."""


@dataclass(frozen=True)
class OfMember(Action):
    member: str


@dataclass(frozen=True)
class ForSomeTime(OfMember):
    seconds: float


@dataclass(frozen=True)
class Join(OfMember):
    """Start a process. A `static` member has its name as instance id (KIP-345)."""

    kind: str
    topics: Sequence[str]
    static: bool = False


class Leave(OfMember):
    """SIGTERM. A static member closes without leaving, and the group waits for the end of its session."""


class Kill(OfMember):
    """SIGKILL."""


@dataclass(frozen=True)
class Restart(ForSomeTime):
    """End the process of a static member, by SIGTERM or `killed`, and start it again after `seconds`.

    The new process has the same instance id. It starts within the session, or after it.
    """

    killed: bool


class Freeze(ForSomeTime):
    """SIGSTOP, and SIGCONT after `seconds`: within the session, or after it."""


class Suspend(ForSomeTime):
    """The member's machine sleeps: its process and its CLOCK_MONOTONIC stop."""


class Stall(ForSomeTime):
    """The application does not poll for longer than the poll interval."""


@dataclass(frozen=True)
class SlowListener(ForSomeTime):
    """Each call of the member's listener takes `pause_s` longer."""

    pause_s: float


class HangListener(ForSomeTime):
    """A call of the member's listener that runs in these seconds returns at their end."""


class RaiseInListener(ForSomeTime):
    """Each call of the member's listener raises after it has done its work."""


@dataclass(frozen=True)
class NetworkFault(ForSomeTime):
    """The network between brokers and members has a fault.

    It affects one member or, if `member` is empty, all members behind the proxy, and the broker in `fault`.
    """

    fault: Fault


@dataclass(frozen=True)
class Subscribe(OfMember):
    topics: Sequence[str]


class OfBrokers(Action):
    """Brokers are disturbed one at a time, even if one returns later than planned."""


@dataclass(frozen=True)
class AddPartitions(OfBrokers):
    topic: str
    total: int


@dataclass(frozen=True)
class RestartBroker(OfBrokers):
    """SIGTERM to a broker, and a start after `seconds`."""

    broker: int
    seconds: float


@dataclass(frozen=True)
class KillCoordinator(OfBrokers):
    """SIGKILL to the broker that coordinates the group, and a start after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """An action, and when it begins, in seconds from the beginning of its round."""

    at_s: float
    action: Action


def plan(seed: int, kinds: Sequence[str]) -> Iterator[Sequence[Step]]:
    """The rounds for a seed.

    `kinds` are the members' clients. The group begins with a member of each kind, and one more of the first.
    """
    planner = _Planner(random.Random(seed), kinds)
    yield planner.round(planner.beginning())
    while True:
        yield planner.round([])


@dataclass(slots=True)
class _Member:
    kind: str
    topics: Sequence[str]
    ready_at: float
    """On the planner's clock: nothing happens to a starting process."""
    busy_until: float
    """Until then, the member can only be killed."""
    static: bool


@dataclass(slots=True)
class _Planner:
    random: random.Random
    kinds: Sequence[str]
    now: float = 0.0
    round_begin: float = 0.0
    members: dict[str, _Member] = field(default_factory=dict)
    started: int = 0
    partitions: dict[str, int] = field(default_factory=lambda: dict(PARTITIONS))
    brokers_busy_until: float = 0.0

    def beginning(self) -> list[Step]:
        return [Step(0.0, self._start(kind, tuple(PARTITIONS))) for kind in (*self.kinds, self.kinds[0])]

    def round(self, steps: list[Step]) -> Sequence[Step]:
        self.round_begin = self.now
        between = partial(partial, self._seconds)
        choices: Mapping[Callable[[], Action | None], float] = {
            self._join: 3,
            partial(self._end, Leave, self._free): 2,
            self._restart: 2,
            partial(self._end, Kill, self._ready): 2,
            partial(self._disturb, Freeze, self._past_the_session_or_within): 3,
            partial(self._disturb, Stall, between(MAX_POLL_INTERVAL_S + 1, MAX_POLL_INTERVAL_S + 4)): 1.5,
            self._slow_listener: 2,
            self._subscribe: 2,
            self._add_partitions: 0.7,
            partial(self._end_broker, lambda s: RestartBroker(self.random.choice(BROKERS), s), 4): 0.7,
            partial(self._end_broker, KillCoordinator, 8): 0.9,
            partial(self._disturb, Suspend, self._past_the_session_or_within, _OURS): 1.5,
            partial(
                self._disturb, HangListener, between(REBALANCE_TIMEOUT_S, 2 * REBALANCE_TIMEOUT_S), _OURS
            ): 1,
            partial(self._disturb, RaiseInListener, between(5, 15), _OURS): 1,
            self._network_fault: 3,
            self._network_fault_of_a_broker: 1,
        }
        self.now += _START_S if steps else 0.0
        while True:
            self.now += self.random.expovariate(1 / _PAUSE_S)
            if self.now - self.round_begin > ROUND_S:
                break
            if (action := self._any(choices)) is not None:
                steps.append(Step(round(self.now - self.round_begin, 3), action))
        # All disturbances end before the next round.
        self.now = self.brokers_busy_until = max(
            self.now, self.brokers_busy_until, *(member.busy_until for member in self.members.values())
        )
        return steps

    def _any(self, choices: Mapping[Callable[[], Action | None], float]) -> Action | None:
        """A possible action; None if all members are starting and the brokers are busy."""
        left = dict(choices)
        while left:
            (choice,) = self.random.choices(list(left), list(left.values()))
            action = choice()
            if action is not None:
                return action
            del left[choice]
        return None

    def _start(self, kind: str, topics: Sequence[str]) -> Join:
        self.started += 1
        name = f"{kind}-{self.started}"
        static = self.random.random() < _STATIC
        self.members[name] = _Member(kind, topics, self.now + _START_S, self.now + _START_S, static)
        return Join(name, kind, topics, static)

    def _seconds(self, least: float, most: float) -> float:
        return round(self.random.uniform(least, most), 3)

    def _free(self, kinds: Collection[str] | None = None) -> list[str]:
        return [
            name
            for name, member in self.members.items()
            if member.busy_until <= self.now and (kinds is None or member.kind in kinds)
        ]

    def _ready(self) -> list[str]:
        return [name for name, member in self.members.items() if member.ready_at <= self.now]

    def _is_covered_without(self, name: str) -> bool:
        rest = (member.topics for other, member in self.members.items() if other != name)
        return {topic for topics in rest for topic in topics} == set(PARTITIONS)

    def _expendable(self, names: Sequence[str]) -> list[str]:
        if len(self.members) <= _MEMBERS[0]:
            return []
        return [name for name in names if self._is_covered_without(name)]

    def _pick(self, names: Sequence[str]) -> str | None:
        return self.random.choice(names) if names else None

    def _busy(self, seconds: float, kinds: Collection[str] | None = None) -> str | None:
        name = self._pick(self._free(kinds))
        if name is not None:
            self.members[name].busy_until = self.now + seconds + 1
        return name

    # ---- one of each kind of action; None if no member can be its target

    def _join(self) -> Join | None:
        if len(self.members) >= _MEMBERS[1]:
            return None
        counts = [member.kind for member in self.members.values()]
        kinds = [kind for kind in self.kinds if counts.count(kind) < _MOST_OF_ONE_KIND.get(kind, _MEMBERS[1])]
        topics = tuple(PARTITIONS)
        if self.random.random() < 0.2:
            topics = (self.random.choice(topics),)
        return self._start(self.random.choice(kinds), topics)

    def _end(self, make: Callable[[str], Action], names: Callable[[], Sequence[str]]) -> Action | None:
        name = self._pick(self._expendable(names()))
        if name is None:
            return None
        del self.members[name]
        return make(name)

    def _restart(self) -> Restart | None:
        name = self._pick([name for name in self._free() if self.members[name].static])
        if name is None:
            return None
        if self.random.random() < 0.6:
            seconds = self._seconds(0, SESSION_TIMEOUT_S - 3)
        else:
            seconds = self._seconds(SESSION_TIMEOUT_S + 1, SESSION_TIMEOUT_S + 4)
        member = self.members[name]
        member.ready_at = member.busy_until = self.now + seconds + _START_S
        return Restart(name, seconds, self.random.random() < 0.5)

    def _past_the_session_or_within(self) -> float:
        if self.random.random() < 0.7:
            return self._seconds(SESSION_TIMEOUT_S + 1, SESSION_TIMEOUT_S + 7)
        return self._seconds(0.5, SESSION_TIMEOUT_S - 2)

    def _disturb(
        self,
        make: Callable[[str, float], Action],
        draw_s: Callable[[], float],
        kinds: Collection[str] | None = None,
    ) -> Action | None:
        seconds = draw_s()
        name = self._busy(seconds, kinds)
        return None if name is None else make(name, seconds)

    def _slow_listener(self) -> SlowListener | None:
        # The longest calls outlast the rebalance, and the group goes on without the member.
        pause = self._seconds(0.5, REBALANCE_TIMEOUT_S + 2)
        seconds = self._seconds(5, 15)
        name = self._busy(pause + seconds)
        return None if name is None else SlowListener(name, seconds, pause)

    def _network_fault(self) -> NetworkFault | None:
        is_blip = self.random.random() < 0.5
        seconds = self._seconds(0.1, 5.0) if is_blip else self._past_the_session_or_within()
        name = self._busy(seconds, _OURS)
        if name is None:
            return None
        fault = self._fault(frozenset({name}), None, self.random.random() < 0.5)
        return NetworkFault(name, seconds, fault)

    def _network_fault_of_a_broker(self) -> NetworkFault | None:
        seconds = self._past_the_session_or_within()
        if not any(member.kind in _OURS for member in self.members.values()) or self._brokers_are_busy(
            seconds
        ):
            return None
        return NetworkFault("", seconds, self._fault(None, self.random.choice(BROKERS), False))

    def _fault(self, clients: frozenset[str] | None, broker: int | None, coordinator_only: bool) -> Fault:
        effect = self.random.choice(list(Effect))
        direction = self.random.choice([Direction.BOTH, Direction.TO_BROKER, Direction.TO_CLIENT])
        if effect is not Effect.SLOW:
            return Fault(effect, direction, clients, broker, coordinator_only)
        latency_s, bytes_per_s = self._seconds(0.1, 1.0), self._seconds(20_000, 200_000)
        return Fault(effect, direction, clients, broker, coordinator_only, latency_s, bytes_per_s)

    def _subscribe(self) -> Subscribe | None:
        name = self._pick(self._free())
        if name is None:
            return None
        member = self.members[name]
        choices: list[Sequence[str]] = [tuple(PARTITIONS), *((topic,) for topic in PARTITIONS)]
        if not self._is_covered_without(name):
            choices = [topics for topics in choices if len(topics) == len(PARTITIONS)]
        choices = [topics for topics in choices if tuple(topics) != tuple(member.topics)]
        if not choices:
            return None
        member.topics = self.random.choice(choices)
        return Subscribe(name, member.topics)

    def _add_partitions(self) -> AddPartitions | None:
        if self._brokers_are_busy(5.0):
            return None
        topic = self.random.choice(list(PARTITIONS))
        total = self.partitions[topic] + self.random.randint(1, 2)
        if total > _MOST_PARTITIONS:
            return None
        self.partitions[topic] = total
        return AddPartitions(topic, total)

    def _end_broker(self, make: Callable[[float], Action], most: float) -> Action | None:
        seconds = self._seconds(0, most)
        return None if self._brokers_are_busy(seconds + _BROKER_RECOVERS_S) else make(seconds)

    def _brokers_are_busy(self, seconds: float) -> bool:
        """Whether brokers are being disturbed; if not, mark them as busy for `seconds`."""
        if self.now < self.brokers_busy_until:
            return True
        self.brokers_busy_until = self.now + seconds
        return False
