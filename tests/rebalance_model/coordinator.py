"""The coordinator of one classic group, as a broker runs it.

It follows `GroupCoordinator`/`ClassicGroup` of Apache Kafka: it checks member ids and generations, and
ignores ownership. Everything is an immutable value. Times are ages in ticks; the code that ticks caps them.

The responses that the coordinator owes (`replies`) are by member id; `world.py` delivers them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from kafka_assignors.group import Group, Member, Topic, TopicPartitions, Warmth, by_topic
from kafka_assignors.leader import lead
from kafka_assignors.rebalance.events import Membership, MembershipError, Partitions
from kafka_assignors.strategies import CooperativeSticky
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors.wire.warm_sections import Unit

NOTHING: Partitions = frozenset()

Leading: TypeAlias = Literal["ours", "older", "eager"]
"""How the leader assigns. `ours` is the leader as shipped. `older` ignores claims of older generations, as
Java's cooperative-sticky does: it neither honours them nor waits for their members. `eager` never waits."""


class GroupState(enum.IntEnum):
    EMPTY = 0
    PREPARING = 1
    COMPLETING = 2
    STABLE = 3


@dataclass(frozen=True, slots=True)
class WarmClaim:
    """`Warmth` without generation and plan, on which no property depends."""

    max_warming: int
    draining: bool
    warming: Partitions
    ready: Partitions


@dataclass(frozen=True, slots=True)
class Claim:
    """What the coordinator compares to decide whether a JoinGroup brings anything new."""

    topics: frozenset[str]
    owned: Partitions
    generation: int
    warmth: WarmClaim | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """The coordinator's entry of a member."""

    claim: Claim
    joining: bool = False
    """Its JoinGroup waits for the other members."""
    syncing: bool = False
    """Its SyncGroup waits for the leader's SyncGroup."""
    synced: bool = False
    """It sent SyncGroup in this generation."""
    assigned: Partitions = NOTHING
    listed: tuple[Unit, ...] = ()
    heard: int = 0
    """Ticks since its last request."""


@dataclass(frozen=True, slots=True)
class JoinReply:
    answer: MembershipError
    membership: Membership


@dataclass(frozen=True, slots=True)
class SyncReply:
    answer: MembershipError
    partitions: Partitions
    listed: tuple[Unit, ...] = ()


Replies: TypeAlias = tuple[tuple[str, JoinReply | SyncReply], ...]


