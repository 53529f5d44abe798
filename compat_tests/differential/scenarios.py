"""All scenarios of a client: its calls in each of its states."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator

from compat_tests.differential.calls import CONSTRUCTING, Calls
from compat_tests.differential.language import Scenario

__all__ = ["CONSTRUCTING_STATE", "public_names", "quiet", "sampled", "scenarios_of"]

CONSTRUCTING_STATE = "not constructed"

_STARTING = ("start", "__aenter__")
"""Change the state of a consumer that is not started, and are refused by one that is."""


def scenarios_of(state: str, calls: Calls) -> Iterable[Scenario]:
    """Each call in this state: those in place in one scenario, each of the others in its own."""
    if state == CONSTRUCTING_STATE:
        yield Scenario(state, CONSTRUCTING, "constructors")
        return
    in_place, alone = calls
    starts = [call for call in in_place if call.method in _STARTING] if _is_not_started(state) else []
    yield Scenario(state, tuple(call for call in in_place if call not in starts), "calls in place")
    for call in (*starts, *alone):
        yield Scenario(state, (call,))


def sampled(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """The scenarios of a default run: all calls in place, and a third of the others, shifted by state.

    So each state is there, and each method in some of them.
    """
    states: dict[str, int] = {}
    return [
        each
        for number, each in enumerate(scenarios)
        if each.name or (number + states.setdefault(each.state, len(states))) % 3 == 0
    ]


def _is_not_started(state: str) -> bool:
    return state.startswith("not started") or state == "closed before start"


def public_names(consumer: type) -> set[str]:
    """The public methods and properties of a consumer, those that Python calls by itself included.

    Not the constructor, which has a state of its own.
    """
    own = {"__del__", "__aiter__", "__anext__", "__aenter__", "__aexit__"}
    own |= {"__iter__", "__next__", "__enter__", "__exit__"}
    return {name for name in dir(consumer) if not name.startswith("_") or name in own & _defined(consumer)}


def _defined(consumer: type) -> set[str]:
    return {name for kind in consumer.__mro__ if kind is not object for name in vars(kind)}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Some thousand errors are provoked here, and would be the report of a test that fails."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
