"""Who makes a group rebalance: what the memberships of consecutive generations show, and no more.

Every generation is compared with the one before it: who came, who went, and which static member restarted in
place. Member ids are new after every restart, so who somebody *is* is told by the instance id, else by client
id and host. Where several members share client id and host at one time, nobody can tell which of them came
again: they are counted together, and neither `crash loop` nor `came back` is said of them.

1. **Deployments** are taken out first. A wave of changes, each soon after the other, in which *all* members
   are replaced by as many, and none of the newcomers leaves again, is one deployment and nobody's fault,
   however many generations it takes.
2. What is left is put together to *episodes*: the comings and goings of one identity, each within
   `FaultRules.flapping_s` of the one before. An episode is called by the worst that is true of it:

   * `crash loop`: it was back within `back_again_s` of going at least `crash_loop` times in a row, and never
     stayed longer than `short_stay_s` in between;
   * `flapping`: it joined at least `flapping` times within `flapping_s`;
   * `session expired`: a static member went. It does not say goodbye, so its session ended, be it that the
     process died or that it did not poll; or an administrator removed it;
   * `came back`: it went and was back soon, once or twice. A restart, a session that ended and a poll
     interval that was exceeded look the same in the records;
   * `scaled`: it came or went.

What cannot be seen is not guessed: a generation whose members do not decode or are not all known, one before
which records are lost, and the first of a history that starts late, are compared with nothing.

Pure Python without Spark, one record at a time. What is kept is bounded by the group's size and by the
changes within one window, not by the length of its history.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from typing import Any

from kafka_assignors_spark.folds.clients import AIOKAFKA, AIOKAFKA_OURS, client_of
from kafka_assignors_spark.folds.rebalances import Generation
from kafka_assignors_spark.folds.records import MemberRecord
from kafka_assignors_spark.timestamps import to_micros

__all__ = ["Fault", "FaultFinder", "FaultKind", "FaultRules", "faults"]


class FaultKind(str, enum.Enum):
    """What an episode is, the worst first."""

    CRASH_LOOP = "crash loop"
    FLAPPING = "flapping"
    EXPIRED = "session expired"
    CAME_BACK = "came back"
    DEPLOYMENT = "deployment"
    SCALED = "scaled"


@dataclass(frozen=True, slots=True)
class FaultRules:
    """The thresholds, durations in seconds; `ValueError` names one that makes no sense.

    Attributes:
        deployment_s: the longest that a deployment takes.
        deployment_gap_s: the longest between two changes of one deployment.
        back_again_s: who comes again within it has restarted. Kubernetes waits up to five minutes before it
            restarts a container that crashes, hence the default.
        short_stay_s: who stays no longer than that has crashed. Kubernetes forgets crashes after ten minutes.
        crash_loop: restarts in a row that make a crash loop.
        flapping, flapping_s: so many joins in so long a time are flapping.
    """

    deployment_s: float = 1800.0
    deployment_gap_s: float = 300.0
    back_again_s: float = 300.0
    short_stay_s: float = 600.0
    crash_loop: int = 3
    flapping: int = 4
    flapping_s: float = 3600.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value > 0:
                raise ValueError(f"{each.name} is {value}, and has to be greater than 0")


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of `schemas.FAULTS`: an episode on one day (UTC), or a deployment.

    `client_id`, `client_host`, `instance_id` and the last `member_id` say who, `members` how many of them
    there were at one time; of a deployment they are None, and `members` is how many were replaced. `restarts`
    counts returns within `back_again_s`, `expiries` goings without a goodbye. `generations` are those in
    which it came or went, `alone` those of them in which nobody else did.
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

    def row(self) -> tuple[Any, ...]:
        """The values in the order of `schemas.FAULTS`, timestamps in microseconds."""
        values = [getattr(self, each.name) for each in fields(self)]
        return tuple(
            to_micros(value)
            if isinstance(value, datetime)
            else value.value
            if isinstance(value, FaultKind)
            else value
            for value in values
        )


def faults(records: Iterable[Generation], rules: FaultRules | None = None) -> Iterator[Fault]:
    """The episodes and deployments of one group, from its records in order."""
    finder = FaultFinder(rules or FaultRules())
    for record in records:
        yield from finder.feed(record)
    yield from finder.finish()


_Who = tuple[str | None, str, str]
"""Instance id, client id, client host; the latter two are empty for a static member, who may move."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A generation in which somebody came or went. `before` is the number of members before it.

    `number` counts changes, `rebalance` generations; `rebalanced` is False where a static member restarted
    without one. `at_once` says of each who came or went how many of them there were, before or after it.
    """

    number: int
    rebalance: int
    timestamp: datetime
    came: tuple[MemberRecord, ...]
    went: tuple[MemberRecord, ...]
    before: int
    rebalanced: bool
    at_once: Mapping[_Who, int]


class FaultFinder:
    """Finds the episodes of one group: `feed` each record in order, then `finish`."""

    def __init__(self, rules: FaultRules) -> None:
        self._rules = rules
        self._group = ""
        self._members: dict[str, MemberRecord] | None = None  # None: unknown
        self._incarnation: int | None = None
        self._born: dict[str, int] = {}  # by member id: the change with which it came
        self._present: Counter[_Who] = Counter()
        self._changes = 0
        self._rebalances = 0
        self._youngest_gone = 0  # the latest birth of somebody who has gone
        self._waiting: deque[_Change] = deque()  # that may yet turn out to be a deployment
        self._episodes = _Episodes(rules)

    def feed(self, record: Generation) -> Iterator[Fault]:
        """The episodes and deployments that this record brings to an end."""
        self._group = record.group
        self._rebalances += not record.replacement
        if record.incarnation != self._incarnation:
            yield from self._settle_all()
            self._incarnation = record.incarnation
            # A group that is made anew begins with nobody in it, unless its beginning is not in the history.
            self._members = None if record.starts_late else {}
            self._born.clear()
            self._present.clear()
        if not record.decodes or record.problem is not None:
            yield from self._settle_all()
            self._members = None
            return
        if record.lost:
            yield from self._settle_all()
            self._members = None
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
        """What is left when there are no more records."""
        yield from self._settle_all()
        yield from self._episodes.end(self._group)

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
        at_once = self._count(came, went)
        change = _Change(
            self._changes,
            self._rebalances,
            record.timestamp,
            came,
            went,
            before,
            not record.replacement,
            at_once,
        )
        self._waiting.append(change)
        starts = self._wave_starts()
        # With fewer than there were, the last may be yet to come.
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
        """The changes with which a deployment can have begun that the last change completes.

        All who are there now must have come with it or later, and nobody who did may have gone again.
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
        """The changes from `start` on are a deployment, those before it are none."""
        while self._waiting[0].number < start.number:
            yield from self._settle(self._waiting.popleft())
        yield self._deployment(tuple(self._waiting))
        self._waiting.clear()
        self._youngest_gone = self._changes

    def _settle_older(self, now: datetime) -> Iterator[Fault]:
        """Changes that are too old for a deployment that goes on until now."""
        if not self._waiting:
            return
        gap_s = (now - self._waiting[-1].timestamp).total_seconds()
        if gap_s > self._rules.deployment_gap_s:
            yield from self._settle_all()
        while self._waiting and (now - self._waiting[0].timestamp).total_seconds() > self._rules.deployment_s:
            yield from self._settle(self._waiting.popleft())

    def _settle_all(self) -> Iterator[Fault]:
        """Nothing comes soon enough to belong to what waits."""
        # Somebody may have gone for good before a deployment of the others.
        starts = [start for start in self._wave_starts() if start.before <= len(self._born)]
        if starts:
            yield from self._settle_wave(starts[0])
        while self._waiting:
            yield from self._settle(self._waiting.popleft())

    def _settle(self, change: _Change) -> Iterator[Fault]:
        """A change that belongs to no deployment becomes part of the episodes of those who came and went."""
        yield from self._episodes.add(self._group, change)

    def _deployment(self, changes: tuple[_Change, ...]) -> Fault:
        first, last = changes[0], changes[-1]
        return Fault(
            group=self._group,
            date=first.timestamp.date(),
            kind=FaultKind.DEPLOYMENT,
            client_id=None,
            client_host=None,
            instance_id=None,
            member_id=None,
            members=first.before,
            joins=sum(len(change.came) for change in changes),
            leaves=sum(len(change.went) for change in changes),
            restarts=0,
            expiries=0,
            generations=last.rebalance - first.rebalance + first.rebalanced,
            alone=0,
            first_timestamp=first.timestamp,
            last_timestamp=last.timestamp,
        )


