"""Which clients and deployments make a group rebalance: `docs/replay.md` defines both.

A wave of changes after which no earlier member is left is one deployment; every other change is charged to
the clients that joined or left. Memory is bounded by the group, `_MOST_CHANGES` and `_MOST_CLIENTS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import MemberRecord

DEPLOYMENT_S = 1800.0
"""The longest that a deployment takes."""

DEPLOYMENT_GAP_S = 300.0
"""The longest time between two changes of one deployment."""

_MOST_CHANGES = 2_000
"""The most changes of one deployment."""

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

    rebalanced: bool  # False where a static member restarted without a generation
    timestamp: datetime
    # Of each identity: a member, how many left, how many joined, the most at one time
    clients: Mapping[_Who, tuple[MemberRecord, int, int, int]]


@dataclass(slots=True)
class CulpritFinder:
    """Finds the culprits of one group: `feed` each record in order, then `finish`."""

    _group: str = ""
    _last: Generation | None = None
    _wave: list[_Change] = field(default_factory=list)  # changes that may be a deployment
    _earlier: frozenset[str] = frozenset()  # the members before it
    _found: dict[_Who | None, Culprit] = field(default_factory=dict)  # None: the deployments

    def feed(self, record: Generation) -> None:
        last, self._last, self._group = self._last, record, record.group
        before = last.members if last is not None and last.is_known else None
        if last is None or last.incarnation != record.incarnation or not record.is_comparable:
            self._settle(before or ())
            # A group that is created again starts without members, unless its start is not in the history.
            before = {} if record.is_comparable else None
        if before is None or before.keys() == record.members.keys():
            return
        if self._wave and not self._goes_on(record.timestamp):
            self._settle(before)
        if not self._wave:
            self._earlier = frozenset(before)
        self._wave.append(_change(before, record))

    def _goes_on(self, now: datetime) -> bool:
        """Whether a change at this time may belong to the deployment of the changes before."""
        first, last = self._wave[0].timestamp, self._wave[-1].timestamp
        is_soon = _seconds(last, now) <= DEPLOYMENT_GAP_S and _seconds(first, now) <= DEPLOYMENT_S
        return is_soon and len(self._wave) < _MOST_CHANGES

    def finish(self) -> list[Culprit]:
        """The culprits with the most rebalances, after the last record."""
        self._settle(() if self._last is None else self._last.members)
        return self._worst(_MOST_CULPRITS)

    def _worst(self, most: int) -> list[Culprit]:
        def place(found: Culprit) -> tuple[object, ...]:
            names = (found.client_id, found.client_host, found.instance_id)
            return (-found.generations, found.first_timestamp, *(name or "" for name in names))

        return sorted(self._found.values(), key=place)[:most]

    def _settle(self, members: Collection[str]) -> None:
        """Count the wave, after which the group has these members: as a deployment, or change by change."""
        wave, self._wave = self._wave, []
        if len(self._earlier) < 2 or not members or not self._earlier.isdisjoint(members):
            for change in wave:
                self._charge(change)
        elif wave:
            found = self._culprit(None, wave[0].timestamp)
            found.deployments += 1
            found.members = max(found.members, len(self._earlier))
            found.last_timestamp = wave[-1].timestamp
            for change in wave:
                found.leaves += sum(left for _, left, _, _ in change.clients.values())
                found.joins += sum(joined for _, _, joined, _ in change.clients.values())
                found.generations += change.rebalanced

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
            kept = {id(each) for each in self._worst(_MOST_CLIENTS // 2)}
            self._found = {name: each for name, each in self._found.items() if id(each) in kept}
        return self._found.setdefault(
            who, Culprit(group=self._group, first_timestamp=now, last_timestamp=now)
        )


def _change(before: Mapping[str, MemberRecord], record: Generation) -> _Change:
    left = [member for name, member in before.items() if name not in record.members]
    joined = [member for name, member in record.members.items() if name not in before]
    were, gone, new = (Counter(map(_who, members)) for members in (before.values(), left, joined))
    clients = {}
    for member in (*left, *joined):
        who = _who(member)
        clients[who] = member, gone[who], new[who], were[who] + max(new[who] - gone[who], 0)
    return _Change(not record.replacement, record.timestamp, clients)


def _seconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds()


def _who(member: MemberRecord) -> _Who:
    if member.instance_id is not None:
        return (member.instance_id, "", "")
    return (None, member.client_id, member.client_host)
