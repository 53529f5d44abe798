"""Breadth-first exploration of a model. It checks the properties in every state and at rest.

A state is stored as a few numbers: that of the coordinator's form and those of the processes' forms
(`canonical.py`). A step of a process depends on a small part of the coordinator (`Known`). The coordinator's
response depends only on the request, and its effect on another process only on what that process waits for.
Each of these is computed once, and looked up in every state with the same parts: the machine runs once for
many states.
"""

from __future__ import annotations

import functools
import math
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kafka_assignors.rebalance.events import Partitions, Revoke
from kafka_assignors.rebalance.member import MemberState, OutOfOrderError
from tests.rebalance_model import canonical
from tests.rebalance_model.coordinator import Coordinator, Replies
from tests.rebalance_model.model import Arrival, Model, Told
from tests.rebalance_model.world import (
    NAMES,
    NOTHING,
    NOW,
    JavaMember,
    Known,
    Process,
    Request,
    Violation,
    World,
    received,
)

Parts: TypeAlias = tuple[int, ...]

BITS = 20
MASK = (1 << BITS) - 1
"""The mask of one number in a state's key: the coordinator's number, then each process's, BITS bits each."""


@dataclass
class Found:
    """A violated property, with a shortest trace that leads to it."""

    what: str
    trace: list[str]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:2}. {label}" for number, label in enumerate(self.trace, 1))
        return f"{self.what}\n{steps}"


@dataclass
class Result:
    """The result of an exploration.

    `complete` means that every state within `disturbances` was explored; `fixpoint` means that more
    disturbances reach no further states. `depth` counts disturbances if they are bounded, else steps.
    """

    disturbances: int | None = None
    states: int = 0
    steps: int = 0
    depth: int = 0
    complete: bool = False
    fixpoint: bool = False
    found: Found | None = None
    rest_states: int = 0
    rounds: Counter[int] = field(default_factory=Counter)
    cpu_seconds: float = 0.0


def is_told_late(process: Process) -> bool:
    """Whether the listener is told of a revocation that has already happened."""
    member = process.member
    return (
        member is not None
        and member.call is not None
        and isinstance(member.call.asked, Revoke)
        and not member.call.asked.partitions <= member.owned
    )


def delivered(process: Process) -> Partitions:
    member = process.member
    if member is None:
        return NOTHING
    # A Java-like member delivers without a lease; the rule applies to it only while it would have one.
    lease = MemberState.has_lease(member, NOW) if isinstance(member, JavaMember) else member.has_lease(NOW)
    return member.deliverable if lease else NOTHING


def check_rest(world: World) -> None:
    """Check the properties of a state at rest, in which no step happens by itself any more."""
    members: list[MemberState] = [process.member for process in world.processes if process.member is not None]
    owners: Counter[tuple[str, int]] = Counter()
    for member in members:
        if not member.has_lease(NOW):
            raise Violation("at rest a member has no lease")
        if member.membership.generation != world.coordinator.generation:
            raise Violation("at rest a member is in an old generation")
        owners.update(member.deliverable)
    if any(process.warm.listed or process.warm.running for process in world.processes):
        raise Violation("at rest a member still warms a partition")
    staying = [one.member for one in world.processes if one.member is not None and not one.warm.draining]
    taken_over = frozenset[str]().union(*(member.topics for member in staying))
    for process in world.processes:
        kept = process.member.owned if process.member is not None and process.warm.draining else ()
        if any(topic in taken_over for topic, _ in kept):
            raise Violation("at rest a member that drains keeps a partition")
    for topic in frozenset().union(*(member.topics for member in members)):
        if owners[topic, 0] != 1:
            raise Violation(f"at rest {topic} has {owners[topic, 0]} owners")
    are_open = (member.commits.waiting or member.commits.is_under_way for member in members)
    if any(process.commit is not None for process in world.processes) or any(are_open):
        raise Violation("at rest a commit is still open")


Value = TypeVar("Value")


class Numbers(Generic[Value]):
    """Values, numbered in the order in which they were first seen."""

    def __init__(self) -> None:
        self.of: dict[Value, int] = {}
        self.values: list[Value] = []

    def number(self, value: Value) -> int:
        number = self.of.setdefault(value, len(self.values))
        if number == len(self.values):
            if number > MASK:
                raise OverflowError(f"more than {MASK:,} different {type(value).__name__}: raise BITS")
            self.values.append(value)
        return number


class Move(NamedTuple):
    """A step of a process before the coordinator responds, in numbers. 0: no request, or no effect."""

    process: int
    request: int
    effect: int
    settling: bool
    disturbance: bool
    label: str


class Came(NamedTuple):
    """What the coordinator does with a request, in numbers. 0: no immediate response, or no mail."""

    coordinator: int
    told: int = 0
    mail: int = 0
    round: bool = False
    change: bool = False


