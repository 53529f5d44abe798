"""Files and stdin that a command reads: text, TOML, properties, JSON.

Errors are `UserError`: they name the file and, where there is one, the line.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from kafka_assignors.arguments import UserError
from kafka_assignors.group_json import InvalidFieldError, format_path
from kafka_assignors.group_json import Path as FieldPath
from kafka_assignors.text_files import MOST_BYTES, TextFileError, read_text

Value = TypeVar("Value")


def read_file(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a UTF-8 file of at most `most_bytes` bytes."""
    try:
        return read_text(path, most_bytes)
    except TextFileError as error:
        raise UserError(f"{path}: {error}") from None


_MOST_LEVELS = 100
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1

_TOO_DEEP = f"it is nested more than {_MOST_LEVELS} levels deep"
_TOO_LONG = "an integer does not fit in 64 bits"


def parse_toml(path: Path, text: str) -> dict[str, Any]:
    """The table in `text`, the content of `path`: by Python's own reader, or by `tomli` on Python 3.10."""
    reader: Any = None
    for name in ("tomllib", "tomli"):  # the first from Python 3.11 on
        with contextlib.suppress(ModuleNotFoundError):
            reader = importlib.import_module(name)
            break
    if reader is None:
        raise UserError(f'{path}: Python 3.10 reads no TOML by itself: pip install "kafka-assignors[cli]"')
    table: dict[str, Any] = {}
    try:
        table = reader.loads(text)
        problem = excess(table)
    except reader.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        quote = ": a name with dots beside one that it begins with, such as client, belongs in quotes"
        hint = quote if "overwrite" in str(error) else ""
        raise UserError(f"{path}{':' + line[1] if line else ''}: not TOML: {error}{hint}") from None
    except RecursionError:
        problem = _TOO_DEEP
    except ValueError:  # Python's own limit on the digits of a number.
        problem = _TOO_LONG
    if problem:
        raise UserError(f"{path}: not TOML: {problem}")
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


