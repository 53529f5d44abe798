"""Why a generation was formed, as far as its records show it: `docs/internals/replay.md` lists the causes.

Several may apply. A generation that no rule explains is `UNKNOWN`; no rule concludes from likelihood, or
across lost records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kafka_assignors_replay.catalogue import Catalogue, forget_unused
from kafka_assignors_replay.history.rebalances import Cause, Generation, partitions_of


@dataclass(slots=True)
class CauseFinder:
    """Finds the causes of the generations of one group: `feed` each, in order."""

    _catalogue: Catalogue
    _last: Generation | None = None
    _partitions: dict[str, int] = field(default_factory=dict)  # by topic, the most of any generation

    def feed(self, record: Generation) -> tuple[Cause, ...]:
        """The causes of this generation, in the order of `Cause`; at least one."""
        before, self._last = self._last, record
        if before is not None and before.incarnation != record.incarnation:
            before, self._partitions = None, {}
        grown = record.is_known and self._grown(record)
        if record.shows_loss or not record.is_comparable or not (before is None or before.is_known):
            return (Cause.UNKNOWN,)
        found = set(_causes(before, record))
        if not found and before is not None and before.continues:
            found.add(Cause.MIGRATION)  # the members of a group that became classic assign anew at once
        if grown:
            found.add(Cause.PARTITIONS_ADDED)
            found.discard(Cause.TOPICS)
        return tuple(cause for cause in Cause if cause in found) or (Cause.UNKNOWN,)

    def _grown(self, record: Generation) -> bool:
        """Whether a topic has more partitions than in any record before, as the catalogue confirms."""
        seen: dict[str, list[Sequence[int]]] = {}
        for member in record.members.values():
            for share in (member.assigned, member.owned):  # with claims, so that withheld partitions count
                for topic, numbers in share.items():
                    if numbers:
                        seen.setdefault(topic, []).append(numbers)
        grown = False
        for topic, shares in seen.items():
            known, count = self._partitions.get(topic, 0), 1 + max(map(max, shares))
            # The set is built last, since hardly a record has more partitions than those before it.
            if (
                count > known
                and any(each.partitions == count for each in self._catalogue.entries(topic))
                and len(set().union(*shares)) == count
            ):
                grown = grown or known > 0
                self._partitions[topic] = count
        forget_unused(self._partitions, seen)
        return grown


def _causes(before: Generation | None, record: Generation) -> Iterator[Cause]:
    if before is None:
        if record.members:
            yield Cause.JOIN
        elif record.generation == 0:
            yield Cause.CREATED
        return
    yield from _of_members(before, record)
    yield from (fact for fact, _ in record.facts)
    if before.leader in record.members and record.leader not in (None, before.leader):
        yield Cause.LEADER
    if record.type != before.type:
        yield Cause.MIGRATION
        return
    if before.protocol and record.protocol not in ("", before.protocol):
        yield Cause.ASSIGNOR
    if _hands_over(before, record):
        yield Cause.HAND_OVER


def _of_members(before: Generation, record: Generation) -> Iterator[Cause]:
    gone = {name: old for name, old in before.members.items() if name not in record.members}
    static = {old.instance_id: old for old in gone.values() if old.instance_id}
    for new in record.members.values():
        old = before.members.get(new.member_id) or static.get(new.instance_id or "")
        if old is None:
            yield Cause.JOIN
            continue
        if old.member_id != new.member_id:
            yield Cause.STATIC_REPLACEMENT
            gone.pop(old.member_id, None)
        if old.pattern != new.pattern:
            yield Cause.PATTERN
        elif old.topics != new.topics and set(old.topics) != set(new.topics):
            is_resolved = (Cause.PATTERN, new.pattern) in record.facts
            yield Cause.PATTERN if is_resolved else Cause.SUBSCRIPTION
    if gone:
        yield Cause.DEPARTURE


def _hands_over(before: Generation, record: Generation) -> bool:
    """Whether a member is assigned partitions that a member still held and the generation before withheld."""
    if not before.cooperative:
        return False
    held = {
        partition
        for member in before.members.values()
        if not member.revoked and member.owned != member.assigned
        for partition in partitions_of(member.owned)
    }
    return bool(held) and not (held - before.assigned).isdisjoint(record.assigned)