class Arrow(NamedTuple):
    """A whole step, in numbers. `effect` is 0 if the step does nothing to other processes."""

    coordinator: int
    process: int
    effect: int
    settling: bool
    round: bool
    change: bool
    disturbance: bool
    label: str


class Exploration:
    """An exploration; states are numbered in the order in which they were found."""

    def __init__(self, model: Model, reduce: bool = True) -> None:
        self.model = model
        self.reduce = reduce
        self._indices = range(model.members)
        self._coordinators: Numbers[Coordinator] = Numbers()
        self._processes: Numbers[Process] = Numbers()
        self._views: Numbers[canonical.View] = Numbers()
        self._names: Numbers[canonical.Names] = Numbers()
        self._names.number(canonical.Names())
        self._effects: Numbers[tuple[Replies, Partitions]] = Numbers()
        self._effects.number(((), NOTHING))
        self._knowns: Numbers[Known] = Numbers()
        self._requests: Numbers[Request | None] = Numbers()
        self._requests.number(None)
        self._tolds: Numbers[Told | None] = Numbers()
        self._tolds.number(None)
        self._view_of: list[int] = []
        self._delivers: list[int] = []
        # Tables of computed results.
        self._known = functools.cache(self._compute_known)
        self._moves = functools.cache(self._compute_moves)
        self._came = functools.cache(self._compute_came)
        self._told = functools.cache(self._compute_told)
        self._receive = functools.cache(self._compute_received)
        self._arrows = functools.cache(self._compute_arrows)
        self._own_arrows = functools.cache(self._compute_own_arrows)
        self._age = functools.cache(self._compute_aged)
        self._age_coordinator = functools.cache(self._compute_aged_coordinator)
        self._form = functools.cache(self._compute_form)
        self._rename = functools.cache(self._compute_renamed)
        # States.
        self._numbers: dict[int, int] = {}
        self._keys: list[int] = []
        self._parents = array("q")
        self._settling = array("q")
        """For each settling step: 4 times the next state's number, plus 2 for a round and 1 for a change."""
        self._settling_ends = array("q")

    def run(
        self,
        max_depth: int | None = None,
        max_states: int | None = None,
        max_cpu_seconds: float = math.inf,
        max_disturbances: int | None = None,
    ) -> Result:
        """Explore until the fixpoint, a limit or a violated property.

        `max_depth` counts steps. `max_disturbances` bounds the disturbances instead: the exploration visits
        all states that this many of them can lead to, with any number of other steps.
        """
        began = time.process_time()
        result = Result(disturbances=max_disturbances)
        try:
            result.complete = self._explore(result, max_depth, max_states, began + max_cpu_seconds)
            if result.complete:
                result.rounds = self._rounds()
        except Failed as failed:
            result.complete = False
            result.found = Found(failed.what, self._trace(failed.state, failed.label))
        result.states = len(self._keys)
        result.cpu_seconds = time.process_time() - began
        return result

    def _explore(self, result: Result, max_depth: int | None, max_states: int | None, until: float) -> bool:
        """Whether every state within the number of disturbances was explored."""
        start = self.model.start()
        processes = [self._process(one) for one in start.processes]
        self._add(self._key(self._coordinators.number(start.coordinator), processes), -1, "")
        waiting: dict[int, int] = {}  # states one disturbance further, and the states that lead to them
        level_end, at = 1, 0
        while True:
            if result.disturbances is None and at == level_end:
                result.depth += 1
                level_end = len(self._keys)
                if result.depth == max_depth:
                    return False
            if at == len(self._keys):
                new = {key: parent for key, parent in waiting.items() if key not in self._numbers}
                waiting = {}
                if not new:
                    result.fixpoint = result.disturbances is None or result.depth < result.disturbances
                    return True
                result.depth += 1
                for key, parent in new.items():
                    self._add(key, parent, "")
            result.states = len(self._keys)
            if max_states is not None and at >= max_states:
                return False
            if at % 1000 == 0 and time.process_time() > until:
                return False
            at_rest = True
            for arrow, key in self._successors(at):
                result.steps += 1
                number = self._numbers.get(key)
                if number is None:
                    if arrow.disturbance and result.disturbances is not None:
                        if result.depth < result.disturbances:
                            waiting.setdefault(key, at)
                        continue
                    number = self._add(key, at, arrow.label)
                if arrow.settling and number != at:
                    at_rest = False
                    self._settling.append(number << 2 | arrow.round << 1 | arrow.change)
            self._settling_ends.append(len(self._settling))
            if at_rest:
                result.rest_states += 1
                try:
                    check_rest(self._world(at))
                except Violation as error:
                    raise Failed(f"Violation: {error}", at, "rest") from error
            at += 1

    def _successors(self, state: int) -> Iterator[tuple[Arrow, int]]:
        coordinator, *processes = self._parts(self._keys[state])
        try:
            for index in self._indices:
                for arrow in self._arrows(index, coordinator, processes[index]):
                    after = processes.copy()
                    if arrow.effect:
                        for other in self._indices:
                            after[other] = self._receive(arrow.effect, other, after[other])
                    after[index] = arrow.process
                    yield arrow, self._key(arrow.coordinator, after)
            for arrow in self._own_arrows(coordinator):
                after = processes
                if arrow.effect:
                    after = [self._receive(arrow.effect, other, processes[other]) for other in self._indices]
                yield arrow, self._key(arrow.coordinator, after)
        except Broken as error:
            raise Failed(f"{error}", state, error.label) from error
        if "time" in self.model.events:
            key = self._key(self._age_coordinator(coordinator), list(map(self._age, processes)))
            if key != self._keys[state]:
                yield TICK, key

    # ------------------------------------------------------------------------------------------- tables

    def _compute_known(self, index: int, coordinator: int) -> int:
        return self._knowns.number(self.model.known(self._coordinators.values[coordinator], index))

    def _compute_moves(self, known: int, process: int) -> list[Move]:
        steps = self.model.process_steps(self._knowns.values[known], self._processes.values[process])
        return [
            Move(
                self._process(step.here.process),
                self._requests.number(step.request),
                self._effects.number(((), step.here.installed)),
                step.settling,
                step.disturbance,
                step.label,
            )
            for step in steps
        ]

    def _compute_came(self, coordinator: int, request: int) -> Came:
        sent = self._requests.values[request]
        assert sent is not None
        return self._in_numbers(self.model.arrive(self._coordinators.values[coordinator], sent))

    def _in_numbers(self, arrival: Arrival) -> Came:
        return Came(
            self._coordinators.number(arrival.coordinator),
            self._tolds.number(arrival.told),
            self._effects.number((arrival.mail, NOTHING)),
            arrival.round,
            arrival.change,
        )

    def _compute_told(self, index: int, process: int, told: int) -> int:
        what = self._tolds.values[told]
        assert what is not None
        return self._process(self.model.told(index, self._processes.values[process], what))

    def _compute_received(self, effect: int, index: int, process: int) -> int:
        mail, installed = self._effects.values[effect]
        return self._process(received(self._processes.values[process], index, mail, installed))

    def _compute_arrows(self, index: int, coordinator: int, process: int) -> list[Arrow]:
        arrows = []
        label = "this happens at once"
        try:
            for move in self._moves(self._known(index, coordinator), process):
                label = move.label
                mine, came = move.process, Came(coordinator)
                if move.request:
                    came = self._came(coordinator, move.request)
                if came.told:
                    told = self._tolds.values[came.told]
                    assert told is not None
                    label = f"{label}: {told.answer.name}"
                    mine = self._told(index, mine, came.told)
                mine = self._receive(came.mail, index, mine)
                mail, _ = self._effects.values[came.mail]
                _, installed = self._effects.values[move.effect]
                effect = self._effects.number((mail, installed))
                kinds = move.settling, came.round, came.change, move.disturbance
                arrows.append(Arrow(came.coordinator, mine, effect, *kinds, label))
        except (Violation, OutOfOrderError) as error:
            raise Broken(f"{type(error).__name__}: {error}", label) from error
        return arrows

    def _compute_own_arrows(self, coordinator: int) -> list[Arrow]:
        arrows = []
        for step in self.model.coordinator_steps(self._coordinators.values[coordinator]):
            came = self._in_numbers(step.arrival)
            kinds = step.settling, came.round, came.change, False
            arrows.append(Arrow(came.coordinator, 0, came.mail, *kinds, step.label))
        return arrows

    def _process(self, process: Process) -> int:
        form = canonical.plain_process(process, self.model.oldest)
        number = self._processes.number(canonical.reduced_process(form) if self.reduce else form)
        if number == len(self._view_of):
            form = self._processes.values[number]
            self._view_of.append(self._views.number(canonical.view(form)))
            topics = sorted(self.model.topics)
            bits = sum(1 << topics.index(topic) for topic, _ in delivered(form))
            self._delivers.append(-1 if is_told_late(form) else bits)
        return number

    def _compute_aged(self, process: int) -> int:
        return self._process(self.model.older_process(self._processes.values[process]))

    def _compute_aged_coordinator(self, coordinator: int) -> int:
        return self._coordinators.number(self.model.older_coordinator(self._coordinators.values[coordinator]))

    def _compute_renamed(self, process: int, names: int) -> int:
        return self._process(
            canonical.rename_process(self._processes.values[process], self._names.values[names])
        )

    # ------------------------------------------------------------------------------------------- states

    def _key(self, coordinator: int, processes: list[int]) -> int:
        seen = (coordinator, *[self._view_of[one] for one in processes])
        coordinator, names = self._form(seen)
        if any(names):
            processes = list(map(self._rename, processes, names))
        for process in processes:
            coordinator = coordinator << BITS | process
        return coordinator

    def _compute_form(self, seen: Parts) -> tuple[int, Parts]:
        views = tuple(self._views.values[one] for one in seen[1:])
        group, names = canonical.canonical_coordinator(
            self._coordinators.values[seen[0]], views, self.reduce, self.model.late_refusals
        )
        return self._coordinators.number(group), tuple(map(self._names.number, names))

    def _add(self, key: int, parent: int, label: str) -> int:
        """Number a new state. Raises `Failed` if the state violates a property."""
        processes = self._parts(key)[1:]
        taken = 0
        for number in processes:
            taken_here = self._delivers[number]
            if taken & taken_here or taken_here < 0:
                what = f"Violation: {self._violation(processes)}"
                raise Failed(what, parent, label or self._label(parent, key))
            taken |= taken_here
        number = self._numbers[key] = len(self._keys)
        self._keys.append(key)
        self._parents.append(parent)
        return number

    def _violation(self, processes: Parts) -> str:
        owned = [delivered(self._processes.values[one]) for one in processes]
        for at, one in enumerate(owned):
            if is_told_late(self._processes.values[processes[at]]):
                return f"{NAMES[at]}'s listener is told of a revocation that has already happened"
            for other in range(at + 1, len(owned)):
                if both := one & owned[other]:
                    topics = "+".join(topic for topic, _ in sorted(both))
                    return f"{NAMES[at]} and {NAMES[other]} both deliver {topics}"
        raise AssertionError("nothing is wrong")

    def _parts(self, key: int) -> Parts:
        """The number of the coordinator, then the numbers of the processes."""
        places = reversed(range(self.model.members + 1))
        return tuple(key >> BITS * place & MASK for place in places)

    def _world(self, state: int) -> World:
        coordinator, *processes = self._parts(self._keys[state])
        return World(
            self._coordinators.values[coordinator], tuple(self._processes.values[one] for one in processes)
        )

    def worlds(self) -> Iterator[World]:
        """All states that were found."""
        return (self._world(state) for state in range(len(self._keys)))

    def find(self, world: World) -> int:
        """The number of a state. Raises KeyError if the state was not found."""
        processes = [self._process(one) for one in world.processes]
        return self._numbers[self._key(self._coordinators.number(world.coordinator), processes)]

    def _label(self, parent: int, key: int) -> str:
        return next(arrow.label for arrow, after in self._successors(parent) if after == key)

    def _trace(self, state: int, label: str) -> list[str]:
        """The labels of the steps to a state; storing them would take too much memory."""
        labels = [label]
        while (parent := self._parents[state]) >= 0:
            labels.append(self._label(parent, self._keys[state]))
            state = parent
        return labels[::-1]

    def _rounds(self) -> Counter[int]:
        """For each state, the most rounds between the last change and rest, over all paths.

        A path consists of settling steps. Rounds before the last change of a path do not count. Raises
        `Failed` on a cycle.
        """
        count, edges, ends = len(self._keys), self._settling, self._settling_ends
        cursor = array("q", [0]) + ends[:-1]
        known, on_path = bytearray(count), bytearray(count)
        plain, after_change = (array("b", bytes(count)), array("b", b"\xff" * count))  # -1: no such path
        for state in range(count):
            if cursor[state] < ends[state]:
                plain[state] = -1
        for root in range(count):
            path = [] if known[root] else [root]
            while path:
                state = path[-1]
                on_path[state] = 1
                if cursor[state] == ends[state]:
                    known[state], on_path[state] = 1, 0
                    path.pop()
                    continue
                edge = edges[cursor[state]]
                successor, formed, changed = edge >> 2, edge >> 1 & 1, edge & 1
                if not known[successor]:
                    if on_path[successor]:
                        raise Failed("Violation: the group never settles", state, "and so on")
                    path.append(successor)
                    continue
                cursor[state] += 1
                if plain[successor] >= 0:
                    best = after_change if changed else plain
                    best[state] = max(best[state], plain[successor] + formed)
                after_change[state] = max(after_change[state], after_change[successor])
        return Counter(map(max, plain, after_change))


class Broken(Exception):
    """A step violates a property, in every state that allows the step."""

    def __init__(self, what: str, label: str) -> None:
        super().__init__(what)
        self.label = label


class Failed(Exception):
    """A property is violated in a state, or in a step from that state."""

    def __init__(self, what: str, state: int, label: str) -> None:
        super().__init__(what)
        self.what, self.state, self.label = what, state, label


TICK = Arrow(0, 0, 0, False, False, False, True, "time passes")
