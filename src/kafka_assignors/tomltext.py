"""TOML, read with what Python has or what is installed."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["NoTomlReaderError", "TomlError", "read_toml"]


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
    return table
