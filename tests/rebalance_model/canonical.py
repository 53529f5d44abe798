"""One canonical form for all states that no later step can tell apart, so that few states stand for many.

*Plain* forms make the number of states finite. No rule looks at more than they keep:

- the order of generations; ages up to the longest timeout; whether an attempt is the current one; whether
  there is a reason to join
- the order of the member ids of a process, among those still in use

*Reduced* forms leave out more. Two states with the same reduced form allow the same steps, and these lead to
states with the same reduced form. As an exception, one of the two states may have one more message on the
way; its arrival changes nothing. So a violation that is reachable from one state is reachable from the other:

- *Responses that come too late* are dropped. The machine ignores a response with an earlier attempt or
  membership, and neither comes back, since both only increase. The same is true of a heartbeat response
  without news: a later request proved the same already, or the member joins again anyway. The time when a
  request was sent matters only if the coordinator accepted it.
- *The time of the last response* is dropped once a lease has ended with the rebalance timeout: only the
  response to SyncGroup begins another lease. (Only where the timeouts are one tick: a longer lease may have
  begun before.)
- *A commit that can only be refused*, because its generation is over or its member id removed, looks like any
  other such commit: what the member sends again depends on what it still owns. If the commit has another
  membership than the member, its refusal has no effect but to let the next commit be sent.
- *A heartbeat that can only be refused*, because the coordinator no longer knows the member id, counts as
  sent and answered: the member can send it at any time, and it does not change the coordinator.
- *Fields that are written again before they are read* are dropped: the topics of the last JoinGroup, once
  there is another reason to join; whether and why a closing member would join; the claim in a JoinGroup that
  has arrived.
- *Parts of the coordinator's entry of a member* are dropped. While the coordinator waits for a JoinGroup, it
  reads only the topics of the last claim. In a stable group it reads a claim only to recognise a repeated
  request. So the claim is dropped for the leader (its JoinGroup always starts a rebalance), for dead members,
  and for members that know the current generation (their next claim has that generation). An assignment is
  read once, unless the same JoinGroup can come again. The silence of dead members, and of members that wait
  for a response, is not read; the duration of a rebalance is read only while it waits for a member.

`test_rebalance_model.py` checks this reasoning: it explores both ways and compares the reached states.

`View` is the part of a process that the coordinator's form depends on; it is the key of the table of forms.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from kafka_assignors.group import NO_GENERATION
from kafka_assignors.rebalance.events import NO_MEMBERSHIP, Membership, MembershipError
from kafka_assignors.rebalance.lease import NEVER, Lease
from kafka_assignors.rebalance.member import MemberState
from kafka_assignors.rebalance.progress import Phase
from tests.rebalance_model.coordinator import Claim, Coordinator, Entry, GroupState, JoinReply
from tests.rebalance_model.world import (
    LETTERS,
    NOTHING,
    NOW,
    Commit,
    Heartbeat,
    JoinAnswered,
    JoinSent,
    Process,
    SyncAnswered,
    SyncSent,
    may_send_heartbeat,
    waits_for_sync,
    waits_to_call,
)

NEVER_AGAIN = -2
"""The generation of a claim that no member can make again. No member claims it, unlike -1."""


class View(NamedTuple):
    """The part of a process that the coordinator's form depends on."""

    ids: tuple[str, ...]
    generations: tuple[int, ...]
    membership: Membership
    asking: str
    """The member id of a JoinGroup or SyncGroup request that has not arrived."""
    commit: Membership
    """The membership of a commit that has not arrived; `ids` and `generations` have it if it is current."""
    heartbeat: bool
    """Whether the member may send a heartbeat, or has sent one that has not arrived."""


@dataclass(frozen=True, slots=True)
class Names:
    """How a form renames the member ids and generations of a process; all others keep their names."""

    ids: tuple[tuple[str, str], ...] = ()
    generations: tuple[tuple[int, int], ...] = ()
    commit_refused: bool = False
    """The coordinator can only refuse the process's commit."""
    heartbeat_refused: bool = False
    """The coordinator can only refuse the process's heartbeat."""

    def member_id(self, old: str) -> str:
        return next((new for name, new in self.ids if name == old), old)

    def generation(self, old: int) -> int:
        return next((new for generation, new in self.generations if generation == old), old)

    def membership(self, old: Membership) -> Membership:
        return Membership(self.member_id(old.member_id), self.generation(old.generation))


def view(process: Process) -> View:
    ids = set(process.leaving)
    generations: set[int] = set()
    present = process.member.membership if process.member is not None else NO_MEMBERSHIP
    commit = NO_MEMBERSHIP
    if process.member is not None:
        for one in _memberships(process.member).values():
            ids.add(one.member_id)
            generations.add(one.generation)
    for message in (process.join, process.heartbeat, process.commit):
        if message is not None:
            membership = message.reply.membership if isinstance(message, JoinAnswered) else message.membership
            if isinstance(message, Commit) and message.answer is None:
                commit = membership
                if membership != present:
                    continue
            ids.add(membership.member_id)
            generations.add(membership.generation)
    asking = ""
    if isinstance(process.join, (JoinSent, SyncSent)) and not process.join.arrived:
        asking = process.join.membership.member_id
        if isinstance(process.join, JoinSent):
            generations.add(process.join.claim.generation)
    heartbeat = process.member is not None and may_send_heartbeat(process.member)
    return View(
        tuple(sorted(ids - {""})),
        tuple(sorted(g for g in generations if g >= 0)),
        present,
        asking,
        commit,
        heartbeat and (process.heartbeat is None or process.heartbeat.answer is None),
    )


