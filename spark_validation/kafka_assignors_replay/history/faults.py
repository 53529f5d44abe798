"""Which clients and deployments make a group rebalance: `docs/replay.md` defines both.

A wave of changes that replaces all members is one deployment. All other changes form *episodes*: the joins
and leaves of one client. Memory is bounded by the group and the changes within one window.
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import AIOKAFKA, AIOKAFKA_OURS, MemberRecord


class FaultKind(str, enum.Enum):
    """The kinds of episodes, the worst first."""

    CRASH_LOOP = "crash loop"
    FLAPPING = "flapping"
    EXPIRED = "session expired"
    CAME_BACK = "came back"
    DEPLOYMENT = "deployment"
    SCALED = "scaled"


class Thresholds(NamedTuple):
    """What makes a fault of an episode; durations are in seconds."""

    deployment_s: float = 1800.0  # the longest that a deployment takes
    deployment_gap_s: float = 300.0  # the longest between two changes of one deployment
    # Kubernetes waits up to five minutes before it restarts a container that crashes, and forgets crashes
    # after ten minutes.
    back_again_s: float = 300.0  # a client that returns within it has restarted
    short_stay_s: float = 600.0  # a client that stays no longer than this has crashed
    crash_loop: int = 3  # restarts in a row, each after a short stay, that make a crash loop
    flapping: int = 4  # joins within `flapping_s` that are flapping
    flapping_s: float = 3600.0


THRESHOLDS = Thresholds()


@dataclass(slots=True, kw_only=True)
class Culprit:
    """A client whose joins and leaves made a group rebalance, or the group's deployments, without a client.

    `episodes` counts the episodes, each once a day (UTC), or the deployments. `client_id`, `client_host`,
    `instance_id` and the last `member_id` identify the client; `members` is the greatest number of its
    members at one time, or that a deployment replaced. `restarts` counts returns within `back_again_s`,
    `expiries` departures without a LeaveGroup. `generations` counts the generations in which the client
    joined or left, `alone` those in which no other client did.
    """

    group: str
    kind: FaultKind = FaultKind.SCALED
    client_id: str | None = None
    client_host: str | None = None
    instance_id: str | None = None
    member_id: str | None = None
    episodes: int = 1
    members: int = 1
    joins: int = 0
    leaves: int = 0
    restarts: int = 0
    expiries: int = 0
    generations: int = 0
    alone: int = 0
    first_timestamp: datetime
    last_timestamp: datetime

    def add(self, other: Culprit) -> None:
        """Add an episode of the same client, or another deployment."""
        if other.last_timestamp >= self.last_timestamp:
            self.member_id = other.member_id
        self.members = max(self.members, other.members)
        self.first_timestamp = min(self.first_timestamp, other.first_timestamp)
        self.last_timestamp = max(self.last_timestamp, other.last_timestamp)
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_COUNTS = ("episodes", "joins", "leaves", "restarts", "expiries", "generations", "alone")


_Who = tuple[str | None, str, str]
"""Instance id, client id, client host; the latter two are empty for a static member, which may move."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A generation in which members joined or left."""

    number: int  # of changes
    rebalance: int  # the number of generations
    rebalanced: bool  # False where a static member restarted without a generation
    timestamp: datetime
    before: int  # members before it
    # Of each identity: the last member, how many left, how many joined, the most at one time
    clients: Mapping[_Who, tuple[MemberRecord, int, int, int]]


@dataclass(slots=True)
class _Episode:
    """The joins and leaves of one client. `row`, `worst_streak` and `most_joins` are those of one day."""

    row: Culprit
    joins: deque[datetime] = field(default_factory=deque)  # the last, and others within `flapping_s` of it
    left: datetime | None = None
    streak: int = 0  # restarts in a row
    worst_streak: int = 0
    most_joins: int = 0

    def join(self, now: datetime) -> None:
        rules = THRESHOLDS
        if self.left is not None and _seconds(self.left, now) <= rules.back_again_s:
            self.row.restarts += 1
            was_short = not self.joins or _seconds(self.joins[-1], self.left) <= rules.short_stay_s
            self.streak = self.streak + 1 if was_short else 1
        else:
            self.streak = 0
        self.worst_streak = max(self.worst_streak, self.streak)
        self.joins.append(now)
        while _seconds(self.joins[0], now) > rules.flapping_s:
            self.joins.popleft()
        self.most_joins = max(self.most_joins, len(self.joins))

    def ended(self) -> Culprit:
        row, rules = self.row, THRESHOLDS
        if row.members > 1:
            row.restarts = self.worst_streak = 0  # the records do not show which of the members came back
        if self.worst_streak >= rules.crash_loop:
            row.kind = FaultKind.CRASH_LOOP
        elif self.most_joins >= rules.flapping:
            row.kind = FaultKind.FLAPPING
        elif row.expiries:
            row.kind = FaultKind.EXPIRED
        elif row.restarts:
            row.kind = FaultKind.CAME_BACK
        return row


