"""Which clients and deployments make a group rebalance, as far as the members of its generations show it.

Every generation is compared with the one before it: which members joined, which left, and which static member
restarted in place. A member has a new id after every restart, so its identity is the instance id, else client
id and host. Members that share these at one time are counted together, without `crash loop` and `came back`.

1. **Deployments** are taken out first. A wave of changes, each soon after the other, in which *all* members
   are replaced by as many, and none of the new members leaves again, is one deployment, regardless of the
   number of generations. A deployment is not charged to a client.
2. All other changes form *episodes*: the joins and leaves of one identity, each within
   `FaultRules.flapping_s` of the one before. The kind of an episode is the worst that applies:

   * `crash loop`: the client returned within `back_again_s` of leaving at least `crash_loop` times in a row,
     and never stayed longer than `short_stay_s` in between;
   * `flapping`: the client joined at least `flapping` times within `flapping_s`;
   * `session expired`: a static member, which sends no LeaveGroup, left, or an administrator removed it;
   * `came back`: the client left and returned soon, once or twice: a restart, a late poll, …;
   * `scaled`: the client joined or left.

Not compared are a generation whose members do not decode or are not all known, one after lost records, and
the first of a history that starts late. Memory is bounded by the group and the changes within one window.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime

from kafka_assignors_replay.folds.rebalances import Generation
from kafka_assignors_replay.folds.records import AIOKAFKA, AIOKAFKA_OURS, MemberRecord


class FaultKind(str, enum.Enum):
    """The kinds of episodes, the worst first."""

    CRASH_LOOP = "crash loop"
    FLAPPING = "flapping"
    EXPIRED = "session expired"
    CAME_BACK = "came back"
    DEPLOYMENT = "deployment"
    SCALED = "scaled"


@dataclass(frozen=True, slots=True)
class FaultRules:
    """The thresholds, durations in seconds; `ValueError` names an invalid one.

    Attributes:
        deployment_s: the longest that a deployment takes.
        deployment_gap_s: the longest between two changes of one deployment.
        back_again_s: a client that returns within it has restarted. Kubernetes waits up to five minutes
            before it restarts a container that crashes, hence the default.
        short_stay_s: a client that stays no longer than this has crashed. Kubernetes forgets crashes after
            ten minutes.
        crash_loop: restarts in a row that make a crash loop.
        flapping, flapping_s: this number of joins within this time is flapping.
    """

    deployment_s: float = 1800.0
    deployment_gap_s: float = 300.0
    back_again_s: float = 300.0
    short_stay_s: float = 600.0
    crash_loop: int = 3
    flapping: int = 4
    flapping_s: float = 3600.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ValueError(f"{name} is {value}, and has to be greater than 0")


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the table `faults`: an episode on one day (UTC), or a deployment.

    `client_id`, `client_host`, `instance_id` and the last `member_id` identify the client, and `members` is
    the greatest number of its members at one time. For a deployment the identity is None, and `members` is
    the number of replaced members. `restarts` counts returns within `back_again_s`, `expiries` departures
    without a LeaveGroup. `generations` counts the generations in which the client joined or left, `alone`
    those in which no other client did.
    """

    group: str
    date: date
    kind: FaultKind
    client_id: str | None
    client_host: str | None
    instance_id: str | None
    member_id: str | None
    members: int
    joins: int
    leaves: int
    restarts: int
    expiries: int
    generations: int
    alone: int
    first_timestamp: datetime
    last_timestamp: datetime


_Who = tuple[str | None, str, str]
"""Instance id, client id, client host; the latter two are empty for a static member, which may move."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A generation in which a member joined or left. `before` is the number of members before it.

    `number` counts changes, `rebalance` generations; `rebalanced` is False where a static member restarted
    without one. `at_once` is, for each identity that joined or left, the greatest number of its members
    before or after the change.
    """

    number: int
    rebalance: int
    timestamp: datetime
    came: tuple[MemberRecord, ...]
    went: tuple[MemberRecord, ...]
    before: int
    rebalanced: bool
    at_once: Mapping[_Who, int]


