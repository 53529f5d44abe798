"""Warm handoff in simulated time: members, leaders and bytes are real, coordinator and network are not.

    python -m tests.warm_simulation 200

Each run makes a group of members, most of them with a warm-up callback, changes it again and again, and lets
it come to rest in between. Checked at every step: a partition has one live owner at most; only what a live
owner claims is held; no partition is free while a member waits for it; a member that has nothing new to tell
its leader begins no generation, as a coordinator removes those that a rebalance waits for too long, and some
revocations are slow. Checked at rest: every partition has an owner, nothing is warmed, held or withheld, and
the strategy would change nothing.
"""

from __future__ import annotations

import heapq
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from kafka_assignors import messages
from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Group, Member, Topic, TopicPartitions, by_topic, pairs
from kafka_assignors.rebalance import MemberState, Settings
from kafka_assignors.rebalance import events as e
from kafka_assignors.rebalance.warming import Warming
from kafka_assignors.strategies import Capacity, CooperativeSticky, RackAwareSticky, Strategy
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors.wire import decode_member
from kafka_assignors.wire.warm_sections import Unit, warmth_bytes
from kafka_assignors_strategies import CoPartitioned, Priority, Rollout, Standby, Weighted

FOREVER = Settings(session_timeout=1e9, rebalance_timeout=1e9, max_poll_interval=1e9)
COALESCE_S = 1.0
SESSION_S = 5.0
SLOW_S = 30.0
"""How long some calls for a revocation take: longer than anything that a member waits for."""
MOST_EVENTS = 50_000

Strategies = Callable[[random.Random], Strategy]
STRATEGIES: Mapping[str, Strategies] = {
    "sticky": lambda _: CooperativeSticky(),
    "rack": lambda _: RackAwareSticky(),
    "weighted": lambda _: Weighted(),
    "capacity": lambda rng: Capacity(rng.choice((1, 2, 5))),
    "rollout": lambda rng: Rollout(rng.choice("ab")),
    "standby": lambda rng: Standby(standby=rng.random() < 0.3),
    "priority": lambda _: Priority([["t0"]]),
    "copartitioned": lambda _: CoPartitioned([["t0", "t1"]]),
}


class Broken(AssertionError):
    """A promise that does not hold."""


@dataclass(frozen=True, slots=True)
class Options:
    strategy: str = "sticky"
    max_warming: int = 3
    with_callback: float = 0.7
    burst: int = 1
    changes: int = 20
    garbled: float = 0.0
    noise: float = 0.0


@dataclass
class Totals:
    """What the runs have in common."""

    counts: Counter[str] = field(default_factory=Counter)
    generations: list[tuple[int, int]] = field(default_factory=list)
    """Generations until the rest, and warm-ups begun, of each single change."""
    warmed_s: float = 0.0
    thrown_away_s: float = 0.0


