"""Whether an object fulfils the contract of a strategy."""

from __future__ import annotations

import inspect
from typing import Any

from kafka_assignors.criteria import AnyCriterion, require_criteria
from kafka_assignors.strategy import RebalanceProtocol, Strategy

__all__ = ["LONGEST_NAME", "contract_problem", "fits_kafka_string"]

LONGEST_NAME = 32_767
"""Bytes of UTF-8 that a string of Kafka's protocol has room for."""


def contract_problem(found: object) -> str | None:
    """What is wrong with it as a strategy, such as "it has no name"; None if nothing is.

    It cannot check what `assign` returns: `kafka_assignors.leader` checks that each time.
    """
    if not isinstance(found, Strategy):
        return "it does not derive from kafka_assignors.strategies.Strategy"
    strategy: Any = found
    missing = [name for name in ("name", "version", "protocols", "assign") if not hasattr(strategy, name)]
    if missing:
        return f"it has no {_enumeration(missing)}"
    name, version, protocols = strategy.name, strategy.version, strategy.protocols
    if not isinstance(name, str) or not name:
        return f"its name is {name!r}, not a non-empty string"
    if not fits_kafka_string(name):
        return f"its name is no text of at most {LONGEST_NAME} bytes"
    if not isinstance(version, int) or isinstance(version, bool):
        return f"its version is {version!r}, not an integer"
    if not isinstance(protocols, tuple) or not protocols:
        return f"its protocols are {protocols!r}, not a tuple of RebalanceProtocol"
    if not all(isinstance(protocol, RebalanceProtocol) for protocol in protocols):
        return f"its protocols are {protocols!r}, not a tuple of RebalanceProtocol"
    if RebalanceProtocol.CONSUMER in protocols and len(set(protocols)) > 1:
        return "its protocols are of clients and of the broker (consumer): it can run on one side alone"
    criteria = strategy.criteria
    if criteria is not None:
        if not isinstance(criteria, tuple) or not all(isinstance(each, AnyCriterion) for each in criteria):
            return f"its criteria are {criteria!r}, not a tuple of Criterion and Trade"
        try:
            require_criteria(criteria)
        except ValueError as error:
            return f"its {error}"
    return _method_problem(strategy, "assign", "a group") or _method_problem(
        strategy, "member_data", "a member"
    )


def fits_kafka_string(text: str) -> bool:
    """Whether Kafka's protocol can carry it."""
    try:
        return len(text.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def _method_problem(strategy: object, name: str, argument: str) -> str | None:
    method = getattr(strategy, name)
    if not callable(method):
        return f"its {name} is not a method"
    if inspect.iscoroutinefunction(method):
        return f"its {name} is a coroutine function, which no caller awaits"
    try:
        inspect.signature(method).bind(None)
    except TypeError:
        return f"its {name} cannot be called with {argument} alone"
    except ValueError:  # Something built in, without a signature to look at.
        return None
    return None


def _enumeration(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
