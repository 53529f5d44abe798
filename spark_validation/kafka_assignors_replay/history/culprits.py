"""Which clients and deployments make a group rebalance: `docs/replay.md` defines both.

A wave of changes that replaces all members is one deployment; every other change is charged to the clients
that joined or left. Memory is bounded by the group, the changes within one wave, and `_MOST_CLIENTS`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import MemberRecord

DEPLOYMENT = timedelta(minutes=30)
"""The longest that a deployment takes."""

DEPLOYMENT_GAP = timedelta(minutes=5)
"""The longest time between two changes of one deployment."""

_MOST_CULPRITS = 20
"""The most culprits of a group that a result names."""

_MOST_CLIENTS = 2_000
"""The most clients of a group that are counted at a time: in a cluster of containers each start has a host of
its own. Beyond it the half with fewer rebalances is dropped."""


@dataclass(slots=True, kw_only=True)
class Culprit:
    """A client whose joins and leaves made a group rebalance, or the group's deployments, without a client.

    `client_id`, `client_host` and `instance_id` identify the client; `members` is the greatest number of its
    members at one time, or that a deployment replaced. `generations` counts the generations in which the
    client joined or left, `alone` those in which no other client did. `deployments` is 0 for a client.
    """

    group: str
    client_id: str | None = None
    client_host: str | None = None
    instance_id: str | None = None
    deployments: int = 0
    members: int = 1
    joins: int = 0
    leaves: int = 0
    generations: int = 0
    alone: int = 0
    first_timestamp: datetime
    last_timestamp: datetime


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
class CulpritFinder:
    """Finds the culprits of one group: `feed` each record in order, then `finish`."""

    _group: str = ""
    _last: Generation | None = None
    _born: dict[str, int] = field(default_factory=dict)  # by member id: the change with which it came, sorted
    _changes: int = 0
    _rebalances: int = 0
    _youngest_gone: int = 0  # the latest birth of a member that has left
    _waiting: deque[_Change] = field(default_factory=deque)  # changes that may be part of a deployment
    _found: dict[_Who | None, Culprit] = field(default_factory=dict)  # None: the deployments

    def feed(self, record: Generation) -> None:
        last, self._last, self._group = self._last, record, record.group
        self._rebalances += not record.replacement
        before = last.members if last is not None and last.is_known else None
        if last is None or last.incarnation != record.incarnation or not record.is_comparable:
            self._settle()
            # A group that is created again starts without members, unless its start is not in the history.
            before, self._born = {} if record.is_comparable else None, {}
        if before is None:
            self._born = dict.fromkeys(record.members, self._changes)
        elif before.keys() != record.members.keys():
            self._settle(record.timestamp)
            self._waiting.append(self._change(before, record))
            self._settle_wave(is_over=False)

    def finish(self) -> list[Culprit]:
        """The culprits with the most rebalances, after the last record."""
        self._settle()
        return [*self._worst(_MOST_CULPRITS).values()]

    def _worst(self, most: int) -> dict[_Who | None, Culprit]:
        def place(item: tuple[_Who | None, Culprit]) -> tuple[object, ...]:
            found = item[1]
            names = (found.client_id, found.client_host, found.instance_id)
            return (-found.generations, found.first_timestamp, *(name or "" for name in names))

        return dict(sorted(self._found.items(), key=place)[:most])

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

    def _settle_wave(self, *, is_over: bool) -> None:
        """Count the deployment that the last change completes, if any; the changes before it belong to none.

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
            self._charge(self._waiting.popleft())
        last, found = self._waiting[-1], self._culprit(None, first.timestamp)
        found.deployments += 1
        found.members, found.last_timestamp = max(found.members, first.before), last.timestamp
        for change in self._waiting:
            found.leaves += sum(left for _, left, _, _ in change.clients.values())
            found.joins += sum(joined for _, _, joined, _ in change.clients.values())
        found.generations += last.rebalance - first.rebalance + first.rebalanced
        self._waiting.clear()
        self._youngest_gone = self._changes

    def _settle(self, now: datetime | None = None) -> None:
        """Settle the changes that no deployment which continues `now` can include; without a time, all."""
        waiting = self._waiting
        if waiting and (now is None or now - waiting[-1].timestamp > DEPLOYMENT_GAP):
            self._settle_wave(is_over=True)
            now = None
        while waiting and (now is None or now - waiting[0].timestamp > DEPLOYMENT):
            self._charge(waiting.popleft())

    def _charge(self, change: _Change) -> None:
        for who, (member, left, joined, at_once) in change.clients.items():
            found = self._culprit(who, change.timestamp)
            found.client_id, found.client_host = member.client_id, member.client_host
            found.instance_id = member.instance_id
            found.members, found.last_timestamp = max(found.members, at_once), change.timestamp
            found.joins += joined
            found.leaves += left
            found.generations += change.rebalanced
            found.alone += change.rebalanced and len(change.clients) == 1

    def _culprit(self, who: _Who | None, now: datetime) -> Culprit:
        if len(self._found) >= _MOST_CLIENTS and who not in self._found:
            self._found = self._worst(_MOST_CLIENTS // 2)
        return self._found.setdefault(
            who, Culprit(group=self._group, first_timestamp=now, last_timestamp=now)
        )


def _who(member: MemberRecord) -> _Who:
    if member.instance_id is not None:
        return (member.instance_id, "", "")
    return (None, member.client_id, member.client_host)
