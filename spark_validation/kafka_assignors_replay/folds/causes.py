"""Why a generation was formed, as far as its records show it.

Each rule compares two consecutive generations of a group and looks for evidence of one cause. Several may
apply: during a rolling restart some members join and others leave. A generation that no rule explains is
`UNKNOWN`. No rule concludes from likelihood, or across lost records.

The records do not show:

* how a classic member left. A LeaveGroup, an expired session and an exceeded `max.poll.interval.ms` all end
  in a generation without the member;
* a change of coordinator. It writes no record, and a rebalance that it interrupts has no record of its own;
* why the leader of a classic group asked for a rebalance, unless topics or subscriptions have changed.

Pure Python without Spark, one record at a time; `docs/replay.md` lists the evidence for each cause.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.folds.kip848 import Kip848Fact
from kafka_assignors_replay.folds.rebalances import Generation, GivenBefore, partitions_of
from kafka_assignors_replay.folds.records import MemberRecord


class Cause(str, enum.Enum):
    """The causes of a generation."""

    CREATED = "created"
    """The first record of the group is an empty generation 0 (classic)."""

    JOIN = "join"
    """A new member joined: a static one with a new instance id."""

    DEPARTURE = "departure"
    """A member left or was removed; the records do not show which."""

    EXPIRY = "expiry"
    """A static member of KIP-848 left temporarily, did not return, and was removed."""

    POLL_INTERVAL = "poll-interval"
    """A member of KIP-848 did not revoke within its rebalance timeout (its `max.poll.interval.ms`)."""

    STATIC_REPLACEMENT = "static-replacement"
    """A static member has a new member id: its process restarted."""

    SUBSCRIPTION = "subscription"
    """A member that stayed changed its topics."""

    PATTERN = "pattern"
    """A member changed its regular expression, or the expression matches other topics (KIP-848)."""

    PARTITIONS_ADDED = "partitions-added"
    """A topic has more partitions than in any generation before."""

    TOPICS = "topics"
    """Subscribed topics were created, deleted, or have other racks (KIP-848)."""

    ASSIGNOR = "assignor"
    """The group changed its strategy."""

    LEADER = "leader"
    """Another member leads although the old leader is still there (classic)."""

    HAND_OVER = "hand-over"
    """New owners receive the partitions that the generation before withheld (cooperative)."""

    MIGRATION = "migration"
    """The group changed between the classic protocol and that of KIP-848."""

    UNKNOWN = "unknown"
    """The records do not show it."""


_SHOWN: Mapping[str, Cause] = {
    Kip848Fact.EXPIRED: Cause.EXPIRY,
    Kip848Fact.REBALANCE_TIMEOUT: Cause.POLL_INTERVAL,
    Kip848Fact.PATTERN_RESOLVED: Cause.PATTERN,
    Kip848Fact.TOPICS_CHANGED: Cause.TOPICS,
    Kip848Fact.PARTITIONS_ADDED: Cause.PARTITIONS_ADDED,
    Kip848Fact.MIGRATED: Cause.MIGRATION,
}


@dataclass(slots=True)
class CauseFinder:
    """Finds the causes of the generations of one group: `feed` each, in order.

    The fields, without the catalogue, are its whole state.
    """

    _catalogue: Catalogue
    _incarnation: int | None = None
    _last: Generation | None = None
    _given: GivenBefore = field(default_factory=GivenBefore)
    _partitions: dict[str, int] = field(default_factory=dict)  # by topic, the most of any generation
    _converted: bool = False  # whether the last record is the group right after a change of protocol

    def feed(self, record: Generation) -> tuple[Cause, ...]:
        """The causes of this generation, in the order of `Cause`; at least one."""
        if record.incarnation != self._incarnation:
            self._incarnation, self._last, self._converted = record.incarnation, None, False
            self._given, self._partitions = GivenBefore(), {}
        before, self._last = self._last, record
        converted, self._converted = self._converted, False
        lost = before is not None and self._given.shows_loss(record, before.generation)
        self._given.remember(record)
        grown = self._grown(record)
        whole = record.is_known and not (record.lost or record.starts_late)
        if lost or not whole or (before is not None and not before.is_known):
            return (Cause.UNKNOWN,)
        found = set(_causes(before, record))
        if converted and not found:
            found.add(Cause.MIGRATION)  # the members of a group that became classic assign anew at once
        self._converted = record.replacement and Cause.MIGRATION in found
        if grown and before is not None:
            found.add(Cause.PARTITIONS_ADDED)
            found.discard(Cause.TOPICS)
        return tuple(cause for cause in Cause if cause in found) or (Cause.UNKNOWN,)

    def _grown(self, record: Generation) -> bool:
        """Whether a topic has more partitions than in any record before, as the catalogue confirms."""
        if not record.is_known:
            return False
        grown = False
        for name, numbers in _seen(record).items():
            count = len(numbers)
            if max(numbers) + 1 == count and any(
                each.partitions == count for each in self._catalogue.entries(name)
            ):
                known = self._partitions.get(name, count)
                grown = grown or count > known
                self._partitions[name] = max(count, known)
        return grown


def _seen(record: Generation) -> Mapping[str, Set[int]]:
    """The partitions of each topic that members are assigned or claim, so that withheld ones are included."""
    seen: dict[str, set[int]] = {}
    for member in record.members.values():
        for topic, number in (*partitions_of(member.assigned), *partitions_of(member.owned)):
            seen.setdefault(topic, set()).add(number)
    return seen


def _causes(before: Generation | None, record: Generation) -> Iterator[Cause]:
    if before is None:
        if record.members:
            yield Cause.JOIN
        elif record.generation == 0:
            yield Cause.CREATED
        return
    if record.type != before.type:
        yield Cause.MIGRATION
    yield from _of_members(before, record)
    yield from (_SHOWN[fact] for fact, _ in record.facts)
    if before.protocol and record.protocol not in ("", before.protocol) and record.type == before.type:
        yield Cause.ASSIGNOR
    if before.leader in record.members and record.leader not in (None, before.leader):
        yield Cause.LEADER
    if _hands_over(before, record):
        yield Cause.HAND_OVER


def _of_members(before: Generation, record: Generation) -> Iterator[Cause]:
    old, new = _by_identity(before), _by_identity(record)
    if new.keys() - old.keys():
        yield Cause.JOIN
    accounted = {
        who for fact, who in record.facts if fact in (Kip848Fact.EXPIRED, Kip848Fact.REBALANCE_TIMEOUT)
    }
    if {old[identity].member_id for identity in old.keys() - new.keys()} - accounted:
        yield Cause.DEPARTURE
    resolved = {pattern for fact, pattern in record.facts if fact == Kip848Fact.PATTERN_RESOLVED}
    for identity in old.keys() & new.keys():
        was, is_ = old[identity], new[identity]
        if was.member_id != is_.member_id:
            yield Cause.STATIC_REPLACEMENT
        if was.pattern != is_.pattern:
            yield Cause.PATTERN
        elif set(was.topics) != set(is_.topics):
            yield Cause.PATTERN if is_.pattern in resolved else Cause.SUBSCRIPTION


def _by_identity(record: Generation) -> Mapping[tuple[bool, str], MemberRecord]:
    """Members by the name that survives a restart: the instance id of a static member, else the member id."""
    return {
        (member.instance_id is not None, member.instance_id or member.member_id): member
        for member in record.members.values()
    }


def _hands_over(before: Generation, record: Generation) -> bool:
    """Whether a member is assigned partitions that a member still held and the generation before withheld."""
    if record.type != before.type or not before.cooperative:
        return False
    held = {
        partition
        for member in before.members.values()
        if not member.revoked
        for partition in partitions_of(member.owned)
    }
    return bool((held - before.assigned) & record.assigned)
