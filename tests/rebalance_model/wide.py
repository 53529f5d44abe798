"""The exploration of `explore.py`, compiled for hundreds of millions of states.

The machine itself computes each result once, as in `explore.py`. Looking the results up is nearly all of the
work, so numba compiles the lookups. If a lookup has no result yet, the compiled code notes the question,
Python answers it, and the affected states are tried again. There are two members: a state is one number of 63
bits. The search does not store the predecessor of a state, so it finds a violated property without a trace;
`explore.py` finds the trace.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kafka_assignors.rebalance.member import OutOfOrderError
from tests.rebalance_model.explore import BITS, MASK, Broken, Exploration, Found, Result, check_rest
from tests.rebalance_model.model import Model
from tests.rebalance_model.world import Violation

Ints: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.int8]

MEMBERS = 2
AT_ONCE = 1 << 16
"""The number of states that are tried before Python computes the missing answers."""
PORTIONS = 256
"""The number of portions in which states are followed to rest, with a progress report after each portion."""
MOST_STEPS = 256
"""The maximum number of steps from one state."""
MOST_ON_PATH = 1 << 16
"""The maximum number of states on one path to rest."""

KNOWN, MOVES, CAME, TOLD, RECEIVED, OWN, AGED, AGED_COORDINATOR, FORM, RENAMED = range(10)
"""The tables of `Exploration` in one: a question is the table and up to three numbers of BITS bits."""
NOTHING_THERE = -1
"""A free slot in a table, or an unknown answer."""

NOT_VISITED, ON_PATH, NO_WAY = -4, -3, -1
"""These values stand in place of a number of rounds."""


class Tables(NamedTuple):
    """All computed results: the answers to questions, and the rows that some answers refer to."""

    questions: Ints
    answers: Ints
    moves: Ints
    own: Ints
    view_of: Ints
    delivers: Ints


class Room(NamedTuple):
    """The buffers for one state: the steps from it, and the questions without an answer."""

    keys: Ints
    said: Bytes
    """Flags of each step. 4: it settles; 2: a generation was formed; 1: the coordinator saw a change."""
    missing: Ints
    """The number of missing questions, followed by the questions."""


class Column:
    """An array of numbers that grows."""

    def __init__(self) -> None:
        self.values = np.zeros(1024, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, values: Iterable[int]) -> None:
        for value in values:
            if self._size == len(self.values):
                self.values = np.concatenate([self.values, np.zeros_like(self.values)])
            self.values[self._size] = value
            self._size += 1


class WideExploration(Exploration):
    """`Exploration` without limits, up to the fixpoint."""

    def __init__(self, model: Model) -> None:
        if model.members != MEMBERS:
            raise ValueError(f"there are {model.members} members, and room for {MEMBERS}")
        super().__init__(model)
        self._questions, self._answers = free(1 << 16), free(1 << 16)
        self._answered = 0
        self._rows_of_moves, self._rows_of_own = Column(), Column()
        self._views_seen, self._delivered = Column(), Column()
        self._room = Room(
            np.zeros(MOST_STEPS, np.int64), np.zeros(MOST_STEPS, np.int8), np.zeros(AT_ONCE, np.int64)
        )
        self._seen = free(1 << 16)
        self._count = 0

    def explore(self, progress: Callable[[Result], None] = lambda result: None) -> Result:
        """Explore until the fixpoint or a violated property."""
        began = time.process_time()
        result = Result()
        try:
            self._reach(result, progress)
            result.complete = result.fixpoint = True
            result.rounds = self._count_rounds(result, progress)
        except (Violation, OutOfOrderError, Broken) as error:
            result.found = Found(f"{error}", [])
        result.cpu_seconds = time.process_time() - began
        return result

    # ------------------------------------------------------------------------------------------- states

    def _reach(self, result: Result, progress: Callable[[Result], None]) -> None:
        start = self.model.start()
        processes = [self._process(one) for one in start.processes]
        level = np.array([self._key(self._coordinators.number(start.coordinator), processes)], np.int64)
        insert(self._seen, level[0])
        self._count = 1
        while len(level):
            result.depth += 1
            result.states = self._count
            progress(result)
            level = np.concatenate([one for keys in _chunks(level) for one in self._beyond(keys, result)])
            level.sort()  # Neighbours share most of their answers, which are in the cache then.

    def _beyond(self, keys: Ints, result: Result) -> Iterator[Ints]:
        """The new states that one step from these states reaches."""
        later, resting, new = np.zeros_like(keys), np.zeros_like(keys), np.zeros(8 * AT_ONCE, np.int64)
        while len(keys):
            if self._count + len(new) > len(self._seen) * 3 // 4:
                self._seen = grown(self._seen)
            tried, tried_later, rests, found, steps, wrong = expand(
                keys, self._tables(), self._room, self._seen, new, resting, later, "time" in self.model.events
            )
            if wrong != NOTHING_THERE:
                raise Violation(self._violation(self._parts(wrong)[1:]))
            result.steps += steps
            result.rest_states += rests
            for key in resting[:rests].tolist():
                self._keys[:] = [key]
                check_rest(self._world(0))
            self._count += found
            yield new[:found].copy()
            self._answer_what_is_missing()
            keys = np.concatenate([later[:tried_later], keys[tried:]])

    def _count_rounds(self, result: Result, progress: Callable[[Result], None]) -> Counter[int]:
        plain = np.full(len(self._seen), NOT_VISITED, np.int8)
        after_change = np.full(len(self._seen), NO_WAY, np.int8)
        states, tables = np.sort(self._seen[self._seen != NOTHING_THERE]), self._tables()
        for settled, portion in enumerate(np.array_split(states, PORTIONS), 1):
            if not settle(portion, self._seen, tables, self._room, plain, after_change):
                raise Violation("the group never settles")
            result.settled = settled / PORTIONS
            progress(result)
        rounds = np.maximum(plain, after_change, out=plain)
        counts = {most: int(np.count_nonzero(rounds == most)) for most in range(rounds.max() + 1)}
        return Counter({most: count for most, count in counts.items() if count})

    # ------------------------------------------------------------------------------------------- tables

    def _tables(self) -> Tables:
        known = len(self._views_seen)
        self._views_seen.extend(self._view_of[known:])
        self._delivered.extend(self._delivers[known:])
        return Tables(
            self._questions,
            self._answers,
            self._rows_of_moves.values,
            self._rows_of_own.values,
            self._views_seen.values,
            self._delivered.values,
        )

    def _answer_what_is_missing(self) -> None:
        missing = self._room.missing
        questions = np.unique(missing[1 : 1 + missing[0]])
        missing[0] = 0
        self._answered += len(questions)
        while 2 * self._answered > len(self._questions):
            old, answers = self._questions, self._answers
            self._questions = grown(old)
            self._answers = moved(old, answers, self._questions)
        for question in questions.tolist():
            numbers = (question >> 2 * BITS & MASK, question >> BITS & MASK, question & MASK)
            self._answers[insert(self._questions, question)] = self._answer(
                question >> 3 * BITS & 15, *numbers
            )

    def _answer(self, table: int, one: int, two: int, three: int) -> int:
        if table == KNOWN:
            return self._compute_known(one, two)
        if table == MOVES:
            return _row(
                self._rows_of_moves,
                (
                    packed(move.process, move.request, move.effect << 1 | move.settling)
                    for move in self._compute_moves(one, two)
                ),
            )
        if table == CAME:
            came = self._compute_came(one, two)
            return packed(came.coordinator, came.mail, came.told << 2 | came.round << 1 | came.change)
        if table == TOLD:
            return self._compute_told(one, two, three)
        if table == RECEIVED:
            return self._compute_received(one, two, three)
        if table == OWN:
            return _row(
                self._rows_of_own,
                (
                    packed(own.coordinator, own.effect, own.settling << 2 | own.round << 1 | own.change)
                    for own in self._compute_own_arrows(one)
                ),
            )
        if table == AGED:
            return self._compute_aged(one)
        if table == AGED_COORDINATOR:
            return self._compute_aged_coordinator(one)
        if table == FORM:
            coordinator, names = self._compute_form((one, two, three))
            return packed(coordinator, *names)
        return self._compute_renamed(one, two)


def packed(one: int, two: int, three: int) -> int:
    return one << 2 * BITS | two << BITS | three


def _row(rows: Column, values: Iterable[int]) -> int:
    begin = len(rows)
    rows.extend(values)
    return begin << BITS | len(rows) - begin


def _chunks(keys: Ints) -> Iterator[Ints]:
    return (keys[begin : begin + AT_ONCE] for begin in range(0, len(keys), AT_ONCE))


# ------------------------------------------------------------------------------------------- sets of numbers


def free(size: int) -> Ints:
    """An empty hash set with `size` slots, a power of two. A number is at or after the slot of its hash."""
    return np.full(size, NOTHING_THERE, np.int64)


@njit
def place(numbers: Ints, number: int) -> int:
    """The slot of the number, or the free slot where it belongs."""
    mask = len(numbers) - 1
    mixed = (np.uint64(number) ^ np.uint64(number) >> np.uint64(31)) * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64(mixed >> np.uint64(32)) & mask
    while numbers[at] != number and numbers[at] != NOTHING_THERE:
        at = at + 1 & mask
    return at


@njit
def insert(numbers: Ints, number: int) -> int:
    """Add the number; return its slot."""
    at = place(numbers, number)
    numbers[at] = number
    return at


@njit
def insert_all(numbers: Ints, into: Ints) -> None:
    for number in numbers:
        if number != NOTHING_THERE:
            insert(into, number)


def grown(numbers: Ints) -> Ints:
    """The same set with twice the slots."""
    wider = free(2 * len(numbers))
    insert_all(numbers, wider)
    return wider


@njit
def moved(old: Ints, values: Ints, new: Ints) -> Ints:
    """The values of the numbers, at the numbers' slots in the new set."""
    there = np.full(len(new), NOTHING_THERE, np.int64)
    for at in range(len(old)):
        if old[at] != NOTHING_THERE:
            there[place(new, old[at])] = values[at]
    return there


