"""One form for all states that no later step can tell apart, so that the number of states is finite.

No rule looks at more than the forms keep:

- the order of generations; ages up to the longest timeout; whether an attempt is the current one; whether
  there is a reason to join
- the order of the member ids of a process, among those still in use

`View` is the part of a process that the coordinator's form depends on; it is the key of the table of forms.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeAlias

from kafka_assignors.rebalance.events import Membership
from kafka_assignors.rebalance.lease import NEVER, Lease
from kafka_assignors.rebalance.member import MemberState
from tests.rebalance_model.coordinator import Coordinator, JoinReply
from tests.rebalance_model.world import (
    LETTERS,
    Commit,
    Heartbeat,
    JoinAnswered,
    JoinSent,
    Process,
    SyncAnswered,
    SyncSent,
)

__all__ = ["Names", "View", "canonical_coordinator", "canonical_process", "rename_process", "view"]


class View(NamedTuple):
    """The member ids and generations that a process or one of its messages still uses."""

    ids: tuple[str, ...]
    generations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Names:
    """How a form renames the member ids and generations of a process; all others keep their names."""

    ids: tuple[tuple[str, str], ...] = ()
    generations: tuple[tuple[int, int], ...] = ()

    def member_id(self, old: str) -> str:
        return next((new for name, new in self.ids if name == old), old)

    def generation(self, old: int) -> int:
        return next((new for generation, new in self.generations if generation == old), old)

    def membership(self, old: Membership) -> Membership:
        return Membership(self.member_id(old.member_id), self.generation(old.generation))


Message: TypeAlias = JoinSent | JoinAnswered | SyncSent | SyncAnswered | Heartbeat | Commit


def view(process: Process) -> View:
    used = [] if process.member is None else [*_memberships(process.member).values()]
    messages = (process.join, process.heartbeat, process.commit)
    used += [_membership(message) for message in messages if message is not None]
    generations = {one.generation for one in used}
    if isinstance(process.join, JoinSent):
        generations.add(process.join.claim.generation)
    ids = {*process.leaving, *(one.member_id for one in used)}
    return View(tuple(sorted(ids - {""})), tuple(sorted(g for g in generations if g >= 0)))


def canonical_process(process: Process, oldest: int) -> Process:
    """The form of a process, with its ids and generations unchanged."""
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


def canonical_coordinator(
    group: Coordinator, views: tuple[View, ...]
) -> tuple[Coordinator, tuple[Names, ...]]:
    """The coordinator's form, and the renaming of each process beside it."""
    group = replace(group, leader=group.leader if group.get(group.leader) is not None else "")
    generations = {group.generation} | {entry.claim.generation for _, entry in group.entries}
    generations.update(*(one.generations for one in views))
    ranks = tuple((old, new) for new, old in enumerate(sorted(g for g in generations if g >= 0)))
    names = []
    for letter, seen in zip(LETTERS, views, strict=False):
        used = {name for name, _ in group.entries if name[0] == letter} | set(seen.ids)
        ids = tuple((old, f"{letter}{new}") for new, old in enumerate(sorted(used)))
        names.append(_changes(ids, ranks))
    every = Names(tuple(pair for one in names for pair in one.ids), _changes((), ranks).generations)
    return _rename_coordinator(group, every), tuple(names)


def _changes(ids: tuple[tuple[str, str], ...], ranks: tuple[tuple[int, int], ...]) -> Names:
    return Names(
        tuple((old, new) for old, new in ids if old != new),
        tuple((old, new) for old, new in ranks if old != new),
    )


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
    return Process(member, join, heartbeat, commit, leaving, process.wanted, process.overtaken)


def _membership(message: Message) -> Membership:
    return message.reply.membership if isinstance(message, JoinAnswered) else message.membership


def _memberships(member: MemberState) -> dict[str, Membership]:
    """The memberships by field; a mutation may add a field."""
    return {
        field.name: value
        for field in fields(member)
        if isinstance(value := getattr(member, field.name), Membership)
    }
