"""Groups and the like out of JSON text, with errors that name the line as well as the field.

`kafka_assignors.jsonform` knows the fields but has never seen the text; here is the text.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, BinaryIO, Generic, NoReturn, TypeVar

from kafka_assignors.group import Group
from kafka_assignors.jsonform import InvalidFieldError, Path, format_path, parse_group
from kafka_assignors_cli.errors import CannotRun

__all__ = ["Form", "opened", "read_document", "read_forms", "read_groups"]

Value = TypeVar("Value")

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


MOST_OBJECT_BYTES = 2**28
"""Of one JSON object. A group of a million partitions with their racks has a tenth of it."""

_PIECE_BYTES = 2**20


@contextlib.contextmanager
def opened(file: str) -> Iterator[tuple[Iterator[bytes], str]]:
    """The lines of the file, or of stdin for "-", and what to call it."""
    if file == "-":
        if sys.stdin is None:
            raise CannotRun("stdin is closed: give a file, or pipe something in")
        yield _lines(sys.stdin.buffer, "stdin"), "stdin"
        return
    try:
        stream = FilePath(file).open("rb")  # noqa: SIM115
    except OSError as error:
        raise CannotRun(f"{file}: {error.strerror}") from None
    with stream:
        yield _lines(stream, file), file


def _lines(stream: BinaryIO, source: str) -> Iterator[bytes]:
    """The lines of a stream, none of them longer than an object may be."""
    for number in itertools.count(1):
        line = bytearray()
        while not line.endswith(b"\n") and (piece := _piece(stream, source)):
            line += piece
            # A device such as /dev/zero is told by its first piece, long before the limit.
            if b"\0" in piece:
                raise CannotRun(f"{source}:{number}: not text: it has a zero byte")
            if len(line) > MOST_OBJECT_BYTES:
                raise CannotRun(f"{source}:{number}: {_TOO_LARGE}")
        if not line:
            return
        yield bytes(line)


def _piece(stream: BinaryIO, source: str) -> bytes:
    try:
        return stream.readline(_PIECE_BYTES)
    except OSError as error:
        raise CannotRun(f"{source}: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class Form(Generic[Value]):
    """What the objects are called, such as "group", and what makes a value of what `json` returns."""

    name: str
    parse: Callable[[object], Value]


def read_groups(lines: Iterable[bytes], source: str) -> Iterator[tuple[str, Group]]:
    """The groups in `lines`; see `read_forms`."""
    return read_forms(Form("group", parse_group), lines, source)


def read_forms(form: Form[Value], lines: Iterable[bytes], source: str) -> Iterator[tuple[str, Value]]:
    """The values in `lines`: one JSON object over any number of lines, or JSON lines, one object on each.

    With each value comes where it was found, as `source:line`. It is JSON lines as soon as the first line
    is a value of its own; then each line is read when it is asked for. Raises `CannotRun`.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise CannotRun(f"{source}: there is no {form.name} in it, it is empty")
    number, line = first
    text = _text(line, source, number).removeprefix("\ufeff")
    if _is_json(text):
        yield f"{source}:{number}", _value(form, text, source, number)
        for number, line in numbered:
            yield f"{source}:{number}", _value(form, _text(line, source, number), source, number)
    else:
        # Blank lines were passed over: count the lines anew from what was really there.
        rest: dict[int, str] = {}
        size = len(line)
        for at, line in numbered:
            rest[at] = _text(line, source, at)
            if (size := size + len(line)) > MOST_OBJECT_BYTES:
                raise CannotRun(f"{source}:{at}: {_TOO_LARGE}")
        last = max(rest, default=number)
        document = text + "".join(rest.get(at, "\n") for at in range(number + 1, last + 1))
        yield f"{source}:{number}", _value(form, document, source, number)


def read_document(name: str, text: str, source: str) -> object:
    """What `json` makes of the whole `text`. Raises `CannotRun`, which calls it a `name`."""
    return _value(Form(name, _as_it_is), text, source, 1)


