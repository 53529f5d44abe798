"""The same exploration with arrays instead of one state after the other, for tens of millions of states.

What leads out of a coordinator with one process is computed as in `explore.py`, once. The looking up, which
is nearly all of the work there, is done here for a million states at a time. There are two members: a state
is one number of 63 bits. Nobody keeps from where a state was reached, so that a property that fails is found
without the story that leads to it; `explore.py` has the story.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.rebalance_model.explore import (
    BITS,
    MASK,
    Arrow,
    Exploration,
    Failed,
    Found,
    Result,
    check_rest,
)
from tests.rebalance_model.world import Model, Violation, World

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

MEMBERS = 2
CHUNK = 1 << 20
"""Of so many states what leads out of them is looked up at once."""


class Column:
    """Integers that are added one by one and read many at a time."""

    def __init__(self) -> None:
        self._values = np.zeros(1024, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, value: int) -> None:
        if self._size == len(self._values):
            self._values = np.concatenate([self._values, np.zeros_like(self._values)])
        self._values[self._size] = value
        self._size += 1

    def __getitem__(self, at: Ints) -> Ints:
        return self._values[at]


class Table:
    """A function of integers that is computed once for each."""

    def __init__(self, compute: Callable[[int], int]) -> None:
        self._compute = compute
        self._known = np.zeros(0, np.int64)
        self._values = np.zeros(0, np.int64)

    def __call__(self, wanted: Ints) -> Ints:
        at, missing = self._find(wanted)
        if missing.any():
            new = np.unique(wanted[missing])
            values = np.array([self._compute(one) for one in new.tolist()], np.int64)
            known = np.concatenate([self._known, new])
            order = np.argsort(known, kind="stable")
            self._known, self._values = known[order], np.concatenate([self._values, values])[order]
            at, _ = self._find(wanted)
        return self._values[at]

    def _find(self, wanted: Ints) -> tuple[Ints, Flags]:
        """Where it is known, and of which it is not."""
        if not len(self._known):
            return np.zeros(len(wanted), np.int64), np.ones(len(wanted), bool)
        at = np.minimum(np.searchsorted(self._known, wanted), len(self._known) - 1)
        return at, self._known[at] != wanted


class Steps(NamedTuple):
    """Steps out of some states: of which of them, where to, and what is said of the step."""

    origin: Ints
    key: Ints
    settling: Flags
    round: Flags
    change: Flags


class Arrows:
    """The arrows of each row, one row after the other."""

    def __init__(self) -> None:
        self._begins, self._ends = Column(), Column()
        self.coordinator, self.process, self.effect, self.said = Column(), Column(), Column(), Column()

    def add(self, arrows: list[Arrow]) -> int:
        """The number of the new row."""
        self._begins.append(len(self.said))
        for arrow in arrows:
            self.coordinator.append(arrow.coordinator)
            self.process.append(arrow.process)
            self.effect.append(arrow.effect)
            self.said.append(arrow.settling << 2 | arrow.round << 1 | arrow.change)
        self._ends.append(len(self.said))
        return len(self._ends) - 1

    def of(self, rows: Ints) -> tuple[Ints, Ints]:
        """All arrows of these rows: the place of the row, and the number of the arrow."""
        begins = self._begins[rows]
        counts = self._ends[rows] - begins
        origin = np.repeat(np.arange(len(rows)), counts)
        first = np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return origin, first + np.arange(len(first))


class WideExploration(Exploration):
    """`Exploration`, to the fixpoint."""

    def __init__(self, model: Model) -> None:
        if model.members != MEMBERS:
            raise ValueError(f"there are {model.members} members, and room for {MEMBERS}")
        super().__init__(model)
        self._rows = Arrows()
        self._rows_of = [Table(self._row_of(index)) for index in self._indices]
        self._own_rows = Table(self._own_row)
        self._views_seen, self._delivered = Column(), Column()
        self._afters = [Table(self._receiver(index)) for index in self._indices]
        self._aged = Table(self._age)
        self._aged_coordinators = Table(self._age_coordinator)
        self._form_rows = Table(self._form_row)
        self._form_coordinators = Column()
        self._form_names = [Column() for _ in self._indices]
        self._names_given = Table(lambda code: self._rename(code >> BITS, code & MASK))

    def explore(self, progress: Callable[[Result], None] = lambda result: None) -> Result:
        """Explore to the fixpoint, or until a property fails."""
        began = time.process_time()
        result = Result()
        try:
            states = self._reach(result, progress)
            result.complete = result.fixpoint = True
            result.rounds = self._rounds_of(states)
        except (Violation, Failed) as error:
            result.found = Found(f"{error}", [])
        result.cpu_seconds = time.process_time() - began
        return result

    # ------------------------------------------------------------------------------------------- states

    def _reach(self, result: Result, progress: Callable[[Result], None]) -> Ints:
        """All states, in the order of their keys."""
        start = self.model.start()
        processes = [self._process(one) for one in start.processes]
        new = np.array([self._key(self._coordinators.number(start.coordinator), processes)], np.int64)
        seen = np.zeros(0, np.int64)
        while len(new):
            self._check(new)
            seen = np.concatenate([seen, new])
            seen.sort(kind="stable")
            result.depth += 1
            result.states = len(seen)
            progress(result)
            found = [self._beyond(chunk, seen, result) for chunk in _chunks(new)]
            new = np.unique(np.concatenate(found))
        return seen

    def _beyond(self, keys: Ints, seen: Ints, result: Result) -> Ints:
        """What leads out of these states, as far as it has not been seen."""
        resting = np.ones(len(keys), bool)
        found = []
        for steps in self._steps(keys):
            result.steps += len(steps.key)
            moving = steps.settling & (steps.key != keys[steps.origin])
            resting[steps.origin[moving]] = False
            reached = np.unique(steps.key)
            at = np.minimum(np.searchsorted(seen, reached), len(seen) - 1)
            found.append(reached[seen[at] != reached])
        for key in keys[resting].tolist():
            result.rest_states += 1
            check_rest(self._world_of(key))
        return np.unique(np.concatenate(found))

    def _check(self, keys: Ints) -> None:
        """Raises Violation if two members deliver a partition, or one is told late."""
        self._catch_up()
        _, one, other = _parts(keys)
        one, other = self._delivered[one], self._delivered[other]
        wrong = np.flatnonzero((one < 0) | (other < 0) | (one & other != 0))
        if len(wrong):
            raise Violation(self._violation(self._parts(int(keys[wrong[0]]))[1:]))

    def _catch_up(self) -> None:
        """Take up what is known of processes that have been numbered meanwhile."""
        for number in range(len(self._views_seen), len(self._view_of)):
            self._views_seen.append(self._view_of[number])
            self._delivered.append(self._delivers[number])

    # -------------------------------------------------------------------------------------------- steps

    def _steps(self, keys: Ints) -> Iterator[Steps]:
        """All steps out of these states, those of one kind at a time."""
        coordinator, *processes = _parts(keys)
        for index in self._indices:
            origin, arrow = self._rows.of(self._rows_of[index](coordinator << BITS | processes[index]))
            after = self._receivers(origin, arrow, processes, skip=index)
            after[index] = self._rows.process[arrow]
            yield self._taken(origin, arrow, after)
        origin, arrow = self._rows.of(self._own_rows(coordinator))
        yield self._taken(origin, arrow, self._receivers(origin, arrow, processes))
        if "time" in self.model.events:
            after = [self._aged(one) for one in processes]
            key = self._forms_of(self._aged_coordinators(coordinator), after)
            origin = np.flatnonzero(key != keys)
            nothing = np.zeros(len(origin), bool)
            yield Steps(origin, key[origin], nothing, nothing, nothing)

    def _taken(self, origin: Ints, arrow: Ints, after: list[Ints]) -> Steps:
        said = self._rows.said[arrow]
        key = self._forms_of(self._rows.coordinator[arrow], after)
        return Steps(origin, key, said & 4 != 0, said & 2 != 0, said & 1 != 0)

    def _receivers(self, origin: Ints, arrow: Ints, processes: list[Ints], skip: int = -1) -> list[Ints]:
        """The processes after what each arrow does to others than `skip`."""
        effect = self._rows.effect[arrow]
        touched = np.flatnonzero(effect)
        after = [one[origin] for one in processes]
        for index in self._indices:
            if index != skip:
                code = effect[touched] << BITS | after[index][touched]
                after[index][touched] = self._afters[index](code)
        return after

    def _forms_of(self, coordinator: Ints, processes: list[Ints]) -> Ints:
        """The keys of states, in their form."""
        self._catch_up()
        code = coordinator
        for process in processes:
            code = code << BITS | self._views_seen[process]
        row = self._form_rows(code)
        key = self._form_coordinators[row]
        for index, process in enumerate(processes):
            names = self._form_names[index][row]
            renamed = np.flatnonzero(names)
            process[renamed] = self._names_given(process[renamed] << BITS | names[renamed])
            key = key << BITS | process
        return key

    # ------------------------------------------------------------------------------------------- tables

    def _row_of(self, index: int) -> Callable[[int], int]:
        def row(code: int) -> int:
            # A state that has the two; what the other process is does not matter.
            key = code >> BITS
            for place in self._indices:
                key = key << BITS | (code & MASK if place == index else 0)
            return self._rows.add(self._compute_arrows(self._remember(key), index))

        return row

    def _own_row(self, coordinator: int) -> int:
        state = self._remember(coordinator << BITS * MEMBERS)
        return self._rows.add(self._compute_own_arrows(state))

    def _remember(self, key: int) -> int:
        """Make it the only state with a number: what the tables are computed from."""
        self._keys[:] = [key]
        return 0

    def _receiver(self, index: int) -> Callable[[int], int]:
        return lambda code: self._receive(code >> BITS, index, code & MASK)

    def _age_coordinator(self, number: int) -> int:
        return self._coordinators.number(self.model.older_coordinator(self._coordinators.values[number]))

    def _form_row(self, code: int) -> int:
        coordinator, names = self._compute_form(self._parts(code))
        self._form_coordinators.append(coordinator)
        for column, number in zip(self._form_names, names, strict=True):
            column.append(number)
        return len(self._form_coordinators) - 1

    def _world_of(self, key: int) -> World:
        return self._world(self._remember(key))

    # ------------------------------------------------------------------------------------------- rounds

    def _rounds_of(self, states: Ints) -> Counter[int]:
        graph = Settling()
        for keys in _chunks(states):
            origins, successors, said = [], [], []
            for steps in self._steps(keys):
                moving = np.flatnonzero(steps.settling & (steps.key != keys[steps.origin]))
                origins.append(steps.origin[moving])
                successors.append(np.searchsorted(states, steps.key[moving]))
                said.append(steps.round[moving] << 1 | steps.change[moving])
            graph.add(len(keys), np.concatenate(origins), np.concatenate(successors), np.concatenate(said))
        return graph.rounds()


class Settling:
    """Which states settle into which, by their numbers."""

    def __init__(self) -> None:
        self._counts: list[NDArray[np.uint8]] = []
        self._successors: list[NDArray[np.uint32]] = []
        self._said: list[NDArray[np.uint8]] = []

    def add(self, states: int, origin: Ints, successor: Ints, said: Ints) -> None:
        """The next states: out of which of them a step leads, where to, and 2 for a round, 1 for a change."""
        order = np.argsort(origin, kind="stable")
        self._counts.append(np.bincount(origin, minlength=states).astype(np.uint8))
        self._successors.append(successor[order].astype(np.uint32))
        self._said.append(said[order].astype(np.uint8))

    def rounds(self) -> Counter[int]:
        """How many states there are by the most rounds after the last change on the way to rest.

        A state is done when all are that it settles into. Each pass does those that can be. Raises Violation
        if a pass finds none: they go round in circles.
        """
        counts = np.concatenate(self._counts)
        successors, said = np.concatenate(self._successors), np.concatenate(self._said)
        waiting = np.flatnonzero(counts)
        counts = counts[waiting]
        # -1: there is no such way.
        plain = np.zeros(sum(map(len, self._counts)), np.int8)
        plain[waiting] = -1
        after_change = np.full(len(plain), -1, np.int8)
        done = np.ones(len(plain), bool)
        done[waiting] = False
        while len(waiting):
            first = np.cumsum(counts, dtype=np.int64) - counts
            ready = np.logical_and.reduceat(done[successors], first)
            if not ready.any():
                raise Violation("the group never settles")
            of_ready = np.repeat(ready, counts)
            to, how = successors[of_ready], said[of_ready]
            rounds = np.where(plain[to] >= 0, plain[to] + (how >> 1), -1).astype(np.int8)
            changed = how & 1 != 0
            first = np.cumsum(counts[ready], dtype=np.int64) - counts[ready]
            plain[waiting[ready]] = np.maximum.reduceat(np.where(changed, -1, rounds), first)
            after_change[waiting[ready]] = np.maximum.reduceat(
                np.maximum(after_change[to], np.where(changed, rounds, -1)), first
            )
            done[waiting[ready]] = True
            successors, said = successors[~of_ready], said[~of_ready]
            waiting, counts = waiting[~ready], counts[~ready]
        rounds, states = np.unique(np.maximum(plain, after_change), return_counts=True)
        return Counter(dict(zip(rounds.tolist(), states.tolist(), strict=True)))


def _parts(keys: Ints) -> list[Ints]:
    """The coordinators' numbers, then those of the processes."""
    return [keys >> BITS * place & MASK for place in reversed(range(MEMBERS + 1))]


def _chunks(keys: Ints) -> Iterator[Ints]:
    for begin in range(0, len(keys), CHUNK):
        yield keys[begin : begin + CHUNK]