def standing(known: bool, current: bool, preparing: bool) -> MembershipError:
    """The coordinator's answer, by whether it knows the member id and whether the generation is current."""
    if not known:
        return MembershipError.UNKNOWN_MEMBER_ID
    if not current:
        return MembershipError.ILLEGAL_GENERATION
    return MembershipError.REBALANCE_IN_PROGRESS if preparing else MembershipError.NONE


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The state of the group, and how its leader assigns."""

    state: GroupState = GroupState.EMPTY
    generation: int = 0
    leader: str = ""
    entries: tuple[tuple[str, Entry], ...] = ()
    began: int = 0
    """Ticks since the rebalance began (PREPARING) or since its JoinGroup responses (later)."""
    initial: bool = False
    """PREPARING from EMPTY: the broker waits a short time for more members."""
    leading: Leading = "ours"

    def get(self, member_id: str) -> Entry | None:
        return next((entry for name, entry in self.entries if name == member_id), None)

    def with_entry(self, member_id: str, entry: Entry | None) -> Coordinator:
        others = [(name, one) for name, one in self.entries if name != member_id]
        if entry is not None:
            others.append((member_id, entry))
        return replace(self, entries=tuple(sorted(others, key=lambda pair: pair[0])))

    def late(self) -> list[str]:
        """The members that the current rebalance waits for."""
        if self.state is GroupState.PREPARING:
            return [name for name, entry in self.entries if not entry.joining]
        return [name for name, entry in self.entries if not entry.synced]

    def _each(self, **changes: object) -> Coordinator:
        return replace(
            self,
            entries=tuple((name, replace(entry, **changes)) for name, entry in self.entries),  # type: ignore[arg-type]
        )

    # ------------------------------------------------------------------------------------------- requests

    def join(self, member_id: str, claim: Claim, new: bool) -> tuple[Coordinator, Replies]:
        """Receive JoinGroup; `new`: the coordinator gave out this id and waits for its JoinGroup."""
        entry = self.get(member_id)
        if entry is None and not new:
            return self, ((member_id, JoinReply(MembershipError.UNKNOWN_MEMBER_ID, Membership("", -1))),)
        if (
            entry is not None
            and self.state in (GroupState.COMPLETING, GroupState.STABLE)
            and entry.claim == claim
            and not (self.state is GroupState.STABLE and member_id == self.leader)
        ):
            group = self.with_entry(member_id, replace(entry, heard=0))
            return group, ((member_id, self._joined(member_id)),)
        group, replies = self._prepare()
        entry = replace(group.get(member_id) or Entry(claim), claim=claim, joining=True, heard=0)
        group = group.with_entry(member_id, entry)
        group, more = group._complete_if_all_joined()
        return group, replies + more

    def sync(self, member_id: str, generation: int) -> tuple[Coordinator, Replies]:
        entry = self.get(member_id)
        refusal = self._refusal(entry, generation)
        if self.state is GroupState.PREPARING and refusal is None:
            refusal = MembershipError.REBALANCE_IN_PROGRESS
        if refusal is not None or entry is None:
            return self, ((member_id, SyncReply(refusal or MembershipError.UNKNOWN_MEMBER_ID, NOTHING)),)
        entry = replace(entry, synced=True, heard=0)
        if self.state is GroupState.STABLE:
            return self.with_entry(member_id, entry), (
                (member_id, SyncReply(MembershipError.NONE, entry.assigned, entry.listed)),
            )
        group = self.with_entry(member_id, replace(entry, syncing=True))
        if member_id != self.leader:
            return group, ()
        shares = assign(tuple((name, one.claim) for name, one in group.entries), self.leading)
        replies: Replies = ()
        entries = []
        for name, one in group.entries:
            assigned, listed = shares[name]
            one = replace(one, assigned=assigned, listed=listed)
            if one.syncing:
                replies += ((name, SyncReply(MembershipError.NONE, assigned, listed)),)
                one = replace(one, syncing=False, heard=0)
            entries.append((name, one))
        return replace(group, state=GroupState.STABLE, entries=tuple(entries)), replies

    def heartbeat(self, member_id: str, generation: int) -> tuple[Coordinator, MembershipError]:
        entry = self.get(member_id)
        current, preparing = generation == self.generation, self.state is GroupState.PREPARING
        answer = standing(entry is not None, current, preparing)
        if entry is None or answer is MembershipError.ILLEGAL_GENERATION:
            return self, answer
        return self.with_entry(member_id, replace(entry, heard=0)), answer

    def commit(self, member_id: str, generation: int) -> tuple[Coordinator, MembershipError]:
        """Accept a commit or refuse it; ownership does not matter."""
        entry = self.get(member_id)
        if (refusal := self._refusal(entry, generation)) is not None or entry is None:
            return self, refusal or MembershipError.UNKNOWN_MEMBER_ID
        if self.state is GroupState.COMPLETING:
            return self, MembershipError.REBALANCE_IN_PROGRESS
        return self.with_entry(member_id, replace(entry, heard=0)), MembershipError.NONE

    def remove(self, *member_ids: str) -> tuple[Coordinator, Replies]:
        """Remove members that leave, expire or do not rejoin in time."""
        group = self
        for member_id in member_ids:
            group = group.with_entry(member_id, None)
        if group == self:
            return self, ()
        replies: Replies = ()
        for member_id in member_ids:
            entry = self.get(member_id)
            if entry is not None and entry.joining:
                replies += ((member_id, JoinReply(MembershipError.UNKNOWN_MEMBER_ID, Membership("", -1))),)
            elif entry is not None and entry.syncing:
                replies += ((member_id, SyncReply(MembershipError.UNKNOWN_MEMBER_ID, NOTHING)),)
        if group.state in (GroupState.COMPLETING, GroupState.STABLE):
            group, others = group._prepare()
            replies += others
        group, more = group._complete_if_all_joined()
        return group, replies + more

    def loaded(self) -> Coordinator:
        """The group on another broker, which restarts the timers of all members."""
        return replace(self, began=0)._each(heard=0)

    # ------------------------------------------------------------------------------------------- inside

    def _refusal(self, entry: Entry | None, generation: int) -> MembershipError | None:
        answer = standing(entry is not None, generation == self.generation, False)
        return None if answer is MembershipError.NONE else answer

    def _joined(self, member_id: str) -> JoinReply:
        return JoinReply(MembershipError.NONE, Membership(member_id, self.generation))

    def _prepare(self) -> tuple[Coordinator, Replies]:
        if self.state is GroupState.PREPARING:
            return self, ()
        replies: Replies = tuple(
            (name, SyncReply(MembershipError.REBALANCE_IN_PROGRESS, NOTHING))
            for name, entry in self.entries
            if entry.syncing
        )
        initial = self.state is GroupState.EMPTY
        # The session timer of each answered member starts again.
        entries = tuple(
            (name, replace(entry, heard=0) if entry.syncing else entry) for name, entry in self.entries
        )
        group = replace(self, state=GroupState.PREPARING, entries=entries, began=0, initial=initial)
        return group._each(joining=False, syncing=False, synced=False, assigned=NOTHING, listed=()), replies

    def _complete_if_all_joined(self) -> tuple[Coordinator, Replies]:
        if self.initial and self.entries:
            return self, ()
        if self.state is GroupState.PREPARING and all(entry.joining for _, entry in self.entries):
            return self.complete()
        return self, ()

    def complete(self) -> tuple[Coordinator, Replies]:
        """Form a new generation, since all members have joined."""
        generation = self.generation + 1
        if not self.entries:
            return Coordinator(generation=generation, leading=self.leading), ()
        names = [name for name, _ in self.entries]
        group = replace(
            self,
            state=GroupState.COMPLETING,
            generation=generation,
            leader=self.leader if self.leader in names else names[0],
            began=0,
            initial=False,
        )._each(joining=False, heard=0)
        return group, tuple((name, group._joined(name)) for name in names)


Share: TypeAlias = tuple[Partitions, tuple[Unit, ...]]
"""What a member is assigned, and what it shall warm."""

_ASSIGNED: dict[object, dict[str, Share]] = {}


def assign(claims: tuple[tuple[str, Claim], ...], leading: Leading) -> dict[str, Share]:
    """The assignment that the leader sends: `lead` with `CooperativeSticky`, both as shipped.

    The result depends only on the order of the claims' generations, so each such case is computed once.
    """
    ranks = {g: rank for rank, g in enumerate(sorted({claim.generation for _, claim in claims} - {-1}))}
    ranks[-1] = -1
    ranked = tuple((name, replace(claim, generation=ranks[claim.generation])) for name, claim in claims)
    if (ranked, leading) not in _ASSIGNED:
        _ASSIGNED[ranked, leading] = _assign(ranked, leading)
    return _ASSIGNED[ranked, leading]


def _assign(claims: tuple[tuple[str, Claim], ...], leading: Leading) -> dict[str, Share]:
    newest = max(claim.generation for _, claim in claims)
    members = []
    for name, claim in claims:
        owned = NOTHING if leading == "older" and claim.generation < newest else claim.owned
        warmth = None if claim.warmth is None or leading == "older" else _warmth(claim.warmth)
        members.append(
            Member(name, claim.topics, owned=by_topic(owned), generation=claim.generation, warmth=warmth)
        )
    topics: frozenset[str] = frozenset().union(*(claim.topics for _, claim in claims))
    group = Group.of([Topic(name, 1) for name in sorted(topics)], members)
    protocol = RebalanceProtocol.EAGER if leading == "eager" else RebalanceProtocol.COOPERATIVE
    led = lead(CooperativeSticky(), group, protocol)
    return {
        name: (pairs_of(led.assignment.members[name]), led.lists[name].units if name in led.lists else ())
        for name, _ in claims
    }


def _warmth(claim: WarmClaim) -> Warmth:
    listed = (by_topic(claim.warming), by_topic(claim.ready))
    return Warmth(claim.max_warming, claim.draining, -1, 0, *listed)


def pairs_of(partitions: TopicPartitions) -> Partitions:
    return frozenset((t, p) for t, ps in partitions.items() for p in ps)