def plain_process(process: Process, oldest: int) -> Process:
    """The plain form of a process, with its ids and generations unchanged."""
    member, join = process.member, process.join
    if member is None:
        return process
    if isinstance(join, (JoinSent, JoinAnswered)):
        join = join._replace(attempt=int(join.attempt == member.join.attempt))
    member = replace(
        member,
        join=replace(member.join, attempt=1, reason="x" if member.join.reason else ""),
        lease=Lease(max(member.lease.heard_at, -oldest), max(member.lease.stable_at, -oldest)),
    )
    if (call := member.call) is not None and call.confirmed_at <= -oldest:
        member = replace(member, call=replace(call, confirmed_at=NEVER))
    return replace(process, member=member, join=join)


def reduced_process(process: Process) -> Process:
    """The reduced form of a plain form."""
    member, join, heartbeat, commit = process.member, process.join, process.heartbeat, process.commit
    if member is None:
        return process
    if waits_for_sync(member):
        member = replace(member, lease=replace(member.lease, heard_at=member.lease.stable_at))
    if isinstance(join, JoinAnswered):
        join = join if join.attempt and member.phase is Phase.JOINING else None
    elif isinstance(join, SyncAnswered):
        join = join if join.membership == member.membership else None
        if join is not None and join.reply.answer is not MembershipError.NONE:
            join = join._replace(sent_at=0)
    elif isinstance(join, JoinSent) and join.arrived:
        membership = replace(join.membership, generation=NO_GENERATION)
        join = join._replace(membership=membership, claim=NO_CLAIM)
    if heartbeat is not None and heartbeat.answer is not None:
        if heartbeat.membership != member.membership or _is_old_news(member, heartbeat):
            heartbeat = None
        elif heartbeat.answer not in (MembershipError.NONE, MembershipError.REBALANCE_IN_PROGRESS):
            heartbeat = heartbeat._replace(sent_at=0)
    progress = member.join
    member = replace(
        member,
        join=replace(
            progress,
            reason="" if member.closing else progress.reason,
            topics=member.topics if progress.reason or member.closing else progress.topics,
            generation_refused=progress.generation_refused and progress.phase is Phase.JOINING,
        ),
        poll_interval_exceeded=member.poll_interval_exceeded and not member.closing,
    )
    reduced = replace(process, member=member, join=join, heartbeat=heartbeat, commit=commit)
    if commit is None or commit.answer in (
        MembershipError.NONE,
        MembershipError.OTHER,
    ):  # OTHER: some partitions were accepted.
        return reduced
    # NO_MEMBERSHIP marks a commit that can only be refused, as found earlier.
    return commit_refused(reduced) if commit.answer or commit.membership == NO_MEMBERSHIP else reduced


def _is_old_news(member: MemberState, heartbeat: Heartbeat) -> bool:
    """Whether the heartbeat response changes nothing, now or later."""
    if waits_to_call(member):
        return False
    match heartbeat.answer:
        case MembershipError.NONE:
            return min(member.lease.heard_at, member.lease.stable_at) >= heartbeat.sent_at
        case MembershipError.REBALANCE_IN_PROGRESS:
            joins = member.phase is Phase.JOINING or bool(member.join.reason) or member.closing
            return joins and (member.lease.heard_at >= heartbeat.sent_at or waits_for_sync(member))
        case MembershipError.ILLEGAL_GENERATION:
            return member.join.generation_refused
    return False


def commit_refused(process: Process) -> Process:
    """The process with its commit in the form of one that can only be refused, or has been."""
    member, commit = process.member, process.commit
    assert member is not None
    assert commit is not None
    if commit.membership != member.membership:
        answer = None if commit.answer is None else MembershipError.UNKNOWN_MEMBER_ID
        commit = commit._replace(membership=NO_MEMBERSHIP, answer=answer)
    again = NOTHING if commit.abandoned else member.commits.resendable & commit.partitions
    commits = replace(member.commits, resendable=again)
    return replace(
        process,
        member=replace(member, commits=commits),
        commit=commit._replace(partitions=again, overtaken=commit.overtaken & again, abandoned=False),
    )


def heartbeat_refused(process: Process) -> Process:
    """The process with a heartbeat that has been refused, which stands for one that can only be refused."""
    assert process.member is not None
    return replace(
        process, heartbeat=Heartbeat(process.member.membership, NOW, MembershipError.UNKNOWN_MEMBER_ID)
    )


