"""The steps from a state of `world.py`.

Time advances in ticks: a tick ages everything that has an age, up to the longest timeout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from kafka_assignors.group import Warmth
from kafka_assignors.rebalance import events
from kafka_assignors.rebalance.events import Action, Event, Membership, MembershipError, Partitions
from kafka_assignors.rebalance.lease import NEVER, Lease, Settings
from kafka_assignors.rebalance.member import MemberState
from kafka_assignors.rebalance.progress import Phase
from kafka_assignors.rebalance.warming import Warming
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors.wire.warm_sections import WarmList
from tests.rebalance_model.coordinator import (
    Claim,
    Coordinator,
    Entry,
    GroupState,
    Leading,
    Replies,
    SyncReply,
    WarmClaim,
    pairs_of,
)
from tests.rebalance_model.world import (
    COLD,
    LETTERS,
    NAMES,
    NOTHING,
    NOW,
    Commit,
    Heartbeat,
    JavaMember,
    JoinAnswered,
    JoinSent,
    Known,
    Loading,
    Process,
    Removal,
    Request,
    SyncAnswered,
    SyncSent,
    TakenInPart,
    Violation,
    World,
    may_send_heartbeat,
    member_ids,
    names_of,
    parts_of,
    received,
    waits_for_sync,
    waits_to_call,
)


@dataclass(frozen=True, slots=True)
class Here:
    """A process in the middle of a step. The step affects other processes through `installed` and through the
    coordinator's response to the request; see `received`."""

    index: int
    process: Process
    known: Known | None = None
    """What the process sees of the coordinator. None while it handles a response."""
    installed: Partitions = NOTHING
    """Partitions that the process has installed as a member of the current generation."""

    @property
    def name(self) -> str:
        return NAMES[self.index]


class Step(NamedTuple):
    """A step of a process, up to the request that arrives with it.

    `settling` steps happen by themselves; the other steps come from outside. A `disturbance` comes from
    outside without a cause. The remaining steps have a cause: a session expires because time has passed, a
    crashed process starts again.
    """

    label: str
    here: Here
    settling: bool
    request: Request | None = None
    disturbance: bool = False


class Told(NamedTuple):
    """An immediate response of the coordinator to the sender."""

    to: Literal["heartbeat", "commit"]
    answer: MembershipError
    accepted: Partitions = NOTHING
    failed: Partitions = NOTHING


class Arrival(NamedTuple):
    """What the coordinator does with a request or by itself. `round` means that it formed a generation,
    `change` that it saw the members or their subscriptions change."""

    coordinator: Coordinator
    told: Told | None = None
    mail: Replies = ()
    """Responses to the members that wait for them."""
    round: bool = False
    change: bool = False


class OwnStep(NamedTuple):
    """A step that the coordinator takes by itself."""

    label: str
    arrival: Arrival
    settling: bool


Kind: TypeAlias = Literal["ours", "java", "eager"]