@dataclass(slots=True)
class _Episode:
    """The comings and goings of one identity; the counts are of one day, the rest goes on over midnight."""

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
    joins: int = 0
    leaves: int = 0
    restarts: int = 0
    expiries: int = 0
    generations: int = 0
    alone: int = 0

    def new_day(self, now: datetime) -> None:
        """Count anew. What has been going on goes on."""
        self.first = now
        self.worst_streak, self.most_joins = self.streak, 0
        self.joins = self.leaves = self.restarts = self.expiries = self.generations = self.alone = 0


class _Episodes:
    """The open episodes, the one that was silent longest first."""

    def __init__(self, rules: FaultRules) -> None:
        self._rules = rules
        self._open: OrderedDict[_Who, _Episode] = OrderedDict()

    def add(self, group: str, change: _Change) -> Iterator[Fault]:
        """Note a change; episodes that it shows to be over, or of the day before, are given."""
        now = change.timestamp
        yield from self._close_silent(group, now)
        went = {_who(member): member for member in change.went}
        came = {_who(member): member for member in change.came}
        everybody = went | came
        for who, member in everybody.items():
            episode = self._open.get(who)
            if episode is None:
                episode = self._open[who] = _Episode(member, now, now)
            elif episode.last.date() != now.date():
                yield self._fault(group, episode)
                episode.new_day(now)
            self._open.move_to_end(who)
            episode.member, episode.last = member, now
            episode.at_once = max(episode.at_once, change.at_once[who])
            if change.rebalanced:
                episode.generations += 1
                episode.alone += len(everybody) == 1
            if who in went:
                self._left(episode, went[who], now, stays_static=who in came)
            if who in came:
                self._joined(episode, now)

    def end(self, group: str) -> Iterator[Fault]:
        """All episodes that are still open."""
        for episode in self._open.values():
            yield self._fault(group, episode)
        self._open.clear()

    def _left(self, episode: _Episode, member: MemberRecord, now: datetime, *, stays_static: bool) -> None:
        episode.leaves += 1
        episode.left = now
        episode.stay_s = None if episode.joined is None else (now - episode.joined).total_seconds()
        episode.expiries += _went_without_goodbye(member) and not stays_static

    def _joined(self, episode: _Episode, now: datetime) -> None:
        rules = self._rules
        episode.joins += 1
        if episode.left is not None and (now - episode.left).total_seconds() <= rules.back_again_s:
            episode.restarts += 1
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

    def _close_silent(self, group: str, now: datetime) -> Iterator[Fault]:
        while self._open:
            who, episode = next(iter(self._open.items()))
            if (now - episode.last).total_seconds() <= self._rules.flapping_s:
                return
            del self._open[who]
            yield self._fault(group, episode)

    def _fault(self, group: str, episode: _Episode) -> Fault:
        member = episode.member
        return Fault(
            group=group,
            date=episode.first.date(),
            kind=self._kind(episode),
            client_id=member.client_id,
            client_host=member.client_host,
            instance_id=member.instance_id,
            member_id=member.member_id,
            members=episode.at_once,
            joins=episode.joins,
            leaves=episode.leaves,
            restarts=episode.restarts if episode.at_once == 1 else 0,
            expiries=episode.expiries,
            generations=episode.generations,
            alone=episode.alone,
            first_timestamp=episode.first,
            last_timestamp=episode.last,
        )

    def _kind(self, episode: _Episode) -> FaultKind:
        alone = episode.at_once == 1
        if alone and episode.worst_streak >= self._rules.crash_loop:
            return FaultKind.CRASH_LOOP
        if episode.most_joins >= self._rules.flapping:
            return FaultKind.FLAPPING
        if episode.expiries:
            return FaultKind.EXPIRED
        return FaultKind.CAME_BACK if alone and episode.restarts else FaultKind.SCALED


def _who(member: MemberRecord) -> _Who:
    if member.instance_id is not None:
        return (member.instance_id, "", "")
    return (None, member.client_id, member.client_host)


def _went_without_goodbye(member: MemberRecord) -> bool:
    """Whether only the end of its session, or an administrator, can have taken the member out of the group.

    Static members do not leave when they close (KIP-345). aiokafka's do, as if they were not static.
    """
    return member.instance_id is not None and client_of(member.client_id) not in (AIOKAFKA, AIOKAFKA_OURS)