# ------------------------------------------------------------------------------------------- steps


@njit
def ask(tables: Tables, room: Room, table: int, one: int, two: int, three: int) -> int:
    """The answer, or NOTHING_THERE; a missing answer is noted in `room`."""
    question = table << 3 * BITS | one << 2 * BITS | two << BITS | three
    at = place(tables.questions, question)
    if tables.questions[at] == NOTHING_THERE:
        room.missing[0] += 1
        room.missing[room.missing[0]] = question
        return NOTHING_THERE
    return tables.answers[at]


@njit
def key_of(tables: Tables, room: Room, coordinator: int, first: int, second: int) -> int:
    """The key of the canonical form of a state; NOTHING_THERE if an answer is missing."""
    if coordinator < 0 or first < 0 or second < 0:
        return NOTHING_THERE
    form = ask(tables, room, FORM, coordinator, tables.view_of[first], tables.view_of[second])
    if form == NOTHING_THERE:
        return NOTHING_THERE
    names = form >> BITS & MASK
    if names:
        first = ask(tables, room, RENAMED, first, names, 0)
    names = form & MASK
    if names:
        second = ask(tables, room, RENAMED, second, names, 0)
    if first < 0 or second < 0:
        return NOTHING_THERE
    return form >> 2 * BITS << 2 * BITS | first << BITS | second