class Process:
    """One member with its machine and its warm-ups, and the tasks of an adapter."""

    def __init__(self, run: Run, name: str, topics: frozenset[str], max_warming: int) -> None:
        self.run, self.name = run, name
        self.assignor = Assignor(STRATEGIES[run.options.strategy](run.rng))
        self.machine = MemberState(FOREVER)
        self.warming = Warming(max_warming)
        self.began_at: dict[Unit, float] = {}
        self.is_alive = True
        self.joins_soon = self.reports_soon = False
        self.tell(e.SubscriptionChanged(topics))

    @property
    def member_id(self) -> str:
        return self.machine.membership.member_id

    def tell(self, event: e.Event) -> None:
        if not self.is_alive:
            return
        self.machine, actions = self.machine.handle(event, self.run.now)
        for action in actions:
            self._act(action)
        self.run.check_owners()
        if self.machine.must_join and not self.joins_soon:
            self.joins_soon = True
            self.run.after(0.0005, self._join)

    def _join(self) -> None:
        self.joins_soon = False
        if self.machine.must_join:
            self.tell(e.AboutToJoin(RebalanceProtocol.COOPERATIVE))

    def _act(self, action: e.Action) -> None:
        run = self.run
        match action:
            case e.CallDue():
                run.after(run.delay(), lambda: self.tell(e.AboutToCall()))
            case e.Revoke() | e.Announce() | e.Lose():
                if isinstance(action, e.Lose):
                    self._cancel(frozenset(self.warming.listed))
                is_slow = isinstance(action, e.Revoke) and run.rng.random() < 0.2
                run.after(SLOW_S if is_slow else run.delay(), lambda: self.tell(e.ListenerReturned()))
            case e.SendJoin():
                topics, data = self.machine.topics, self._subscription(action)
                run.after(run.delay(), lambda: run.coordinator.join(self, action, topics, data))
            case e.SendSync(membership):
                run.after(run.delay(), lambda: run.coordinator.sync(self, membership))
            case e.SendLeave(member_id):
                run.coordinator.remove(member_id)

    def _subscription(self, join: e.SendJoin) -> bytes:
        gone = frozenset(u for u in self.warming.listed if any(t not in self.machine.topics for t, _ in u))
        self._cancel(gone)
        self.warming, warmth = self.warming.joining()
        last = messages.LastAssignment(by_topic(join.owned), join.membership.generation)
        data = self.assignor.subscription_with(last, self.machine.topics, None, held=True, warmth=warmth)
        if warmth is not None and self.run.rng.random() < self.run.options.garbled:
            section = warmth_bytes(warmth)
            place = data.index(section) + self.run.rng.randrange(len(section))
            data = data[:place] + bytes([self.run.rng.randrange(256)]) + data[place + 1 :]
            self.run.totals.counts["garbled"] += 1
        return data

    def assigned(self, membership: e.Membership, data: bytes, leader: str, topics: frozenset[str]) -> None:
        if not self.is_alive:
            return
        own = messages.read_assignment(data, leader, topics, self.run.partitions.get)
        partitions = frozenset(own.pairs)
        self.tell(e.Assigned(membership, partitions, self.run.now, fits=not own.findings))
        if membership != self.machine.membership:
            return
        for unit in self.warming.listed:
            if partitions.issuperset(unit) and unit in self.began_at:
                self.run.totals.counts["used" if unit in self.warming.ready else "overtaken"] += 1
                self.run.totals.warmed_s += self.run.now - self.began_at.pop(unit)
        self.warming, gone = self.warming.assigned(membership.generation, own.warm, partitions)
        self._forget(gone)
        self._begin()
        self._report(now=self.warming.is_warm)

    def _cancel(self, gone: frozenset[Unit]) -> None:
        self.warming = self.warming.without(gone)
        self._forget(gone)

    def _forget(self, gone: frozenset[Unit]) -> None:
        for unit in gone & self.began_at.keys():
            seconds = self.run.now - self.began_at.pop(unit)
            self.run.totals.counts["thrown away"] += 1
            self.run.totals.thrown_away_s += seconds
            self.run.totals.warmed_s += seconds
        for unit in self.warming.cancelled:
            self.run.after(self.run.delay(), partial(self._ended, unit))

    def _begin(self) -> None:
        self.warming, begun = self.warming.begin()
        if len(self.warming.running) > self.warming.max_warming:
            raise Broken(f"{self.name} warms too many at a time")
        for unit in begun:
            self.began_at[unit] = self.run.now
            self.run.totals.counts["begun"] += 1
            took = self.run.rng.choice((0.0, 5 * self.run.rng.random(), 5.0, 30.0))
            self.run.after(took, partial(self._returned, unit))

    def _returned(self, unit: Unit) -> None:
        if unit not in self.warming.cancelled:
            self._ended(unit)

    def _ended(self, unit: Unit) -> None:
        if self.is_alive and unit in self.warming.running:
            self.warming = self.warming.ended(unit)
            self._begin()
            self._report(now=self.warming.is_warm)

    def _report(self, *, now: bool) -> None:
        if not self.warming.unreported:
            return
        if now:
            if not self.machine.join.is_under_way:  # Its assignment may have no need of the report.
                self.tell(e.RejoinRequested("partitions are warm"))
        elif not self.reports_soon:
            self.reports_soon = True
            self.run.after(COALESCE_S, self._report_later)

    def _report_later(self) -> None:
        self.reports_soon = False
        self._report(now=True)

    def drain(self) -> None:
        self.warming = replace(self.warming, draining=True)
        self.tell(e.RejoinRequested("this member drains"))


@dataclass
class Joined:
    """A member in the coordinator."""

    process: Process
    join: e.SendJoin
    topics: frozenset[str]
    data: bytes
    is_joining: bool = True

    def news(self) -> Member:
        """What the member tells its leader, but for what that has told it."""
        member = decode_member(self.process.assignor.strategy, "", self.data)
        warmth = member.warmth and replace(member.warmth, generation=0, plan=0, warming={})
        return replace(member, generation=0, warmth=warmth)


