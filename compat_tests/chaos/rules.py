"""The rules that a group must always keep, each a function from a ledger to its violations.

**Live.** A member owns a partition from its announcement to the application until the partition is taken away
or the process ends. It is a *live owner* as long as the coordinator counts it in: its member id is in the
newest generation that assigned the partition to any member. A member that the coordinator has removed, but
that does not know it yet (frozen, cut off, busy), is a *zombie*. So is a static member that did not join in
time: the coordinator goes on with its JoinGroup of an earlier generation (`Generation.leaves_out`).

- Two live owners are a violation, of any clients.
- A zombie of ours delivers no record once the partition was announced elsewhere: its lease ends before
  the coordinator can remove it. A zombie of another client (Java, librdkafka) has no lease. It may deliver
  records until its application learns that the partition is lost. Such deliveries are counted.

**Duplicates.** A record may be delivered again only if its last ownership ended without a chance to commit:
the process died, the partitions were lost, or the coordinator had removed the member. A failed commit also
counts for a member of another client. For our members it counts only if it timed out while a broker was away
that may have been the coordinator, or failed while the member's network was broken. A new owner never
delivers a record below the offset that was committed at the announcement.
"""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compat_tests.chaos.ledger import (
    CLOCK_SLACK_S,
    Commit,
    CommitFailure,
    Delivery,
    Ending,
    Generation,
    Ledger,
    Ownership,
    Partition,
    name_of,
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule was broken at this time; `partition` is None if the rule is not about a single partition."""

    rule: str
    at: float
    partition: Partition | None
    text: str


Found = Iterator[tuple[float, str]]


# ---- records


class _Covered:
    """The delivered offsets of a partition, from the first one up to the first gap."""

    def __init__(self) -> None:
        self.up_to = 0
        """All offsets below it are delivered."""
        self._beyond: list[tuple[int, int]] = []

    def add(self, first: int, last: int) -> None:
        heapq.heappush(self._beyond, (first, last))
        while self._beyond and self._beyond[0][0] <= self.up_to:
            self.up_to = max(self.up_to, heapq.heappop(self._beyond)[1] + 1)

    def missing(self, end: int) -> Iterator[tuple[int, int]]:
        """The gaps below `end`, as their first and last offsets."""
        begin = self.up_to
        for first, last in [*sorted(self._beyond), (end, end)]:
            if begin < min(first, end):
                yield begin, min(first, end) - 1
            begin = max(begin, last + 1)


def no_record_is_lost(part: Ledger) -> Found:
    """Every confirmed record was delivered to some member."""
    covered = _Covered()
    for one in part.deliveries:
        covered.add(one.first, one.last)
    for partition, written in part.written.items():
        for first, last in covered.missing(written):
            before = [one.at for one in part.deliveries if one.last < first]
            yield max(before, default=0.0), f"{name_of(partition)} [{first}..{last}] was handed to no member"


def commits_cover_only_what_was_delivered(part: Ledger) -> Found:
    """No member commits an offset before all records below it were delivered: a crash would lose them."""
    covered = _Covered()
    deliveries = iter(part.deliveries)
    upcoming = next(deliveries, None)
    for commit in sorted(part.commits, key=lambda one: one.at):
        while upcoming is not None and upcoming.at <= commit.at + CLOCK_SLACK_S:
            covered.add(upcoming.first, upcoming.last)
            upcoming = next(deliveries, None)
        for first, last in covered.missing(commit.offset):
            yield commit.at, f"{commit}, and [{first}..{last}] was handed to no member before"


def no_committed_offset_goes_back(part: Ledger) -> Found:
    """The offsets that the coordinator accepted for a partition never decrease."""
    highest = -1
    for commit in sorted(part.commits, key=lambda one: one.position):
        if commit.offset < highest:
            yield commit.at, f"{commit}, after {highest}"
        highest = max(highest, commit.offset)


def nothing_is_committed_after_its_revocation(part: Ledger) -> Found:
    """The coordinator accepts no explicit commit of a member that was told before that the partition is gone.

    Neither before the partition comes back, nor after it. Excepted is what may have been on its way when the
    member was told: while the network or a broker was away, because the commit timed out, or on a busy
    machine, up to the next generation, in which the partition may have an owner.
    """
    for commit in part.commits:
        if not commit.member:
            continue
        until = commit.at + CLOCK_SLACK_S
        own = [one for one in part.ownerships if one.member == commit.member and one.since <= until]
        gone = [
            one
            for one, later in zip(own, [*own[1:], None], strict=True)
            if one.ending in (Ending.REVOKED, Ending.LOST)
            and one.until + CLOCK_SLACK_S < commit.at
            # What came back was announced with a greater number, unless the process is another one.
            and (later is None or one.number <= commit.number < later.number)
        ]
        if gone and not _was_on_its_way(part, commit, gone[-1]):
            after = commit.at - gone[-1].until
            yield commit.at, f"{commit}, {after:.3f} s after it was told: {gone[-1].ending.value}"


def _was_on_its_way(part: Ledger, commit: Commit, gone: Ownership) -> bool:
    timed_out = any(
        failure.member == commit.member and gone.covers(failure.at) and "Timeout" in failure.error
        for failure in part.failures
    )
    no_answer = any(
        outage.since <= commit.at
        and gone.until <= outage.until + _TAKING_OVER_S
        and outage.member in ("", commit.member)
        for outage in part.outages
    )
    has_new_owner = any(gone.until < generation.at <= commit.at for generation in part.generations)
    was_slow = commit.at <= gone.until + _ON_ITS_WAY_S and not has_new_owner
    return timed_out or no_answer or was_slow


_ON_ITS_WAY_S = 1.0
"""The time in which a broker on a busy machine stores a request that was written."""


# ---- owners


def partitions_are_announced_only_if_given(part: Ledger) -> Found:
    """A member announces only partitions that a generation in the coordinator's log assigned to it."""
    for one in part.ownerships:
        if part.giving(one) is None:
            yield one.since, f"{one.member} announces {name_of(one.partition)}, given by no generation"


def members_are_told_when_partitions_go(part: Ledger) -> Found:
    """A member is told of each partition that it no longer owns, as revoked or lost."""
    for one in part.ownerships:
        if one.ending is Ending.SILENT:
            yield one.until, f"{one.member} was not told that {name_of(one.partition)} is gone"


def what_others_own_already_is_not_revoked(part: Ledger) -> Found:
    """A partition that was announced to another member before is told as lost, unless no broker could say so.

    After the end of its lease a member asks the coordinator; one that closes does not wait for long. Another
    member that is late, and announces what an earlier generation gave it, owns nothing.
    """
    for overlap in _overlaps(part):
        one, other = overlap.earlier, overlap.later
        if (
            one.ending is Ending.REVOKED
            and one.member != other.member
            and other.since + CLOCK_SLACK_S < one.told_at < math.inf
            and not _is_cut_off(part, one)
        ):
            yield (
                one.told_at,
                f"{one.member} is told {name_of(one.partition)} as revoked after {other.member} got it",
            )


def _is_cut_off(part: Ledger, one: Ownership) -> bool:
    return any(
        outage.since <= one.told_at <= outage.until + CLOCK_SLACK_S and outage.member in ("", one.member)
        for outage in part.outages
    )


@dataclass(frozen=True, slots=True)
class _Overlap:
    """Two members own a partition by their own reports; the newer generation assigned it to `later`."""

    earlier: Ownership
    later: Ownership
    since: float
    until: float
    is_removed: bool
    """Whether the coordinator had left out `earlier` when it assigned the partition to `later`."""


def _overlaps(part: Ledger) -> Iterator[_Overlap]:
    open_: list[Ownership] = []
    for second in part.ownerships:
        open_ = [one for one in open_ if one.until > second.since]
        for first in open_:
            given = {one: part.giving(one) or _NOWHERE for one in (first, second)}
            earlier, later = sorted((first, second), key=lambda one: given[one].number)
            same = given[first].number == given[second].number
            yield _Overlap(
                earlier,
                later,
                second.since,
                min(first.until, second.until),
                not same and _leaves_out(part, given[later], earlier, given[earlier].number),
            )
        open_.append(second)


_NOWHERE = Generation(0.0, -1, "", {}, {})


def _leaves_out(part: Ledger, generation: Generation, one: Ownership, number: int) -> bool:
    return generation.leaves_out(one.member_id, number, names_it=one.member in part.static)


def no_partition_has_two_live_owners(part: Ledger) -> Found:
    """Of two concurrent owners, the coordinator removed one before it assigned the partition to the other."""
    for one in _overlaps(part):
        if not one.is_removed:
            yield (
                one.since,
                f"{name_of(one.later.partition)} is {one.later.member}'s, and still {one.earlier.member}'s, "
                f"which the coordinator counts in, for {one.until - one.since:.3f} s",
            )


def members_deliver_only_what_they_own(part: Ledger) -> Found:
    """A record is delivered after its partition was announced, and before it was taken away."""
    for delivery, ownership in _with_ownerships(part):
        if ownership is None:
            yield delivery.at, f"{delivery}, which it does not own"


def zombies_with_a_lease_deliver_nothing(part: Ledger) -> Found:
    """A member of ours that the coordinator has removed delivers nothing that was announced elsewhere."""
    for delivery in _zombie_deliveries(part):
        if delivery.member not in part.without_lease:
            yield delivery.at, f"{delivery} after the coordinator removed it and another member took over"


def _zombie_deliveries(part: Ledger) -> Iterator[Delivery]:
    removed = [one for one in _overlaps(part) if one.is_removed]
    if not removed:
        return
    for delivery in part.deliveries:
        if any(
            delivery.member == one.earlier.member and one.since < delivery.at <= one.until for one in removed
        ):
            yield delivery


def _with_ownerships(part: Ledger) -> Iterator[tuple[Delivery, Ownership | None]]:
    """Each delivery with its member's ownership at that time."""
    by_member: dict[str, list[Ownership]] = collections.defaultdict(list)
    for one in part.ownerships:
        by_member[one.member].append(one)
    for delivery in part.deliveries:
        own = by_member[delivery.member]
        at = bisect.bisect_right(own, delivery.at, key=lambda one: one.since)
        yield delivery, own[at - 1] if at and own[at - 1].covers(delivery.at) else None


# ---- duplicates


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Records delivered more than once.

    `allowed` counts the permitted ones, and `needless` has the first violation of each delivery.
    """

    allowed: int
    by_zombies: int
    """How many of the allowed ones were delivered by zombies of other clients."""
    needless: Sequence[tuple[Delivery, int, Ownership]]
    """The delivery, the first offset that should not be in it, and the ownership that had it before."""


def duplicates(part: Ledger) -> Duplicates:
    """The repeated deliveries of a partition."""
    zombies = {id(delivery) for delivery in _zombie_deliveries(part)}
    could_not_commit = functools.cache(functools.partial(_could_not_commit, part))
    last: dict[int, Ownership | None] = {}
    allowed = by_zombies = 0
    needless: list[tuple[Delivery, int, Ownership]] = []
    for delivery, ownership in _with_ownerships(part):
        is_blamed = False
        for offset in range(delivery.first, delivery.last + 1):
            if offset in last:
                before = last[offset]
                if id(delivery) in zombies:
                    by_zombies += 1
                    allowed += 1
                elif before is None or ownership is None or could_not_commit(before, ownership):
                    allowed += 1
                elif not is_blamed:
                    needless.append((delivery, offset, before))
                    is_blamed = True
            if id(delivery) not in zombies:
                last[offset] = ownership
            else:
                last.setdefault(offset, ownership)
    return Duplicates(allowed, by_zombies, needless)


def _could_not_commit(part: Ledger, before: Ownership, after: Ownership) -> bool:
    """Whether `before` ended without a chance to commit, so that `after` has to begin before its end."""
    if before is after:
        return False
    if before.ending in (Ending.LOST, Ending.DIED):
        return True
    giving = part.giving(after)
    given = part.giving(before) or _NOWHERE
    is_removed = giving is not None and _leaves_out(part, giving, before, given.number)
    if is_removed and giving is not None and before.until > giving.at - CLOCK_SLACK_S:
        return True
    # A member that left in order is not in the next generation either, but has committed.
    excused = is_removed or before.member in part.without_lease
    return any(
        failure.member == before.member
        and before.covers(failure.at)
        and (excused or _waited_for_a_broker(part, failure))
        for failure in part.failures
    )


_TAKING_OVER_S = 3.0
"""The time that another coordinator, or a restarted one, needs until it answers commits."""


def _waited_for_a_broker(part: Ledger, failure: CommitFailure) -> bool:
    return any(
        outage.since <= failure.at <= outage.until + _TAKING_OVER_S
        # A member that was cut off may have got any error.
        and (outage.member == failure.member or (not outage.member and "Timeout" in failure.error))
        for outage in part.outages
    )


def every_record_is_copied_once(part: Ledger) -> Found:
    """If members copy in transactions, each confirmed record is committed once as a copy."""
    if part.copies is None:
        return
    for partition, written in part.written.items():
        copies = part.copies.get(partition, {})
        for offset in range(max([written, *(offset + 1 for offset in copies)])):
            times = copies.get(offset, 0)
            if times != 1 and (offset < written or times):
                handed = [one for one in part.deliveries if one.first <= offset <= one.last]
                to = ", ".join(one.member for one in handed) or "no member"
                at = handed[-1].at if handed else 0.0
                yield at, f"{name_of(partition)} {offset} was copied {times} times; it was handed to {to}"


def nothing_is_delivered_twice_without_need(part: Ledger) -> Found:
    """A record is delivered again only if its last owner had no chance to commit it.

    The rule does not apply to members that copy: they repeat failed transactions, and only copies count.
    """
    if part.copies is not None:
        return
    for delivery, offset, before in duplicates(part).needless:
        yield (
            delivery.at,
            f"{delivery}: {offset} was handed to {before.member} before, whose ownership ended: "
            f"{before.ending.value}",
        )


def owners_begin_where_was_committed(part: Ledger) -> Found:
    """A new owner receives no record below the offset that was committed when it took over."""
    commits = sorted(part.commits, key=lambda one: one.position)
    highest: list[tuple[float, int]] = []
    for commit in commits:
        highest.append((commit.at, max(commit.offset, highest[-1][1] if highest else 0)))
    for delivery, ownership in _with_ownerships(part):
        if ownership is None:
            continue
        before = bisect.bisect_left(highest, ownership.since - CLOCK_SLACK_S, key=lambda one: one[0])
        if before and delivery.first < highest[before - 1][1]:
            yield delivery.at, f"{delivery}, though {highest[before - 1][1]} was committed when it took over"


RULES: Mapping[str, Callable[[Ledger], Iterable[tuple[float, str]]]] = {
    rule.__name__.replace("_", " "): rule
    for rule in (
        no_record_is_lost,
        commits_cover_only_what_was_delivered,
        no_committed_offset_goes_back,
        nothing_is_committed_after_its_revocation,
        partitions_are_announced_only_if_given,
        members_are_told_when_partitions_go,
        what_others_own_already_is_not_revoked,
        no_partition_has_two_live_owners,
        members_deliver_only_what_they_own,
        zombies_with_a_lease_deliver_nothing,
        nothing_is_delivered_twice_without_need,
        every_record_is_copied_once,
        owners_begin_where_was_committed,
    )
}
"""Each rule is called for one partition at a time."""


def judge(ledger: Ledger) -> list[Violation]:
    """All violations, in order of time."""
    found = [
        Violation(name, at, partition, text)
        for partition, part in ledger.by_partition()
        for name, rule in RULES.items()
        for at, text in rule(part)
    ]
    return sorted(found, key=lambda one: one.at)