def read_client_properties(path: Path) -> dict[str, str]:
    """Read librdkafka's properties, one `name=value` per line; `#` and `!` begin a comment.

    The file keeps passwords out of the process list and the shell's history. A value is taken literally,
    without quotes or escapes, because a password may contain any character. Errors name the line and never
    show a value.
    """
    properties: dict[str, str] = {}
    for number, line in enumerate(read_file(path).splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, equals, value = (part.strip() for part in stripped.partition("="))
        if not equals or not name:
            raise UserError(f"{path}:{number}: expected name=value")
        if name == "sasl.jaas.config":
            # Files of Java clients have it, and librdkafka's own message does not name the remedy.
            raise UserError(
                f"{path}:{number}: sasl.jaas.config is of Java clients: give sasl.username and sasl.password"
            )
        if name in properties:
            raise UserError(f"{path}:{number}: {name} appears twice")
        properties[name] = value
    return properties


MOST_OBJECT_BYTES = 2**28
"""The limit for one JSON object. A group of a million partitions with racks takes a tenth of it."""

_PIECE_BYTES = 2**20
_MOST_DIGITS = 1000


@contextlib.contextmanager
def open_lines(file: str) -> Iterator[tuple[Iterator[bytes], str]]:
    """The lines of a file, or of stdin for "-", and the name of the source for errors."""
    if file == "-":
        if sys.stdin is None:
            raise UserError("stdin is closed: give a file, or pipe something in")
        yield _lines(sys.stdin.buffer, "stdin"), "stdin"
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    with stream:
        yield _lines(stream, file), file


def _lines(stream: BinaryIO, source: str) -> Iterator[bytes]:
    """The lines of a stream; a line longer than `MOST_OBJECT_BYTES` is refused."""
    try:
        for number in itertools.count(1):
            line = bytearray()
            while not line.endswith(b"\n") and (piece := stream.readline(_PIECE_BYTES)):
                line += piece
                # The first piece already shows a device such as /dev/zero, long before the limit.
                if b"\0" in piece:
                    raise UserError(f"{source}:{number}: not text: it has a zero byte")
                if len(line) > MOST_OBJECT_BYTES:
                    raise UserError(f"{source}:{number}: {_TOO_LARGE}")
            if not line:
                return
            yield bytes(line)
    except OSError as error:
        raise UserError(f"{source}: {error.strerror}") from None


def read_forms(
    name: str, parse: Callable[[object], Value], lines: Iterable[bytes], source: str
) -> Iterator[tuple[str, Value]]:
    """The values in `lines`, with `source:line` of each. Errors call such a value a `name`.

    The input is one JSON object over any number of lines, or JSON lines with an object on each line. It is
    JSON lines if the first line is a complete JSON value; then each line is read on demand.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise UserError(f"{source}: there is no {name} in it, it is empty")
    number, line = first
    text = _text(line, source, number).removeprefix("\ufeff")
    if _is_json(text):
        yield f"{source}:{number}", _parse(name, parse, text, source, number)
        for number, line in numbered:
            yield f"{source}:{number}", _parse(name, parse, _text(line, source, number), source, number)
    else:
        # Blank lines were skipped; their numbers keep the line numbers of errors right.
        rest: dict[int, str] = {}
        size = len(line)
        for at, line in numbered:
            rest[at] = _text(line, source, at)
            if (size := size + len(line)) > MOST_OBJECT_BYTES:
                raise UserError(f"{source}:{at}: {_TOO_LARGE}")
        last = max(rest, default=number)
        document = text + "".join(rest.get(at, "\n") for at in range(number + 1, last + 1))
        yield f"{source}:{number}", _parse(name, parse, document, source, number)


def read_document(name: str, text: str, source: str) -> object:
    """Parse the whole `text` as one JSON value; errors call it a `name`."""
    return _parse(name, lambda value: value, text, source, 1)


_TOO_LARGE = f"larger than the {MOST_OBJECT_BYTES:,} bytes that an object may have here"


def _text(line: bytes, source: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{source}:{number}: not UTF-8: {error.reason} at byte {error.start + 1} of the line"
        ) from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _parse(name: str, parse: Callable[[object], Value], text: str, source: str, line: int) -> Value:
    """Parse `text`, which begins on this line of `source`."""
    where = f"{source}:{line}"
    try:
        return parse(_load(text.rstrip()))  # Text that ends too early is reported on its last line.
    except json.JSONDecodeError as error:
        where = f"{source}:{line + error.lineno - 1}"
        problem = f"not JSON at column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}"
        if error.msg == "Extra data":
            problem = f"there is more after the end of the {name}: write one {name}, or one per line"
        raise UserError(f"{where}: {problem}") from None
    except RecursionError:
        raise UserError(f"{where}: not a {name}: it is nested too deeply") from None
    except InvalidFieldError as error:
        path = f"{format_path(error.path)}: " if error.path else ""
        raise UserError(f"{where}: {path}{error.problem}") from None


class _Refused(str):
    """The problem of a value that Python's reader accepts; it stands in the place of that value."""


def _load(text: str) -> object:
    """The JSON value; `InvalidFieldError` for what Python's reader takes, and JSON has not."""
    refused: list[_Refused] = []

    def refuse(problem: str) -> _Refused:
        refused.append(_Refused(problem))
        return refused[-1]

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):  # `json` silently keeps the last value.
            counts = Counter(key for key, _ in pairs)
            found |= {key: refuse("appears twice") for key, count in counts.items() if count > 1}
        return found

    def integer(digits: str) -> object:
        return int(digits) if len(digits) < _MOST_DIGITS else refuse("a number of thousands of digits")

    hooks: dict[str, Any] = {
        "object_pairs_hook": fields,
        "parse_constant": lambda name: refuse(f"not JSON: {name} is not a JSON value"),
    }
    try:
        value = json.loads(text, **hooks)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python's own limit on the digits of a number.
        value = json.loads(text, parse_int=integer, **hooks)
    if refused and (found := _find(value, ())) is not None:
        raise InvalidFieldError(*found)
    return value


def _find(value: object, path: FieldPath) -> tuple[FieldPath, str] | None:
    """Path and problem of the first refused value in `value`."""
    if isinstance(value, _Refused):
        return path, str(value)
    parts: Iterable[tuple[str | int, object]]
    parts = value.items() if isinstance(value, dict) else enumerate(_parts(value))
    return next(filter(None, (_find(part, (*path, step)) for step, part in parts)), None)
