"""Text files that users write, and TOML: read as a whole, but only up to a limit.

A device or a pipe that never ends would otherwise fill the memory. TOML is read with Python's own reader, or
with `tomli` on Python 3.10.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MOST_BYTES = 16 * 2**20
"""The most bytes of a file of settings. The largest real ones are a thousand times smaller."""

_CHUNK_BYTES = 2**20


class TextFileError(ValueError):
    """The file cannot be read as text: the message says why, without the name of the file."""


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text in a UTF-8 file, with or without a byte order mark; raises `TextFileError`."""
    try:
        text = _content(path, most_bytes).decode("utf-8-sig")
    except OSError as error:
        raise TextFileError(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise TextFileError("not UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _content(path: Path, most_bytes: int) -> bytes:
    content = bytearray()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            content += chunk
            # The first chunk gives a device such as /dev/zero away, long before the limit.
            if b"\0" in chunk:
                raise TextFileError("not a text file: it has a zero byte")
            if len(content) > most_bytes:
                raise TextFileError(f"larger than the {most_bytes:,} bytes that are read here")
    return bytes(content)


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
    """A sentence about a number or a depth in `value` beyond the limits; None if there is none.

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