@dataclass(frozen=True)
class Model:
    """The parameters of a model: the number and kinds of members, the number of partitions, the events.

    Topics have one partition each, so that a subscription can name any set of partitions.
    """

    members: int = 2
    partitions: int = 2
    kinds: tuple[Kind, ...] = ()
    leading: Leading = "ours"
    events: frozenset[str] = frozenset(
        {
            "crash",
            "close",
            "poll",
            "subscribe",
            "lose",
            "time",
            "timeout",
            "load",
            "commit",
            "abandon",
            "late",
            "partly",
        }
    )
    session_timeout: int = 1
    rebalance_timeout: int = 1
    late_requests: bool = False
    """Whether JoinGroup, SyncGroup and heartbeat requests can be delayed too. Otherwise they arrive when they
    are sent, and only their responses can be late. Commits can be late in either case."""
    machine: type[MemberState] = MemberState
    max_warming: tuple[int, ...] = ()
    """How many warm-ups each member runs at a time, 0 without a callback."""

    @property
    def topics(self) -> frozenset[str]:
        return frozenset("pqrstu"[: self.partitions])

    def kind(self, index: int) -> Kind:
        return self.kinds[index] if self.kinds else "ours"

    def protocol(self, index: int) -> RebalanceProtocol:
        eager = self.kind(index) == "eager"
        return RebalanceProtocol.EAGER if eager else RebalanceProtocol.COOPERATIVE

    @property
    def late_answers(self) -> bool:
        """Whether heartbeat responses can be late."""
        return self.late_requests or "late" in self.events

    @property
    def late_refusals(self) -> bool:
        """Whether a heartbeat that can only be refused can be late, and is certain to be refused."""
        return self.late_answers and "load" not in self.events

    @property
    def oldest(self) -> int:
        return max(self.session_timeout, self.rebalance_timeout)

    # ------------------------------------------------------------------------------------------- states

    def start(self) -> World:
        return World(Coordinator(leading=self.leading), (Process(),) * self.members)

    def _new_member(self, index: int) -> MemberState:
        machine = JavaMember if self.kind(index) == "java" else self.machine
        settings = Settings(self.session_timeout, self.rebalance_timeout, max_poll_interval=1)
        return machine(settings, lease=Lease(-self.oldest, -self.oldest))

    # ------------------------------------------------------------------------------------------- steps

    def known(self, group: Coordinator, index: int) -> Known:
        entries = [(name, entry) for name, entry in group.entries if name[0] == LETTERS[index]]
        ids = tuple((name, self._is_silent(entry)) for name, entry in entries)
        return Known(index, ids, group.generation, group.state is GroupState.PREPARING)

    def process_steps(self, known: Known, process: Process) -> Iterator[Step]:
        """The steps of one process, and the coordinator's steps that concern that process."""
        here = Here(known.index, process, known)
        yield from self._user_steps(here)
        yield from self._network_steps(here)
        yield from self._expiries(here)

    def coordinator_steps(self, group: Coordinator) -> Iterator[OwnStep]:
        """The coordinator's steps that depend on no process."""
        if group.initial and all(entry.joining for _, entry in group.entries):
            after, mail = group.complete()
            yield OwnStep("the initial delay is over", Arrival(after, mail=mail, round=True), True)
        if "timeout" in self.events and group.began >= self.rebalance_timeout and (late := group.late()):
            label = f"the rebalance times out without {', '.join(late)}"
            yield OwnStep(label, self.arrive(group, Removal(tuple(late))), False)

    def arrive(self, group: Coordinator, request: Request) -> Arrival:
        """Let a request arrive at the coordinator."""
        match request:
            case JoinSent(_, membership, claim):
                entry = group.get(membership.member_id)
                after, mail = group.join(membership.member_id, claim, new=membership.generation == -1)
                change = after.get(membership.member_id) is not None and (
                    entry is None or entry.claim.topics != claim.topics
                )
                return Arrival(after, None, mail, after.generation != group.generation, change)
            case SyncSent(membership):
                after, mail = group.sync(membership.member_id, membership.generation)
                return Arrival(after, mail=mail)
            case Heartbeat(membership):
                after, answer = group.heartbeat(membership.member_id, membership.generation)
                return Arrival(after, Told("heartbeat", answer))
            case Loading():
                return Arrival(group.loaded(), Told("heartbeat", MembershipError.NONE))
            case Commit(membership):
                after, answer = group.commit(membership.member_id, membership.generation)
                return Arrival(after, Told("commit", answer))
            case TakenInPart(membership, accepted, failed):
                after, answer = group.commit(membership.member_id, membership.generation)
                if answer is not MembershipError.NONE:
                    return Arrival(after, Told("commit", answer))
                return Arrival(after, Told("commit", MembershipError.OTHER, accepted, failed))
            case Removal(member_ids):
                after, mail = group.remove(*member_ids)
                return Arrival(after, None, mail, after.generation != group.generation, after != group)

    def told(self, index: int, process: Process, told: Told) -> Process:
        """The process after the coordinator has answered its heartbeat or commit."""
        here = Here(index, process)
        if told.to == "heartbeat":
            assert process.heartbeat is not None
            here = self._put(here, heartbeat=process.heartbeat._replace(answer=told.answer))
            return here.process if self.late_answers else self._heartbeat_learned(here).here.process
        sent = process.commit
        assert sent is not None
        accepted = sent.partitions if told.answer is MembershipError.NONE else told.accepted
        if overtaken := accepted & sent.overtaken:
            raise Violation(
                f"{here.name}'s commit of {names_of(overtaken)} is accepted after another member installed it"
            )
        answered = sent._replace(answer=told.answer, accepted=told.accepted, failed=told.failed)
        if self.late_requests:
            return self._put(here, commit=answered).process
        return self._commit_learned(here, answered).process

    def _user_steps(self, here: Here) -> Iterator[Step]:
        process, name = here.process, here.name
        member = process.member
        if member is None:
            if not process.leaving:
                warm = Warming(self.max_warming[here.index]) if self.max_warming else COLD
                started = self._put(here, member=self._new_member(here.index), warm=warm)
                yield Step(
                    f"{name} starts", self._tell(started, events.SubscriptionChanged(self.topics)), False
                )
            return
        if member.call is not None and not member.call.is_running and member.may_call(NOW):
            after = self._tell(here, events.AboutToCall())
            yield self._at_once(Step(f"{name} calls its listener", after, True))
        if member.call is not None and member.call.is_running:
            asked = type(member.call.asked).__name__
            after = self._tell(here, events.ListenerReturned())
            yield self._at_once(Step(f"{name}'s listener returns from {asked}", after, True))
        if member.must_join and process.join is None:
            after = self._tell(here, events.AboutToJoin(self.protocol(here.index)))
            yield self._at_once(Step(f"{name} is about to join", after, True))
        for unit in sorted(process.warm.running):
            warm, _ = process.warm.ended(unit).begin()
            after = self._reports(self._put(here, warm=warm))
            yield self._at_once(Step(f"{name} has warmed {names_of(frozenset(unit))}", after, True))
        if "drain" in self.events and not process.warm.draining and not member.closing:
            warm = replace(process.warm, draining=True)
            after = self._tell(self._put(here, warm=warm), events.RejoinRequested("drain"))
            yield _disturbance(f"{name} drains", after)
        if member.poll_interval_exceeded:
            yield Step(f"{name} polls again", self._tell(here, events.PollIntervalChecked(NOW)), True)
        if "commit" in self.events:
            yield from self._callers_steps(here, member)
        if member.closing:
            return
        if "crash" in self.events and not self._ghosts(here):
            yield _disturbance(f"{name} crashes", replace(here, process=Process(leaving=process.leaving)))
        if "close" in self.events and not self._ghosts(here):
            yield _disturbance(f"{name} closes", self._tell(here, events.CloseRequested()))
        if "poll" in self.events and not self._ghosts(here):
            after = self._tell(here, events.PollIntervalChecked(polled_at=-2))
            if after != here:
                yield _disturbance(f"{name} exceeds the poll interval", after)
        if "subscribe" in self.events:
            topics = self.topics if member.topics != self.topics else frozenset({"p"})
            after = self._tell(here, events.SubscriptionChanged(topics))
            yield _disturbance(f"{name} subscribes to {'+'.join(sorted(topics))}", after)

    def _network_steps(self, here: Here) -> Iterator[Step]:
        yield from self._join_steps(here)
        yield from self._heartbeat_steps(here)
        yield from self._commit_steps(here)
        process, name = here.process, here.name
        for member_id in process.leaving:
            left = tuple(one for one in process.leaving if one != member_id)
            after = self._put(here, leaving=left)
            yield Step(f"{name}'s LeaveGroup of {member_id} arrives", after, True, Removal((member_id,)))

    def _heartbeat_steps(self, here: Here) -> Iterator[Step]:
        process, name = here.process, here.name
        member, heartbeat = process.member, process.heartbeat
        if heartbeat is not None and heartbeat.answer is not None:
            yield self._heartbeat_learned(here)
            return
        if heartbeat is not None:
            yield Step(f"{name}'s heartbeat arrives", here, True, heartbeat)
        elif member is None or not may_send_heartbeat(member):
            return
        else:
            heartbeat = Heartbeat(member.membership, NOW, None)
            here = self._put(here, heartbeat=heartbeat)
            if self._should_heartbeat(here):
                yield Step(f"{name} sends a heartbeat", here, True, None if self.late_requests else heartbeat)
        if "load" in self.events:
            label = f"{name}'s heartbeat comes to a coordinator that loads the group"
            yield _disturbance(label, here)._replace(request=Loading(heartbeat.membership))

    def _heartbeat_learned(self, here: Here) -> Step:
        heartbeat = here.process.heartbeat
        assert heartbeat is not None
        assert heartbeat.answer is not None
        event = events.HeartbeatAnswered(heartbeat.membership, heartbeat.answer, heartbeat.sent_at)
        after = self._tell(self._put(here, heartbeat=None), event)
        return Step(f"{here.name} learns of its heartbeat: {heartbeat.answer.name}", after, True)

    def _join_steps(self, here: Here) -> Iterator[Step]:
        name, sent = here.name, here.process.join
        if sent is None:
            return
        empty = self._put(here, join=None)
        if isinstance(sent, JoinAnswered):
            event: Event = events.Joined(sent.attempt, sent.reply.membership)
            if sent.reply.answer is not MembershipError.NONE:
                event = events.JoinFailed(sent.attempt, sent.reply.answer)
            yield self._at_once(Step(f"{name} gets its JoinGroup answer", self._tell(empty, event), True))
        elif isinstance(sent, SyncAnswered):
            event = events.Assigned(sent.membership, sent.reply.partitions, sent.sent_at)
            if sent.reply.answer is not MembershipError.NONE:
                event = events.SyncFailed(sent.membership, sent.reply.answer)
            got = (
                names_of(sent.reply.partitions)
                if sent.reply.answer is MembershipError.NONE
                else sent.reply.answer.name
            )
            told = self._tell(empty, event)
            if isinstance(event, events.Assigned):
                told = self._listed(told, sent.membership, sent.reply)
            yield Step(f"{name} gets its SyncGroup answer: {got}", told, True)
        elif not sent.arrived:
            yield self._arriving(here, sent)
        if "lose" in self.events:
            if isinstance(sent, (JoinSent, JoinAnswered)):
                failed: Event = events.JoinFailed(sent.attempt, MembershipError.OTHER)
            else:
                failed = events.SyncFailed(sent.membership, MembershipError.OTHER)
            what = "JoinGroup" if isinstance(failed, events.JoinFailed) else "SyncGroup"
            how = "answer" if not isinstance(sent, (JoinSent, SyncSent)) or sent.arrived else "request"
            yield _disturbance(f"{name}'s {what} {how} is lost", self._tell(empty, failed))

    def _at_once(self, step: Step) -> Step:
        """The step, with the arrival of the JoinGroup or SyncGroup request that it sends."""
        sent = step.here.process.join
        if self.late_requests or not isinstance(sent, (JoinSent, SyncSent)) or sent.arrived:
            return step
        arriving = self._arriving(step.here, sent)
        return arriving._replace(label=f"{step.label}; {arriving.label}")

    def _arriving(self, here: Here, sent: JoinSent | SyncSent) -> Step:
        label = f"{here.name}'s SyncGroup arrives"
        if isinstance(sent, JoinSent):
            claim = f"{names_of(sent.claim.owned)} of {sent.claim.generation}"
            label = f"{here.name}'s JoinGroup arrives, claiming {claim}"
        return Step(label, self._put(here, join=sent._replace(arrived=True)), True, sent)

    def _listed(self, here: Here, membership: Membership, reply: SyncReply) -> Here:
        """The process with the list of an assignment."""
        member = here.process.member
        if member is None or member.membership != membership:
            return here
        if {one for unit in reply.listed for one in unit} & reply.partitions:
            raise Violation(f"{here.name} shall warm what it is assigned")
        knows = self.leading != "older" and bool(self.max_warming)
        warm_list = WarmList(0, reply.listed) if knows else None
        warm, _ = here.process.warm.assigned(-1, warm_list, reply.partitions)
        warm, _ = _ended(warm).begin()
        if len(warm.running) > warm.max_warming:
            raise Violation(f"{here.name} warms more than {warm.max_warming}")
        return self._reports(self._put(here, warm=warm))

    def _reports(self, here: Here) -> Here:
        """The process, which joins again if its leader does not know of all that is ready.

        A join that is under way comes first: its assignment may have no need of the report.
        """
        member = here.process.member
        if member is None or member.closing or member.join.is_under_way or not here.process.warm.unreported:
            return here
        return self._tell(here, events.RejoinRequested("warm"))

    def _callers_steps(self, here: Here, member: MemberState) -> Iterator[Step]:
        """Commits are requested, and callers wait no longer, also while a request is under way."""
        process, name = here.process, here.name
        if not process.wanted:
            wanted = member.deliverable
            if member.call is not None:
                wanted |= member.call.asked.partitions & member.owned
            java = self.kind(here.index) == "java" and (member.phase is not Phase.IDLE or process.commit)
            if wanted and not java:
                after = self._tell(self._put(here, wanted=wanted), events.CommitRequested(wanted))
                yield _disturbance(f"{name} commits {names_of(wanted)}", after)
        if "abandon" not in self.events:
            return
        if process.wanted:
            left = self._put(here, wanted=NOTHING, overtaken=NOTHING)
            after = self._tell(left, events.CommitAbandoned(process.wanted))
            yield _disturbance(f"{name} waits no longer for what is not sent", after)
        if process.commit is not None and not process.commit.abandoned:
            after = self._put(here, commit=process.commit._replace(abandoned=True))
            yield _disturbance(f"{name} waits no longer for what is sent", after)

    def _commit_steps(self, here: Here) -> Iterator[Step]:
        process, name = here.process, here.name
        sent = process.commit
        if process.member is not None and process.member.can_commit:
            every_partition = frozenset((topic, 0) for topic in self.topics)
            after = self._tell(here, events.CommitsCanBeSent(every_partition))
            yield Step(f"{name}'s commit can be written", after, True)
        if sent is None:
            return
        if sent.answer is None:
            yield Step(f"{name}'s commit arrives", here, True, sent)
            if "partly" in self.events:
                for label, taken_in_part in parts_of(sent):
                    yield _disturbance(f"{name}'s commit arrives: {label}", here)._replace(
                        request=taken_in_part
                    )
        else:
            after = self._commit_learned(here, sent)
            yield Step(f"{name} learns of its commit: {sent.answer.name}", after, True)
        if "lose" in self.events:
            lost = sent._replace(answer=MembershipError.OTHER, accepted=NOTHING, failed=NOTHING)
            yield _disturbance(f"{name}'s commit is lost", self._commit_learned(here, lost))

    def _commit_learned(self, here: Here, sent: Commit) -> Here:
        assert sent.answer is not None
        before = here.process.member
        again = sent.partitions - sent.accepted - sent.failed
        if sent.answer is MembershipError.NONE or sent.abandoned:
            again = NOTHING
        assert before is not None
        mine = again & before.commits.resendable
        wanted, overtaken = here.process.wanted, here.process.overtaken
        here = self._put(
            here, commit=None, wanted=wanted | mine, overtaken=overtaken | (sent.overtaken & mine - wanted)
        )
        here = self._tell(here, events.CommitAnswered(sent.membership, sent.answer, again))
        member = here.process.member
        if member is not None and sent.answer is MembershipError.OTHER:
            waiting = member.commits.waiting
            if more := (sent.partitions - again - wanted) & waiting:
                raise Violation(f"{here.name} commits {names_of(more)} again, which is settled")
            if forgotten := mine & member.committable - waiting:
                raise Violation(f"{here.name} forgets to commit {names_of(forgotten)}")
        return here

    def _expiries(self, here: Here) -> Iterator[Step]:
        member = here.process.member
        own = member.membership.member_id if member is not None else ""
        for member_id, silent in _seen(here).ids:
            if member_id != own:
                if member_id not in here.process.leaving:
                    yield Step(f"{member_id}, who is dead, expires", here, True, Removal((member_id,)))
            elif silent:
                yield Step(f"{member_id}'s session expires", here, False, Removal((member_id,)))

    def _is_silent(self, entry: Entry) -> bool:
        # The coordinator does not count the silence of members that wait for its response.
        waiting = entry.joining or entry.syncing
        return "time" in self.events and not waiting and entry.heard >= self.session_timeout

    # ------------------------------------------------------------------------------------------- parts

    def _tell(self, here: Here, event: Event) -> Here:
        """Give the member an event, and carry out its actions at once."""
        before = here.process.member
        assert before is not None
        member, actions = before.handle(event, NOW)
        if not before.owned <= member.owned and events.Install(member.owned) not in actions:
            raise Violation(f"{here.name} gives a partition up without saying what it has left")
        if isinstance(event, events.ListenerReturned) and member.owned & before.being_revoked:
            raise Violation(f"{here.name} keeps what its listener was told to give up")
        here = self._put(here, member=member, warm=_looked(here.process.warm, member))
        for action in actions:
            here = self._act(here, action, before.owned)
        announces = member.call is not None and isinstance(member.call.asked, events.Announce)
        if announces and events.CallDue(NOTHING) in actions and "late" not in self.events:
            return self._tell(self._tell(here, events.AboutToCall()), events.ListenerReturned())
        if member.phase is Phase.CLOSED:
            here = replace(here, process=Process(leaving=here.process.leaving))
        return here

    def _act(self, here: Here, action: Action, owned: Partitions) -> Here:
        member = here.process.member
        assert member is not None
        match action:
            case events.SendJoin(attempt, membership, claimed, _):
                if not membership.member_id:
                    # MEMBER_ID_REQUIRED: the coordinator gives out a member id in the same step.
                    failed = events.JoinFailed(attempt, MembershipError.OTHER, self._unused_id(here))
                    return self._tell(self._tell(here, failed), events.AboutToJoin(self.protocol(here.index)))
                foreign = {unit for unit in here.process.warm.listed if unit[0][0] not in member.topics}
                warm, warmth = _ended(here.process.warm.without(frozenset(foreign))).joining()
                said = None if warmth is None else _said(warmth)
                claim = Claim(member.topics, claimed, membership.generation, said)
                return self._put(here, warm=warm, join=JoinSent(attempt, membership, claim, False))
            case events.Revoke() if not member.in_group:
                raise Violation(f"{here.name} calls revoked what was lost")
            case events.Revoke() if self._is_gone(here):
                raise Violation(f"{here.name} calls revoked after the coordinator has removed it")
            case events.Revoke() | events.Lose() if not action.partitions <= member.owned:
                raise Violation(f"{here.name} is told of the end of what it does not own")
            case events.Lose() if action.partitions != member.owned:
                raise Violation(f"{here.name} keeps a part of what was lost")
            case events.SendSync(membership):
                return self._put(here, join=SyncSent(membership, NOW, False))
            case events.SendCommit(membership, partitions):
                return self._written(here, Commit(membership, partitions, None))
            case events.CommitRefused(partitions):
                process = here.process
                left = {"wanted": process.wanted - partitions, "overtaken": process.overtaken - partitions}
                return self._put(here, **left)
            case events.SendLeave(member_id):
                return self._put(here, leaving=tuple(sorted({*here.process.leaving, member_id})))
            case events.Install(partitions) if (added := partitions - owned) and self._is_current(here):
                mine = received(here.process, here.index, (), added)
                return replace(here, process=mine, installed=here.installed | added)
            case _:
                return here

    def _written(self, here: Here, commit: Commit) -> Here:
        """The process after it has written an OffsetCommit request."""
        process = here.process
        if process.commit is not None:
            raise Violation(f"{here.name} writes a commit while an earlier request is under way")
        if gone := commit.partitions - process.wanted:
            raise Violation(f"{here.name} writes a commit of {names_of(gone)}, for which no caller waits")
        sent = commit._replace(overtaken=process.overtaken & commit.partitions)
        left = {"wanted": process.wanted - sent.partitions, "overtaken": process.overtaken - sent.partitions}
        return self._put(here, commit=sent, **left)

    @staticmethod
    def _unused_id(here: Here) -> str:
        """The member id after the highest one in use; `canonical.py` makes ids small again."""
        used = {name for name, _ in _seen(here).ids} | set(member_ids(here.process)) - {""}
        return f"{LETTERS[here.index]}{max((int(name[1:]) for name in used), default=-1) + 1}"

    @staticmethod
    def _ghosts(here: Here) -> bool:
        """Whether the coordinator still knows an earlier id of the process; the model needs only one."""
        process = here.process
        own = process.member.membership.member_id if process.member else ""
        return bool(process.leaving) or any(name != own for name, _ in _seen(here).ids)

    def _should_heartbeat(self, here: Here) -> bool:
        """Whether a heartbeat could change the state."""
        member, seen = here.process.member, _seen(here)
        assert member is not None
        if waits_to_call(member):
            return True
        answer = seen.answer(member.membership)
        if answer not in (MembershipError.NONE, MembershipError.REBALANCE_IN_PROGRESS):
            return answer is not MembershipError.ILLEGAL_GENERATION or not member.join.generation_refused
        if answer is MembershipError.NONE and member.has_lease(NOW):
            return member.lease.heard_at < NOW or (
                member.lease.stable_at < NOW and member.phase is not Phase.SYNCING
            )
        if (
            answer is MembershipError.REBALANCE_IN_PROGRESS
            and not waits_for_sync(member)
            and member.lease.heard_at < NOW
        ):
            return True
        joins = member.phase is Phase.IDLE and not member.join.reason and not member.closing
        return joins or dict(seen.ids)[member.membership.member_id]

    @staticmethod
    def _is_current(here: Here) -> bool:
        """Whether the coordinator would accept the member's commit: a late assignment makes no owner."""
        member, seen = here.process.member, _seen(here)
        return (
            member is not None
            and seen.knows(member.membership.member_id)
            and member.membership.generation == seen.generation
        )

    def _is_gone(self, here: Here) -> bool:
        """Whether the coordinator has removed a member that need not tell its listener anything yet."""
        member = here.process.member
        assert member is not None
        if member.closing or not member.topics or _seen(here).knows(member.membership.member_id):
            return False
        # A coordinator that loads says OK to all. And it may remove a member right after it has answered
        # REBALANCE_IN_PROGRESS, if that member has not joined for the whole rebalance timeout.
        late = member.lease.stable_at + self.rebalance_timeout <= NOW
        return "load" not in self.events and not late

    @staticmethod
    def _put(here: Here, **changes: object) -> Here:
        return replace(here, process=replace(here.process, **changes))  # type: ignore[arg-type]

    # ------------------------------------------------------------------------------------------- time

    def older_coordinator(self, group: Coordinator) -> Coordinator:
        """The coordinator one tick later."""
        entries = tuple(
            (name, replace(entry, heard=min(entry.heard + 1, self.session_timeout)))
            for name, entry in group.entries
        )
        began = min(group.began + 1, self.rebalance_timeout) if "timeout" in self.events else 0
        return replace(group, entries=entries, began=began)

    def older_process(self, process: Process) -> Process:
        """The process one tick later."""
        member, join, heartbeat = process.member, process.join, process.heartbeat
        if member is not None:
            lease = member.lease
            member = replace(member, lease=Lease(self._older(lease.heard_at), self._older(lease.stable_at)))
            if member.call is not None and member.call.confirmed_at > NEVER:
                confirmed_at = self._older(member.call.confirmed_at)
                member = replace(member, call=replace(member.call, confirmed_at=confirmed_at))
        if isinstance(join, (SyncSent, SyncAnswered)):
            join = join._replace(sent_at=self._older(join.sent_at))
        if heartbeat is not None:
            heartbeat = heartbeat._replace(sent_at=self._older(heartbeat.sent_at))
        return replace(process, member=member, join=join, heartbeat=heartbeat)

    def _older(self, at: float) -> float:
        return max(at - 1, -self.oldest)


def _said(warmth: Warmth) -> WarmClaim:
    listed = (pairs_of(warmth.warming), pairs_of(warmth.ready))
    return WarmClaim(warmth.max_warming, warmth.draining, *listed)


def _looked(warm: Warming, member: MemberState) -> Warming:
    """As `WarmUps.look` does after each event."""
    if warm.listed and (member.closing or not member.in_group or not member.topics):
        return _ended(warm.without(frozenset(warm.listed)))
    return warm


def _ended(warm: Warming) -> Warming:
    """A warm-up that is cancelled ends at once."""
    for unit in warm.cancelled:
        warm = warm.ended(unit)
    return warm


def _seen(here: Here) -> Known:
    if here.known is None:
        raise AssertionError("what an answer leads to depends on the answer alone")
    return here.known


def _disturbance(label: str, here: Here) -> Step:
    return Step(label, here, settling=False, disturbance=True)
