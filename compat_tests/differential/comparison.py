"""Compares the observations of two consumers by a table of allowed differences.

A *cell* is a call in a state. It has several observations (`language`). Each must be the same text for both
consumers, or match one row of the table. A row, state or call in the table that matches no observation is
stale, and fails too.

A call that does not return in time counts as waiting, which may be wrong on a slow machine. Scenarios with an
unexpected result are therefore performed again with ample time, and only the second result counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.differential.language import THE_STATE, Observations, Scenario


@dataclass(frozen=True)
class Difference:
    """A row of a table: an allowed difference, and the reason for it.

    In all texts, `*` matches any text.

    Attributes:
        states, calls, what: where it occurs; every state, call and kind of observation must occur.
        stock, ours: the observation of each consumer.
        reason: why it is allowed.
    """

    states: tuple[str, ...]
    calls: tuple[str, ...]
    what: tuple[str, ...]
    stock: str
    ours: str
    reason: str

    @property
    def sometimes(self) -> bool:
        """Whether it depends on the timing of the stock consumer, so that it may not occur."""
        return self.reason.endswith("*At times.*")


def read_table(client: str) -> tuple[Difference, ...]:
    """The rows under the heading of a client in `allowed.md`, which says how they are written."""
    text = (Path(__file__).parent / "allowed.md").read_text(encoding="utf-8")
    section = text.partition(f"## {client}\n")[2].partition("\n## ")[0]
    _, _, *rows = [line for line in section.splitlines() if line.startswith("|")]
    table = []
    for row in rows:
        states, calls, what, stock, ours, reason = row.strip("| ").split(" | ")
        occurs = [tuple(each.strip("`") for each in cell.split(" ; ")) for cell in (states, calls, what)]
        table.append(Difference(occurs[0], occurs[1], occurs[2], stock.strip("`"), ours.strip("`"), reason))
    return tuple(table)


@dataclass(frozen=True)
class Found:
    """An observed difference."""

    state: str
    call: str
    what: str
    stock: str
    ours: str

    def __str__(self) -> str:
        return f"{self.state} | {self.call} | {self.what} | {self.stock} | {self.ours}"

    def is_of(self, row: Difference) -> bool:
        return (
            any(_matches(state, self.state) for state in row.states)
            and any(_matches(call, self.call) for call in row.calls)
            and any(_matches(what, self.what) for what in row.what)
            and _matches(row.stock, self.stock)
            and _matches(row.ours, self.ours)
        )


@dataclass
class Comparison:
    """The outcome of all scenarios of a client."""

    cells: dict[str, set[str]] = field(default_factory=dict)
    """The compared calls of each state."""
    observations: int = 0
    allowed: list[tuple[Found, Difference]] = field(default_factory=list)
    unexpected: list[Found] = field(default_factory=list)

    def __str__(self) -> str:
        differing = {(found.state, found.call) for found, _ in self.allowed}
        return (
            f"{sum(map(len, self.cells.values()))} cells (calls in {len(self.cells)} states), "
            f"{self.observations} observations compared; {len(differing)} cells differ as the table allows, "
            f"in {len(self.allowed)} observations; {len(self.unexpected)} differences are not in the table"
        )


Both = tuple[Observations, Observations]
"""The observations of the stock consumer, and of ours."""

_REPEATS = 3

Perform = Callable[[Sequence[Scenario], float], Sequence[Both]]
"""Performs scenarios; a call may wait for this many seconds."""


def compare(
    scenarios: Sequence[Scenario],
    table: Sequence[Difference],
    perform: Perform,
    *,
    patience_s: float,
    certain_s: float,
    complete: bool,
) -> Comparison:
    """Perform the scenarios, repeat those with unexpected outcomes, and judge them by the table.

    On a busy machine a call may meet another moment of its state, so an outcome counts that comes again each
    time. With `complete`, these are all scenarios, so each row must occur.
    """
    outcomes = list(perform(scenarios, patience_s))
    compared = _judged(scenarios, outcomes, table)
    for _ in range(_REPEATS):
        doubtful = {(found.state, found.call) for found in compared.unexpected}
        if complete:
            doubtful |= _missed(scenarios, compared, table)
        again = [number for number, each in enumerate(scenarios) if doubtful & _cells(each)]
        if not again:
            break
        for number, both in zip(again, perform([scenarios[each] for each in again], certain_s), strict=True):
            outcomes[number] = both
        compared = _judged(scenarios, outcomes, table)
    return compared


def _cells(scenario: Scenario) -> set[tuple[str, str]]:
    """The calls of a scenario in their state, and the observations of its end and of the state itself."""
    calls = {*map(str, scenario.calls), scenario.end, *([THE_STATE] if scenario.name else [])}
    return {(scenario.state, call) for call in calls}


def _missed(
    scenarios: Sequence[Scenario], compared: Comparison, table: Sequence[Difference]
) -> set[tuple[str, str]]:
    """The cells that could have the missing differences of a row."""
    missed = set()
    for row in table:
        if stale_parts(row, compared):
            missed |= {
                (state, call)
                for state, call in set().union(*map(_cells, scenarios))
                if any(_matches(pattern, state) for pattern in row.states)
                and any(_matches(pattern, call) for pattern in row.calls)
            } - {(found.state, found.call) for found, allowed in compared.allowed if allowed is row}
    return missed


def _judged(
    scenarios: Sequence[Scenario], outcomes: Sequence[Both], table: Sequence[Difference]
) -> Comparison:
    compared = Comparison()
    for scenario, both in zip(scenarios, outcomes, strict=True):
        compared.cells.setdefault(scenario.state, set()).update(map(str, scenario.calls))
        compared.observations += sum(map(len, both[0].values()))
        for each in _found(scenario, *both):
            row = next((row for row in table if each.is_of(row)), None)
            if row is None:
                compared.unexpected.append(each)
            else:
                compared.allowed.append((each, row))
    return compared


def stale_parts(row: Difference, compared: Comparison) -> list[str]:
    """The states, calls and kinds of observation of a row without a difference."""
    if row.sometimes:
        return []
    of_row = [found for found, allowed in compared.allowed if allowed is row]
    return [
        *(state for state in row.states if not any(_matches(state, found.state) for found in of_row)),
        *(call for call in row.calls if not any(_matches(call, found.call) for found in of_row)),
        *(what for what in row.what if not any(_matches(what, found.what) for found in of_row)),
    ]


def _found(scenario: Scenario, stock: Observations, ours: Observations) -> Iterator[Found]:
    for call in stock | ours:
        of_stock, of_ours = stock.get(call, {}), ours.get(call, {})
        for what in of_stock | of_ours:
            pair = of_stock.get(what, "not observed"), of_ours.get(what, "not observed")
            if pair[0] != pair[1]:
                yield Found(scenario.state, call, what, *pair)


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
