"""Parameters given as NAME=VALUE, of a model or of rules."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

from kafka_assignors_cli.errors import CannotRun

__all__ = ["parameters"]

T = TypeVar("T")

_BOOLEANS = {"true": True, "false": False}


def parameters(option: str, given: Iterable[str], default: T) -> T:
    """`default`, a dataclass of numbers and booleans, with the values that `option` was given."""
    known = {each.name: getattr(default, each.name) for each in dataclasses.fields(default)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for each in given:
        name, equals, text = (part.strip() for part in each.partition("="))
        if not equals:
            raise CannotRun(f"{option} {each}: expected NAME=VALUE, with one of {', '.join(known)}")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
            raise CannotRun(f"{option}: there is no parameter {name!r}: {hint}")
        if name in values:
            raise CannotRun(f"{option}: {name} is given twice")
        values[name] = _value(option, name, text, known[name])
    try:
        return dataclasses.replace(default, **values)  # type: ignore[type-var]
    except ValueError as error:
        raise CannotRun(f"{option}: {error}") from None


def _value(option: str, name: str, text: str, default: object) -> bool | int | float:
    if isinstance(default, bool):
        if text not in _BOOLEANS:
            raise CannotRun(f"{option}: {name} is true or false, found {text!r}")
        return _BOOLEANS[text]
    kind = int if isinstance(default, int) else float
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise CannotRun(f"{option}: {name} has to be {what}, found {text!r}") from None