class Coordinator:
    """A classic group; a join waits for all members without a limit."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.members: dict[str, Joined] = {}
        self.generation = 0
        self.leader = ""
        self.outcome: messages.EncodedAssignments | None = None
        self._is_preparing = False
        self._ids = 0
        self._syncing: list[tuple[str, e.Membership]] = []

    def join(self, process: Process, join: e.SendJoin, topics: frozenset[str], data: bytes) -> None:
        if not process.is_alive:
            return
        member_id = join.membership.member_id
        if member_id and member_id not in self.members:
            self._answer(process, e.JoinFailed(join.attempt, e.MembershipError.UNKNOWN_MEMBER_ID))
            return
        if not member_id:
            self._ids += 1
            member_id = f"{process.name}-{self._ids}"
        before = self.members.get(member_id)
        self.members[member_id] = now = Joined(process, join, topics, data)
        begins = not self._is_preparing and before is not None
        if begins and before.news() == now.news() and not self._run.options.garbled:
            raise Broken(f"{process.name} has nothing new to tell, and joins: {join.reason}")
        self._prepare()

    def remove(self, member_id: str) -> None:
        if self.members.pop(member_id, None) is not None and self.members:
            self._prepare()

    def _prepare(self) -> None:
        if not self._is_preparing:
            self._is_preparing = True
            for member_id, membership in self._syncing:
                self._fail_sync(member_id, membership)
            self._syncing = []
            for member_id in self.members:
                self._tell_of_rebalance(member_id)
        if all(member.is_joining for member in self.members.values()):
            self._complete()

    def _tell_of_rebalance(self, member_id: str) -> None:
        """The answers to its heartbeats, until it joins."""

        expires_at = self._run.now + SESSION_S

        def heartbeat() -> None:
            member = self.members.get(member_id)
            if member is None or member.is_joining or not self._is_preparing:
                return
            membership, error = member.process.machine.membership, e.MembershipError.REBALANCE_IN_PROGRESS
            if membership.member_id == member_id and member.process.is_alive:
                member.process.tell(e.HeartbeatAnswered(membership, error, self._run.now))
            elif self._run.now > expires_at:
                self.remove(member_id)
                return
            self._run.after(0.05, heartbeat)

        self._run.after(self._run.delay(), heartbeat)

    def _complete(self) -> None:
        self.generation += 1
        self._run.generations += 1
        self._is_preparing, self.outcome = False, None
        if self.leader not in self.members or self._run.rng.random() < 0.2:
            self.leader = self._run.rng.choice(sorted(self.members))
        for member_id, member in self.members.items():
            member.is_joining = False
            joined = e.Joined(member.join.attempt, e.Membership(member_id, self.generation))
            self._answer(member.process, joined)
            self._run.after(SESSION_S, partial(self._expire, member_id))

    def _expire(self, member_id: str) -> None:
        """No heartbeat comes any more for a member that its process has given up."""
        member = self.members.get(member_id)
        if member is not None and not member.is_joining and member.process.member_id != member_id:
            self.remove(member_id)

    def sync(self, process: Process, membership: e.Membership) -> None:
        member_id = membership.member_id
        if not process.is_alive or member_id not in self.members:
            return
        if membership.generation != self.generation or self._is_preparing:
            self._fail_sync(member_id, membership)
            return
        self._syncing.append((member_id, membership))
        if member_id == self.leader and self.outcome is None:
            self.outcome = self._lead(process)
        if self.outcome is not None:
            for waiting, its_membership in self._syncing:
                member = self.members[waiting]
                data = self.outcome.assignments[waiting]
                answer = (its_membership, data, self.leader, member.topics)
                process_of = member.process
                self._run.after(self._run.delay(), lambda to=process_of, answer=answer: to.assigned(*answer))
            self._syncing = []

    def _lead(self, process: Process) -> messages.EncodedAssignments:
        joined = [messages.JoinedMember(id, None, one.data) for id, one in sorted(self.members.items())]
        members = messages.read_members(process.assignor.strategy, joined)
        topics = self._run.topics_of(members.topics)
        outcome = messages.encode_assignments(process.assignor.strategy, members, topics, self.generation)
        self._run.check_outcome(outcome)
        return outcome

    def _fail_sync(self, member_id: str, membership: e.Membership) -> None:
        failed = e.SyncFailed(membership, e.MembershipError.REBALANCE_IN_PROGRESS)
        self._answer(self.members[member_id].process, failed) if member_id in self.members else None

    def _answer(self, process: Process, event: e.Event) -> None:
        self._run.after(self._run.delay(), lambda: process.tell(event))


class Run:
    """One group, from its first member to the last rest."""

    def __init__(self, seed: int, options: Options, totals: Totals) -> None:
        self.rng = random.Random(seed)
        self.options, self.totals = options, totals
        self.now = 0.0
        self.generations = 0
        self.partitions = {f"t{n}": self.rng.randint(1, 20) for n in range(self.rng.randint(2, 3))}
        if options.strategy == "copartitioned":
            self.partitions["t1"] = self.partitions["t0"]
        self.processes: list[Process] = []
        self._queue: list[tuple[float, int, Callable[[], object]]] = []
        self._number = 0
        self._last_facts: object = None
        self._last_target: Mapping[tuple[str, int], str] = {}
        self.coordinator = Coordinator(self)

    def after(self, seconds: float, what: Callable[[], object]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now + seconds, self._number, what))

    def delay(self) -> float:
        return self.rng.choice((0.001, 0.002, 0.005, 0.02, 0.2 * self.rng.random()))

    def topics_of(self, names: frozenset[str]) -> list[Topic]:
        noise, topics = self.options.noise, []
        for name in sorted(names & self.partitions.keys()):
            base = random.Random(name)
            weights = [
                int(1000 * base.paretovariate(1.5) * (1 + noise * (2 * self.rng.random() - 1)))
                for _ in range(self.partitions[name])
            ]
            topics.append(Topic(name, len(weights), weights=tuple(weights) if noise else None))
        return topics

    def play(self) -> None:
        for _ in range(3):
            self._add()
        self._rest()
        for _ in range(self.options.changes):
            self.generations, begun = 0, self.totals.counts["begun"]
            count = self.rng.randint(1, self.options.burst)
            for left in reversed(range(count)):
                self._change()
                self._until(self.now + self.rng.choice((0.0, 0.05, 1.0, 4.0)) if left else float("inf"))
            self._rest()
            if count == 1:
                self.totals.generations.append((self.generations, self.totals.counts["begun"] - begun))
            for process in self._living():
                if process.warming.draining and not process.machine.owned:
                    process.tell(e.CloseRequested())
            self._rest()

    def _until(self, end: float) -> None:
        for _ in range(MOST_EVENTS):
            if not self._queue or self._queue[0][0] > end:
                self.now = max(self.now, end) if end != float("inf") else self.now
                return
            self.now, _, what = heapq.heappop(self._queue)
            what()
        raise Broken(f"no rest in generation {self.coordinator.generation}")

    # ---- changes

    def _living(self) -> list[Process]:
        return [one for one in self.processes if one.is_alive and not one.machine.closing]

    def _add(self) -> None:
        topics = frozenset(self.partitions)
        if self.options.strategy != "copartitioned" and self.rng.random() < 0.2:
            topics = frozenset(self.rng.sample(sorted(topics), len(topics) - 1))
        most = self.options.max_warming if self.rng.random() < self.options.with_callback else 0
        self.processes.append(Process(self, f"m{len(self.processes):03}", topics, most))

    def _change(self) -> None:
        living = [one for one in self._living() if not one.warming.draining]
        what = self.rng.choice(("join", "join", "leave", "die", "drain", "expel", "subscribe"))
        self.totals.counts[what] += 1
        if len(living) < 2 or (what == "join" and len(living) < 9):
            self._add()
            return
        process = self.rng.choice(living)
        match what:
            case "leave":
                process.tell(e.CloseRequested())
            case "die":
                process.is_alive = False
                self.after(3 * self.rng.random(), lambda: self._remove(process))
            case "drain":
                process.drain()
            case "expel" if process.machine.in_group:
                membership = process.machine.membership
                self.coordinator.remove(membership.member_id)
                error = e.MembershipError.UNKNOWN_MEMBER_ID
                process.tell(e.HeartbeatAnswered(membership, error, self.now))
            case "subscribe" if self.options.strategy != "copartitioned":
                names = self.rng.sample(sorted(self.partitions), self.rng.randint(1, len(self.partitions)))
                process.tell(e.SubscriptionChanged(frozenset(names)))

    def _remove(self, process: Process) -> None:
        for member_id in [id for id, one in self.coordinator.members.items() if one.process is process]:
            self.coordinator.remove(member_id)

    # ---- checks

    def check_owners(self) -> None:
        owner: dict[tuple[str, int], str] = {}
        for process in self.processes:
            if process.is_alive:
                for partition in process.machine.deliverable:
                    if partition in owner:
                        raise Broken(f"{partition} has two owners, {owner[partition]} and {process.name}")
                    owner[partition] = process.name

    def check_outcome(self, outcome: messages.EncodedAssignments) -> None:
        group, result = outcome.group, outcome.result
        target, now = _owners(result.target.members), _owners(result.assignment.members)
        waiting = {partition for some in result.withheld.values() for partition in pairs(some)}
        claims = {
            (member.id, partition) for member in group.members.values() for partition in pairs(member.owned)
        }
        owners = _owners(group.claims.owners)
        for partition, wants in target.items():
            has = now.get(partition)
            owner, warmth = owners.get(partition), group.members[wants].warmth
            if (
                partition in waiting
                and owner is not None
                and not group.members[owner].revoked
                and (warmth is not None and warmth.max_warming)
                and partition[1] not in warmth.ready.get(partition[0], ())
                and self.options.strategy != "copartitioned"  # A unit of several owners is not held.
            ):
                raise Broken(f"{owner} gives {partition} up before {wants} is ready")
            if partition in waiting or has == wants:
                continue
            if has is None:
                raise Broken(f"{partition} is free, and no member gets it")
            warmth = group.members[has].warmth
            is_heir = warmth is not None and partition[1] in warmth.ready.get(partition[0], ())
            if (has, partition) not in claims and not is_heir:
                raise Broken(f"{partition} is held by {has}, which does not own it")
            if not group.members[wants].warmth or not group.members[wants].warmth.max_warming:
                raise Broken(f"{partition} is held although {wants} needs no warm-up")
            self.totals.counts["held"] += 1
        if self.options.strategy == "copartitioned":
            for number in range(self.partitions["t0"]):
                if now.get(("t0", number)) != now.get(("t1", number)):
                    raise Broken(f"partition {number} of t0 and of t1 have two owners")
        facts = {
            (one.id, one.topics, one.data, one.warmth and (one.warmth.max_warming, one.warmth.draining))
            for one in group.members.values()
        }
        if facts == self._last_facts:
            for member in group.members.values():
                for partition in pairs(member.warmth.warming) if member.warmth else ():
                    if self._last_target.get(partition) == member.id != target[partition]:
                        self.totals.counts["changed"] += 1
        self._last_facts, self._last_target = facts, target

    def _rest(self) -> None:
        self._until(float("inf"))
        living = self._living()
        owners = Counter(partition for one in living for partition in one.machine.deliverable)
        subscribed = {topic for one in living for topic in one.machine.topics}
        wanted = {(t, n) for t, count in self.partitions.items() if t in subscribed for n in range(count)}
        if owners != Counter(wanted):
            raise Broken(f"at rest {wanted - owners.keys()} have no owner")
        outcome = self.coordinator.outcome
        if not living or outcome is None:
            return
        if self.options.garbled:
            return  # What is garbled at rest stays so until the next join.
        if busy := [one.name for one in living if one.warming.listed or one.warming.running]:
            raise Broken(f"at rest {busy} still warm something")
        if _owners(outcome.result.target.members) != _owners(outcome.result.assignment.members):
            raise Broken("at rest the group is not on its target")
        if not self.options.noise:
            self._check_optimum(outcome)

    def _check_optimum(self, outcome: messages.EncodedAssignments) -> None:
        """The strategy leaves the owners as they are."""
        joined = self.coordinator.members
        stay = [one for one in joined.values() if not one.process.warming.draining]
        others = {topic for one in stay for topic in one.process.machine.topics}
        owning = {
            t for one in joined.values() if one.process.machine.owned for t in one.process.machine.topics
        }
        members = []
        for member_id, one in joined.items():
            machine = one.process.machine
            topics = machine.topics
            if one.process.warming.draining:
                topics -= others if machine.owned else others | owning
            data, owned = outcome.group.members[member_id].data, by_topic(machine.owned)
            members.append(
                Member(member_id, topics, owned=owned, generation=self.coordinator.generation, data=data)
            )
        group = Group.of(self.topics_of(frozenset(self.partitions)), members)
        strategy = joined[self.coordinator.leader].process.assignor.strategy
        if _owners(strategy.assign(group).members) != _owners({one.id: one.owned for one in members}):
            raise Broken("at rest the strategy would move partitions")


def _owners(shares: Mapping[str, TopicPartitions]) -> dict[tuple[str, int], str]:
    return {partition: member_id for member_id, share in shares.items() for partition in pairs(share)}


def simulate(runs: range, options: Options) -> Totals:
    """Play these runs; `Broken` names the seed."""
    totals = Totals()
    for seed in runs:
        try:
            Run(seed, options, totals).play()
        except Broken as broken:
            raise Broken(f"{options}, seed {seed}: {broken}") from None
    return totals


def main(runs: int) -> None:
    for name in STRATEGIES:
        for options in (Options(name), Options(name, burst=4), Options(name, burst=4, garbled=0.3)):
            found = simulate(range(runs), options)
            kept = 1 - found.thrown_away_s / max(1, found.warmed_s)
            print(f"{options}: {dict(found.counts)}, {kept:.1%} of the time spent on warm-ups was of use")


if __name__ == "__main__":
    main(int(sys.argv[1]))