@njit
def receive(tables: Tables, room: Room, effect: int, index: int, process: int) -> int:
    if effect == 0 or process < 0:
        return process
    return ask(tables, room, RECEIVED, effect, index, process)


@njit
def steps_of(key: int, tables: Tables, room: Room, settling_only: bool) -> int:
    """Write the steps from a state into the room; return their number. A step may be NOTHING_THERE."""
    coordinator, first, second = key >> 2 * BITS, key >> BITS & MASK, key & MASK
    count = 0
    for index in range(MEMBERS):
        known = ask(tables, room, KNOWN, index, coordinator, 0)
        row = NOTHING_THERE
        if known != NOTHING_THERE:
            row = ask(tables, room, MOVES, known, second if index else first, 0)
        if row == NOTHING_THERE:
            room.keys[count] = NOTHING_THERE
            count += 1
            continue
        for at in range(row >> BITS, (row >> BITS) + (row & MASK)):
            move = tables.moves[at]
            if settling_only and not move & 1:
                continue
            mine, request, effect = move >> 2 * BITS, move >> BITS & MASK, move >> 1 & MASK >> 1
            other = receive(tables, room, effect, 1 - index, first if index else second)
            after, said = coordinator, 0
            if request:
                after = NOTHING_THERE
                came = ask(tables, room, CAME, coordinator, request, 0)
                if came != NOTHING_THERE:
                    after, mail, said = came >> 2 * BITS, came >> BITS & MASK, came & 3
                    told = came >> 2 & MASK >> 2
                    if told:
                        mine = ask(tables, room, TOLD, index, mine, told)
                    mine = receive(tables, room, mail, index, mine)
                    other = receive(tables, room, mail, 1 - index, other)
            if index:
                room.keys[count] = key_of(tables, room, after, other, mine)
            else:
                room.keys[count] = key_of(tables, room, after, mine, other)
            room.said[count] = (move & 1) << 2 | said
            count += 1
    row = ask(tables, room, OWN, coordinator, 0, 0)
    if row == NOTHING_THERE:
        room.keys[count] = NOTHING_THERE
        count += 1
    else:
        for at in range(row >> BITS, (row >> BITS) + (row & MASK)):
            own = tables.own[at]
            if settling_only and not own & 4:
                continue
            mail = own >> BITS & MASK
            one, other = receive(tables, room, mail, 0, first), receive(tables, room, mail, 1, second)
            room.keys[count] = key_of(tables, room, own >> 2 * BITS, one, other)
            room.said[count] = own & 7
            count += 1
    return count