@dataclass(slots=True)
class FaultFinder:
    """Finds the episodes of one group: `feed` each record in order, then `finish`.

    The fields, without the rules, are its whole state.
    """

    _rules: FaultRules
    _group: str = ""
    _members: dict[str, MemberRecord] | None = None  # None: unknown
    _incarnation: int | None = None
    _born: dict[str, int] = field(default_factory=dict)  # by member id: the change with which it came
    _present: Counter[_Who] = field(default_factory=Counter)
    _changes: int = 0
    _rebalances: int = 0
    _youngest_gone: int = 0  # the latest birth of a member that has left
    _waiting: deque[_Change] = field(default_factory=deque)  # changes that may be part of a deployment
    # Sorted by the last change, the oldest first.
    _open: OrderedDict[_Who, _Episode] = field(default_factory=OrderedDict)

    def feed(self, record: Generation) -> Iterator[Fault]:
        """The episodes and deployments that this record ends."""
        self._group = record.group
        self._rebalances += not record.replacement
        if record.incarnation != self._incarnation:
            yield from self._settle_all()
            self._incarnation = record.incarnation
            # A group that is created again starts without members, unless its start is not in the history.
            self._members = None if record.starts_late else {}
            self._born.clear()
            self._present.clear()
        if record.lost or not record.is_known:
            yield from self._settle_all()
            self._members = None
        if not record.is_known:
            return
        before, self._members = self._members, dict(record.members)
        if before is None:
            self._born = dict.fromkeys(record.members, self._changes)
            self._present = Counter(map(_who, record.members.values()))
            return
        came = tuple(member for name, member in record.members.items() if name not in before)
        went = tuple(member for name, member in before.items() if name not in record.members)
        if came or went:
            yield from self._change(record, came, went, len(before))

    def finish(self) -> Iterator[Fault]:
        """The remaining episodes and deployments, after the last record."""
        yield from self._settle_all()
        yield from map(self._fault, self._open.values())
        self._open.clear()

    def _change(
        self,
        record: Generation,
        came: tuple[MemberRecord, ...],
        went: tuple[MemberRecord, ...],
        before: int,
    ) -> Iterator[Fault]:
        yield from self._settle_older(record.timestamp)
        self._changes += 1
        for member in went:
            self._youngest_gone = max(self._youngest_gone, self._born.pop(member.member_id, 0))
        for member in came:
            self._born[member.member_id] = self._changes
        self._waiting.append(
            _Change(
                self._changes,
                self._rebalances,
                record.timestamp,
                came,
                went,
                before,
                rebalanced=not record.replacement,
                at_once=self._count(came, went),
            )
        )
        starts = self._wave_starts()
        # With fewer members than before, a further member may still join.
        if starts and starts[0].before <= len(self._born):
            yield from self._settle_wave(starts[0])

    def _count(self, came: Iterable[MemberRecord], went: Iterable[MemberRecord]) -> dict[_Who, int]:
        before, after = Counter(map(_who, went)), Counter(map(_who, came))
        at_once = {who: self._present[who] for who in before | after}
        self._present.update(after)
        self._present.subtract(before)
        for who, count in at_once.items():
            at_once[who] = max(count, self._present[who])
            if not self._present[who]:
                del self._present[who]
        return at_once

    def _wave_starts(self) -> list[_Change]:
        """The changes that can be the start of a deployment that the last change completes.

        Every member of the group must have joined with that change or later, and none of these may have left
        again.
        """
        oldest = min(self._born.values(), default=0)
        if oldest <= self._youngest_gone:
            return []
        return [
            change
            for change in self._waiting
            if self._youngest_gone < change.number <= oldest and change.before >= 2
        ]

    def _settle_wave(self, start: _Change) -> Iterator[Fault]:
        """Report the changes from `start` on as a deployment; the changes before it belong to none."""
        while self._waiting[0].number < start.number:
            yield from self._settle(self._waiting.popleft())
        yield self._deployment(tuple(self._waiting))
        self._waiting.clear()
        self._youngest_gone = self._changes

    def _settle_older(self, now: datetime) -> Iterator[Fault]:
        """Settle the changes that are too old for a deployment that continues until now."""
        if not self._waiting:
            return
        gap_s = (now - self._waiting[-1].timestamp).total_seconds()
        if gap_s > self._rules.deployment_gap_s:
            yield from self._settle_all()
        while self._waiting and (now - self._waiting[0].timestamp).total_seconds() > self._rules.deployment_s:
            yield from self._settle(self._waiting.popleft())

    def _settle_all(self) -> Iterator[Fault]:
        """Settle all waiting changes: no later change is close enough to belong to them."""
        # A member may have left for good before a deployment of the others.
        starts = [start for start in self._wave_starts() if start.before <= len(self._born)]
        if starts:
            yield from self._settle_wave(starts[0])
        while self._waiting:
            yield from self._settle(self._waiting.popleft())

    def _settle(self, change: _Change) -> Iterator[Fault]:
        """Add a change that belongs to no deployment to the episodes of its clients. Yields the episodes that
        are over by then, or belong to an earlier day."""
        now = change.timestamp
        yield from self._close_silent(now)
        went = {_who(member): member for member in change.went}
        came = {_who(member): member for member in change.came}
        both = went | came
        for who, member in both.items():
            episode = self._open.get(who)
            if episode is None:
                episode = self._open[who] = _Episode(member, now, now)
            elif episode.last.date() != now.date():
                yield self._fault(episode)
                episode.first, episode.counts = now, FaultCounts()
                episode.worst_streak, episode.most_joins = episode.streak, 0
            self._open.move_to_end(who)
            episode.member, episode.last = member, now
            episode.at_once = max(episode.at_once, change.at_once[who])
            if change.rebalanced:
                episode.counts.generations += 1
                episode.counts.alone += len(both) == 1
            if who in went:
                self._left(episode, went[who], now, stays_static=who in came)
            if who in came:
                self._joined(episode, now)

    def _left(self, episode: _Episode, member: MemberRecord, now: datetime, *, stays_static: bool) -> None:
        episode.counts.leaves += 1
        episode.left = now
        episode.stay_s = None if episode.joined is None else (now - episode.joined).total_seconds()
        episode.counts.expiries += _went_without_goodbye(member) and not stays_static

    def _joined(self, episode: _Episode, now: datetime) -> None:
        rules = self._rules
        episode.counts.joins += 1
        if episode.left is not None and (now - episode.left).total_seconds() <= rules.back_again_s:
            episode.counts.restarts += 1
            short = episode.stay_s is None or episode.stay_s <= rules.short_stay_s
            episode.streak = episode.streak + 1 if short else 1
        else:
            episode.streak = 0
        episode.worst_streak = max(episode.worst_streak, episode.streak)
        episode.joined = now
        episode.times.append(now)
        while (now - episode.times[0]).total_seconds() > rules.flapping_s:
            episode.times.popleft()
        episode.most_joins = max(episode.most_joins, len(episode.times))

    def _close_silent(self, now: datetime) -> Iterator[Fault]:
        while self._open:
            who, episode = next(iter(self._open.items()))
            if (now - episode.last).total_seconds() <= self._rules.flapping_s:
                return
            del self._open[who]
            yield self._fault(episode)

    def _fault(self, episode: _Episode) -> Fault:
        member = episode.member
        counts = episode.counts if episode.at_once == 1 else replace(episode.counts, restarts=0)
        return Fault(
            group=self._group,
            date=episode.first.date(),
            kind=self._kind(episode),
            client_id=member.client_id,
            client_host=member.client_host,
            instance_id=member.instance_id,
            member_id=member.member_id,
            members=episode.at_once,
            **asdict(counts),
            first_timestamp=episode.first,
            last_timestamp=episode.last,
        )

    def _kind(self, episode: _Episode) -> FaultKind:
        alone = episode.at_once == 1
        if alone and episode.worst_streak >= self._rules.crash_loop:
            return FaultKind.CRASH_LOOP
        if episode.most_joins >= self._rules.flapping:
            return FaultKind.FLAPPING
        if episode.counts.expiries:
            return FaultKind.EXPIRED
        return FaultKind.CAME_BACK if alone and episode.counts.restarts else FaultKind.SCALED

    def _deployment(self, changes: tuple[_Change, ...]) -> Fault:
        first, last = changes[0], changes[-1]
        counts = FaultCounts(
            joins=sum(len(change.came) for change in changes),
            leaves=sum(len(change.went) for change in changes),
            generations=last.rebalance - first.rebalance + first.rebalanced,
        )
        return Fault(
            group=self._group,
            date=first.timestamp.date(),
            kind=FaultKind.DEPLOYMENT,
            client_id=None,
            client_host=None,
            instance_id=None,
            member_id=None,
            members=first.before,
            **asdict(counts),
            first_timestamp=first.timestamp,
            last_timestamp=last.timestamp,
        )