def _as_it_is(value: object) -> object:
    return value


_TOO_LARGE = f"larger than the {MOST_OBJECT_BYTES:,} bytes that an object may have here"
_CONSTANT = re.compile(r"NaN|-?Infinity")
_HUGE_NUMBER = re.compile(r"-?\d{1000}")


class _NotJson(ValueError):
    """Python's reader would take it, but it is not JSON."""


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _text(line: bytes, source: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CannotRun(
            f"{source}:{number}: not UTF-8: {error.reason} at byte {error.start + 1} of the line"
        ) from None


def _value(form: Form[Value], text: str, source: str, first_line: int) -> Value:
    """The value that `text` describes; `first_line` is the number of its first line in `source`."""

    def refusal(problem: str, offset: int, path: Path) -> CannotRun:
        where = f"{source}:{first_line + text.count(chr(10), 0, offset)}"
        return CannotRun(f"{where}: {format_path(path)}: {problem}" if path else f"{where}: {problem}")

    text = text.rstrip()  # What ends too early ends on its last line, not after it.
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            problem = (
                f"there is more after the end of the {form.name}: write one {form.name}, or one per line"
            )
            raise refusal(problem, error.pos, ()) from None
        problem = f"not JSON at column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}"
        raise refusal(problem, error.pos, _path_at(text, error.pos)) from None
    except _NotJson as error:
        raise refusal(str(error), *_first_value(text, _CONSTANT)) from None
    except _DuplicateKey:
        raise refusal("appears twice", *_second_of_its_path(text)) from None
    except RecursionError:
        raise refusal(f"not a {form.name}: it is nested too deeply", 0, ()) from None
    except ValueError:  # Python's own limit on the digits of a number.
        raise refusal("a number of thousands of digits", *_first_value(text, _HUGE_NUMBER)) from None
    try:
        return form.parse(value)
    except InvalidFieldError as error:
        raise refusal(error.problem, _offset_of(text, error.path), error.path) from None


class _DuplicateKey(Exception):
    """An object has a key twice; `json` would keep the last value and say nothing."""


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _DuplicateKey
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJson(f"not JSON: {name} is not a JSON value")


def _values(text: str) -> Iterator[tuple[int, Path]]:
    """Offset and path of every value in `text`, in order, as far as it looks like JSON."""
    path: list[str | int | None] = []
    for token in _TOKEN.finditer(text):
        start = token[0][0]
        if start in "}]":
            if path:
                path.pop()
        elif start == ",":
            if path:
                path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif start == ":":
            continue
        elif start == '"' and path and path[-1] is None:
            path[-1] = _key(token[0])
        else:
            yield token.start(), tuple(step for step in path if step is not None)
            if start == "{":
                path.append(None)
            elif start == "[":
                path.append(0)


def _key(token: str) -> str:
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token


def _path_at(text: str, offset: int) -> Path:
    """The path of the last value that begins at or before `offset`."""
    found: Path = ()
    for start, path in _values(text):
        if start > offset:
            break
        found = path
    return found


def _offset_of(text: str, path: Path) -> int:
    """Where the value at `path` begins; if there is none, the innermost value around where it should be."""
    best, depth = 0, -1
    for start, at in _values(text):
        if len(at) > depth and path[: len(at)] == at:
            best, depth = start, len(at)
            if depth == len(path):
                break
    return best


def _first_value(text: str, pattern: re.Pattern[str]) -> tuple[int, Path]:
    """Offset and path of the first value that begins with `pattern`."""
    return next(((start, path) for start, path in _values(text) if pattern.match(text, start)), (0, ()))


def _second_of_its_path(text: str) -> tuple[int, Path]:
    seen: set[Path] = set()
    for start, path in _values(text):
        if path in seen:
            return start, path
        seen.add(path)
    return 0, ()