@njit
def tick(key: int, tables: Tables, room: Room) -> int:
    coordinator = ask(tables, room, AGED_COORDINATOR, key >> 2 * BITS, 0, 0)
    first = ask(tables, room, AGED, key >> BITS & MASK, 0, 0)
    second = ask(tables, room, AGED, key & MASK, 0, 0)
    return key_of(tables, room, coordinator, first, second)


@njit
def expand(
    keys: Ints, tables: Tables, room: Room, seen: Ints, new: Ints, resting: Ints, later: Ints, ticks: bool
) -> tuple[int, int, int, int, int, int]:
    """Take the steps from these states until the room for new states is full.

    Returns the number of states tried, of states to try again (`later`), of states at rest, of `new` states
    and of steps, and a state that violates a property, or NOTHING_THERE.
    """
    tried_later = rests = found = steps = 0
    for tried in range(len(keys)):
        if found + MOST_STEPS > len(new) or room.missing[0] + 8 * MOST_STEPS > len(room.missing):
            return tried, tried_later, rests, found, steps, NOTHING_THERE
        key = keys[tried]
        before = room.missing[0]
        count = steps_of(key, tables, room, False)
        if ticks:
            after = tick(key, tables, room)
            if after != key:
                room.keys[count] = after
                room.said[count] = 0
                count += 1
        if room.missing[0] > before:
            later[tried_later] = key
            tried_later += 1
            continue
        steps += count
        rest = True
        for at in range(count):
            after = room.keys[at]
            if room.said[at] & 4 and after != key:
                rest = False
            where = place(seen, after)
            if seen[where] == NOTHING_THERE:
                one, other = tables.delivers[after >> BITS & MASK], tables.delivers[after & MASK]
                if one < 0 or other < 0 or one & other:
                    return tried, tried_later, rests, found, steps, after
                seen[where] = after
                new[found] = after
                found += 1
        if rest:
            resting[rests] = key
            rests += 1
    return len(keys), tried_later, rests, found, steps, NOTHING_THERE


# ------------------------------------------------------------------------------------------- rounds


@njit
def settle(roots: Ints, seen: Ints, tables: Tables, room: Room, plain: Bytes, after_change: Bytes) -> bool:
    """Count as `Exploration._rounds` does, from these states and all states that they settle into, by slot.

    Returns False if there is a cycle.
    """
    path, cursor = np.zeros(MOST_ON_PATH, np.int64), np.zeros(MOST_ON_PATH, np.int64)
    # The next states of each state on the path, in one array; the `ends` of a state begin the next part.
    to, said = np.zeros(MOST_ON_PATH, np.int64), np.zeros(MOST_ON_PATH, np.int8)
    ends = np.zeros(MOST_ON_PATH, np.int64)
    for key in roots:
        root = place(seen, key)
        if plain[root] != NOT_VISITED:
            continue
        path[1] = root
        depth = 1
        while depth:
            state = path[depth]
            if plain[state] == NOT_VISITED:
                plain[state] = ON_PATH
                free_at = cursor[depth] = ends[depth - 1]
                if max(free_at + MOST_STEPS, depth + 1) >= MOST_ON_PATH:
                    raise OverflowError("a way to rest is too long: raise MOST_ON_PATH")
                for step in range(steps_of(seen[state], tables, room, True)):
                    if room.keys[step] != seen[state]:
                        to[free_at], said[free_at] = place(seen, room.keys[step]), room.said[step]
                        free_at += 1
                ends[depth] = free_at
            at = cursor[depth]
            while at < ends[depth] and plain[to[at]] >= NO_WAY:
                at += 1
            cursor[depth] = at
            if at < ends[depth]:
                if plain[to[at]] == ON_PATH:
                    return False
                depth += 1
                path[depth] = to[at]
                continue
            most = NO_WAY if ends[depth] > ends[depth - 1] else 0
            most_after_change = NO_WAY
            for at in range(ends[depth - 1], ends[depth]):
                rounds = plain[to[at]]
                if rounds >= 0:
                    rounds += said[at] >> 1 & 1
                    if said[at] & 1:
                        most_after_change = max(most_after_change, rounds)
                    else:
                        most = max(most, rounds)
                most_after_change = max(most_after_change, after_change[to[at]])
            plain[state], after_change[state] = most, most_after_change
            depth -= 1
    return True
