"""TOML, read with what Python has or what is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

__all__ = ["NoTomlReaderError", "TomlError", "excess", "read_toml"]

_MOST_LEVELS = 100
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1

_TOO_DEEP = f"it is nested more than {_MOST_LEVELS} levels deep"
_TOO_LONG = "an integer does not fit in 64 bits"


class TomlError(ValueError):
    """The text is not TOML: the message says where."""


class NoTomlReaderError(RuntimeError):
    """This Python reads no TOML by itself, and `tomli` is not installed."""


def read_toml(text: str) -> dict[str, Any]:
    """The table that the text describes; `TomlError` if it is none."""
    reader: Any = None
    for name in ("tomllib", "tomli"):  # the first from Python 3.11 on
        try:
            reader = importlib.import_module(name)
            break
        except ModuleNotFoundError:
            continue
    if reader is None:
        raise NoTomlReaderError("Python 3.10 reads no TOML by itself: pip install tomli")
    try:
        table: dict[str, Any] = reader.loads(text)
    except reader.TOMLDecodeError as error:
        raise TomlError(str(error)) from None
    except RecursionError:
        raise TomlError(_TOO_DEEP) from None
    except ValueError:  # Python's own limit on the digits of a number.
        raise TomlError(_TOO_LONG) from None
    if problem := excess(table):
        raise TomlError(problem)
    return table


def excess(value: object) -> str | None:
    """What in `value`, as a reader of TOML or JSON returned it, is too much to work with; None if nothing is.

    Python reads integers that it then refuses to print or to convert, and tables that no recursive function
    gets through.
    """
    level: list[object] = [value]
    for _ in range(_MOST_LEVELS + 1):
        if any(type(each) is int and not _MIN_INT64 <= each <= _MAX_INT64 for each in level):
            return _TOO_LONG
        level = [part for each in level for part in _parts(each)]
    return _TOO_DEEP if level else None


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