@dataclass(slots=True)
class FaultCounts:
    """The counts of a `Fault`, while they grow."""

    joins: int = 0
    leaves: int = 0
    restarts: int = 0
    expiries: int = 0
    generations: int = 0
    alone: int = 0


@dataclass(slots=True)
class _Episode:
    """The joins and leaves of one identity. The counts are those of one day; all else continues over
    midnight."""

    member: MemberRecord
    first: datetime
    last: datetime
    joined: datetime | None = None
    left: datetime | None = None
    stay_s: float | None = None  # the last one that ended
    streak: int = 0  # restarts in a row
    at_once: int = 1
    times: deque[datetime] = field(default_factory=deque)  # of joins, within `flapping_s`
    worst_streak: int = 0
    most_joins: int = 0
    counts: FaultCounts = field(default_factory=FaultCounts)


def _who(member: MemberRecord) -> _Who:
    if member.instance_id is not None:
        return (member.instance_id, "", "")
    return (None, member.client_id, member.client_host)


def _went_without_goodbye(member: MemberRecord) -> bool:
    """Whether only an expired session, or an administrator, can have removed the member from the group.

    Static members do not leave when they close (KIP-345). Static members of aiokafka do leave.
    """
    return member.instance_id is not None and member.client not in (AIOKAFKA, AIOKAFKA_OURS)
