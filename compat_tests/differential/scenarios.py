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
"""Methods that change the state of a consumer that is not started, and that a started consumer refuses."""


def scenarios_of(state: str, calls: Calls) -> Iterable[Scenario]:
    """Each call in this state: one scenario for all calls in place, and one for each other call."""
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

    Every state is included, and every method in some states.
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
    """The public methods and properties of a consumer, including those that Python calls implicitly.

    The constructor is not included, because it has its own state.
    """
    own = {"__del__", "__aiter__", "__anext__", "__aenter__", "__aexit__"}
    own |= {"__iter__", "__next__", "__enter__", "__exit__"}
    return {name for name in dir(consumer) if not name.startswith("_") or name in own & _defined(consumer)}


def _defined(consumer: type) -> set[str]:
    return {name for kind in consumer.__mro__ if kind is not object for name in vars(kind)}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Disable logging: thousands of provoked errors would fill the report of a failed test."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