@dataclass(slots=True)
class FaultFinder:
    """Finds the faults of one group: `feed` each record in order, then `finish`."""

    _group: str = ""
    _last: Generation | None = None
    _born: dict[str, int] = field(default_factory=dict)  # by member id: the change with which it came, sorted
    _changes: int = 0
    _rebalances: int = 0
    _youngest_gone: int = 0  # the latest birth of a member that has left
    _waiting: deque[_Change] = field(default_factory=deque)  # changes that may be part of a deployment
    _open: dict[_Who, _Episode] = field(default_factory=dict)  # sorted by the last change

    def feed(self, record: Generation) -> Iterator[Culprit]:
        """The episodes and deployments that this record ends."""
        last, self._last, self._group = self._last, record, record.group
        self._rebalances += not record.replacement
        before = last.members if last is not None and last.is_known else None
        if last is None or last.incarnation != record.incarnation or not record.is_comparable:
            yield from self._settle()
            # A group that is created again starts without members, unless its start is not in the history.
            before, self._born = {} if record.is_comparable else None, {}
        if before is None:
            self._born = dict.fromkeys(record.members, self._changes)
        elif before.keys() != record.members.keys():
            yield from self._settle(record.timestamp)
            self._waiting.append(self._change(before, record))
            yield from self._settle_wave(is_over=False)

    def finish(self) -> Iterator[Culprit]:
        """The remaining episodes and deployments, after the last record."""
        yield from self._settle()
        yield from (episode.ended() for episode in self._open.values())

    def _change(self, before: Mapping[str, MemberRecord], record: Generation) -> _Change:
        self._changes += 1
        left = [member for name, member in before.items() if name not in record.members]
        joined = [member for name, member in record.members.items() if name not in before]
        for member in left:
            self._youngest_gone = max(self._youngest_gone, self._born.pop(member.member_id, 0))
        self._born.update((member.member_id, self._changes) for member in joined)
        were, gone, new = (Counter(map(_who, members)) for members in (before.values(), left, joined))
        clients = {}
        for member in (*left, *joined):
            who = _who(member)
            clients[who] = member, gone[who], new[who], were[who] + max(new[who] - gone[who], 0)
        return _Change(
            self._changes, self._rebalances, not record.replacement, record.timestamp, len(before), clients
        )

    def _settle_wave(self, *, is_over: bool) -> Iterator[Culprit]:
        """Report the deployment that the last change completes, if any; the changes before it belong to none.

        Every member of the group must have joined in the wave, and none of these may have left again. While
        the group has fewer members than before the wave, a further member may still join. Once the wave
        `is_over`, a member may have left for good before a deployment of the others.
        """
        oldest, gone = next(iter(self._born.values()), 0), self._youngest_gone
        if oldest <= gone:
            return
        starts = (each for each in self._waiting if each.before >= 2 and gone < each.number <= oldest)
        first = next((each for each in starts if not is_over or each.before <= len(self._born)), None)
        if first is None or first.before > len(self._born):
            return
        while self._waiting[0] is not first:
            yield from self._charge(self._waiting.popleft())
        row, last = self._row(first.timestamp, first.before), self._waiting[-1]
        row.kind, row.last_timestamp = FaultKind.DEPLOYMENT, last.timestamp
        for change in self._waiting:
            row.leaves += sum(left for _, left, _, _ in change.clients.values())
            row.joins += sum(joined for _, _, joined, _ in change.clients.values())
        row.generations = last.rebalance - first.rebalance + first.rebalanced
        yield row
        self._waiting.clear()
        self._youngest_gone = self._changes

    def _settle(self, now: datetime | None = None) -> Iterator[Culprit]:
        """Settle the changes that no deployment which continues `now` can include; without a time, all."""
        rules, waiting = THRESHOLDS, self._waiting
        if waiting and (now is None or _seconds(waiting[-1].timestamp, now) > rules.deployment_gap_s):
            yield from self._settle_wave(is_over=True)
            now = None
        while waiting and (now is None or _seconds(waiting[0].timestamp, now) > rules.deployment_s):
            yield from self._charge(waiting.popleft())

    def _charge(self, change: _Change) -> Iterator[Culprit]:
        """Add a change to the episodes of its clients; yields those that are over, or of an earlier day."""
        now = change.timestamp
        while self._open:
            who, silent = next(iter(self._open.items()))
            if _seconds(silent.row.last_timestamp, now) <= THRESHOLDS.flapping_s:
                break
            del self._open[who]
            yield silent.ended()
        for who, (member, left, joined, at_once) in change.clients.items():
            episode = self._open.pop(who, None) or _Episode(self._row(now))
            if episode.row.first_timestamp.date() != now.date():
                yield episode.ended()
                episode.row = self._row(now, episode.row.members)
                episode.worst_streak, episode.most_joins = episode.streak, 0
            self._open[who] = episode
            row = episode.row
            row.client_id, row.client_host = member.client_id, member.client_host
            row.instance_id, row.member_id = member.instance_id, member.member_id
            row.members, row.last_timestamp = max(row.members, at_once), now
            row.joins += joined > 0
            row.leaves += left > 0
            # Only an expired session, or an administrator, removes static members: they do not leave when
            # they close (KIP-345). Those of aiokafka do.
            is_static = member.instance_id is not None and member.client not in (AIOKAFKA, AIOKAFKA_OURS)
            row.expiries += is_static and not joined
            row.generations += change.rebalanced
            row.alone += change.rebalanced and len(change.clients) == 1
            episode.left = now if left else episode.left
            if joined:
                episode.join(now)

    def _row(self, now: datetime, members: int = 1) -> Culprit:
        return Culprit(group=self._group, members=members, first_timestamp=now, last_timestamp=now)


def _seconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds()


def _who(member: MemberRecord) -> _Who:
    if member.instance_id is not None:
        return (member.instance_id, "", "")
    return (None, member.client_id, member.client_host)