def canonical_coordinator(
    group: Coordinator, views: tuple[View, ...], reduce: bool, late_refusals: bool
) -> tuple[Coordinator, tuple[Names, ...]]:
    """The coordinator's form, and the renaming of each process beside it."""
    entries = group.entries
    leader = group.leader if group.get(group.leader) is not None else ""
    group = replace(group, leader=leader)
    if reduce:
        entries = tuple(
            (name, _reduced_entry(name, entry, group, views[LETTERS.index(name[0])]))
            for name, entry in group.entries
        )
        group = replace(group, entries=entries, began=group.began if group.late() else 0)
    refused = [reduce and seen.commit != NO_MEMBERSHIP and _is_refused(group, seen.commit) for seen in views]
    kept = [
        seen.commit
        for seen, gone in zip(views, refused, strict=True)
        if seen.commit != NO_MEMBERSHIP and not gone
    ]
    generations = {group.generation} | {entry.claim.generation for _, entry in entries}
    generations.update(*(one.generations for one in views), (one.generation for one in kept))
    ranks = tuple((old, new) for new, old in enumerate(sorted(g for g in generations if g >= 0)))
    names = []
    for letter, seen, gone in zip(LETTERS, views, refused, strict=False):
        used = {name for name, _ in entries if name[0] == letter} | set(seen.ids)
        used.update(one.member_id for one in kept if one.member_id[0] == letter)
        ids = tuple((old, f"{letter}{new}") for new, old in enumerate(sorted(used)))
        unknown = reduce and late_refusals and seen.heartbeat and group.get(seen.membership.member_id) is None
        names.append(replace(_changes(ids, ranks), commit_refused=gone, heartbeat_refused=unknown))
    every = Names(tuple(pair for one in names for pair in one.ids), _changes((), ranks).generations)
    return _rename_coordinator(group, every), tuple(names)


def _is_refused(group: Coordinator, membership: Membership) -> bool:
    """Whether the coordinator refuses every request with this membership, now and later."""
    return group.get(membership.member_id) is None or membership.generation != group.generation


def _changes(ids: tuple[tuple[str, str], ...], ranks: tuple[tuple[int, int], ...]) -> Names:
    return Names(
        tuple((old, new) for old, new in ids if old != new),
        tuple((old, new) for old, new in ranks if old != new),
    )


def _reduced_entry(name: str, entry: Entry, group: Coordinator, seen: View) -> Entry:
    claim, assigned, listed = entry.claim, entry.assigned, entry.listed
    alive = name in (seen.membership.member_id, seen.asking)
    if group.state is GroupState.PREPARING and not entry.joining:
        claim = Claim(claim.topics, NOTHING, NO_GENERATION)
    elif group.state is GroupState.STABLE:
        informed = (
            seen.membership == Membership(name, group.generation)
            and claim.generation >= 0
            and seen.asking != name
        )
        if informed or not alive or (name == group.leader and seen.asking != name):
            claim = Claim(claim.topics, NOTHING, NEVER_AGAIN)
            if entry.synced or not alive:
                assigned, listed = NOTHING, ()
    heard = 0 if entry.joining or entry.syncing or not alive else entry.heard
    return replace(entry, claim=claim, assigned=assigned, listed=listed, heard=heard)


def _rename_coordinator(group: Coordinator, names: Names) -> Coordinator:
    if not names.ids and not names.generations:
        return group
    entries = []
    for name, entry in group.entries:
        claim = replace(entry.claim, generation=names.generation(entry.claim.generation))
        entries.append((names.member_id(name), replace(entry, claim=claim)))
    return replace(
        group,
        generation=names.generation(group.generation),
        leader=names.member_id(group.leader),
        entries=tuple(entries),
    )


def rename_process(process: Process, names: Names) -> Process:
    """The process with the names of the state's form."""
    if names.commit_refused:
        process = commit_refused(process)
    if names.heartbeat_refused:
        process = heartbeat_refused(process)
    member, join, heartbeat, commit = process.member, process.join, process.heartbeat, process.commit
    if member is not None:
        changed = {field: names.membership(old) for field, old in _memberships(member).items()}
        member = replace(member, **changed)  # type: ignore[arg-type]
    if isinstance(join, JoinSent):
        claim = replace(join.claim, generation=names.generation(join.claim.generation))
        join = join._replace(membership=names.membership(join.membership), claim=claim)
    elif isinstance(join, JoinAnswered):
        join = join._replace(reply=JoinReply(join.reply.answer, names.membership(join.reply.membership)))
    elif join is not None:
        join = join._replace(membership=names.membership(join.membership))
    if heartbeat is not None:
        heartbeat = heartbeat._replace(membership=names.membership(heartbeat.membership))
    if commit is not None:
        commit = commit._replace(membership=names.membership(commit.membership))
    leaving = tuple(sorted(map(names.member_id, process.leaving)))
    return Process(member, join, heartbeat, commit, leaving, process.wanted, process.overtaken, process.warm)


def _memberships(member: MemberState) -> dict[str, Membership]:
    """The memberships by field; a mutation may add a field."""
    return {
        field.name: value
        for field in fields(member)
        if isinstance(value := getattr(member, field.name), Membership)
    }


NO_CLAIM = Claim(frozenset(), NOTHING, NO_GENERATION)
