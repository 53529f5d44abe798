"""Files and stdin that a command reads: text, TOML, properties, JSON.

Errors are `CannotRun`: they name the file and, where there is one, the line.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

from kafka_assignors.group import Group
from kafka_assignors.group_json import InvalidFieldError, format_path, parse_group
from kafka_assignors.group_json import Path as FieldPath
from kafka_assignors.text_files import (
    MOST_BYTES,
    NoTomlReaderError,
    TextFileError,
    TomlError,
    excess,
    read_text,
    read_toml,
)
from kafka_assignors_cli.console import CannotRun

Value = TypeVar("Value")


def read_file(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a UTF-8 file of at most `most_bytes` bytes."""
    try:
        return read_text(path, most_bytes)
    except TextFileError as error:
        raise CannotRun(f"{path}: {error}") from None


def parse_toml(path: Path, text: str) -> dict[str, Any]:
    """The table in `text`, the content of `path`."""
    try:
        return read_toml(text)
    except NoTomlReaderError:
        raise CannotRun(
            f'{path}: Python 3.10 reads no TOML by itself: pip install "kafka-assignors[cli]"'
        ) from None
    except TomlError as error:
        line = re.search(r"at line (\d+)", str(error))
        quote = ": a name with dots beside one that it begins with, such as client, belongs in quotes"
        hint = quote if "overwrite" in str(error) else ""
        raise CannotRun(f"{path}{':' + line[1] if line else ''}: not TOML: {error}{hint}") from None


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
            raise CannotRun(f"{path}:{number}: expected name=value")
        if name == "sasl.jaas.config":
            # Files of Java clients have it, and librdkafka's own message does not name the remedy.
            raise CannotRun(
                f"{path}:{number}: sasl.jaas.config is of Java clients: give sasl.username and sasl.password"
            )
        if name in properties:
            raise CannotRun(f"{path}:{number}: {name} appears twice")
        properties[name] = value
    return properties


@dataclass(frozen=True, slots=True)
class MemberFile:
    """The configuration file of a consumer. Dots join the names of nested tables, as in TOML."""

    path: Path
    settings: Mapping[str, object]
    text: str

    def where(self, key: str | None) -> str:
        """The file and, if it is found, the line of this setting, as `file:line`."""
        if key is None:
            return str(self.path)
        last = re.escape(key.rpartition(".")[2])
        for pattern in (re.escape(key), last):
            match = re.search(rf"""(?m)^[ \t{{,]*["']?(?:[\w."-]+\.)?{pattern}["']?\s*[=:]""", self.text)
            if match:
                return f"{self.path}:{self.text.count(chr(10), 0, match.end()) + 1}"
        return str(self.path)

    def quoted(self, key: str | None) -> bool:
        """Whether the value starts with a quote in a properties file, where a quote is part of the value."""
        value = self.settings.get(key) if key is not None else None
        properties = self.path.suffix not in (".toml", ".json")
        return properties and isinstance(value, str) and value[:1] in ('"', "'")


def read_member_file(path: Path) -> MemberFile:
    """Read a `.toml` file, a `.json` file, or else a Java properties file."""
    text = read_file(path)
    if path.suffix == ".toml":
        settings = _flat(parse_toml(path, text))
    elif path.suffix == ".json":
        table = read_document("object of settings", text, str(path))
        if not isinstance(table, dict):
            raise CannotRun(f"{path}:1: expected an object of settings")
        if problem := excess(table):
            raise CannotRun(f"{path}: {problem}")
        settings = _flat(table)
    else:
        settings = _java_properties(path, text)
    return MemberFile(path, settings, text)


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    settings: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            settings.update(_flat(value, f"{prefix}{key}."))
        else:
            settings[f"{prefix}{key}"] = value
    return settings


_SEPARATOR = re.compile(r"\s*[=:]\s*|\s+")


def _java_properties(path: Path, text: str) -> dict[str, object]:
    settings: dict[str, object] = {}
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        content = line.strip()
        if not content or content[0] in "#!":
            continue
        while content.endswith("\\"):
            _, following = next(lines, (0, ""))
            content = content[:-1] + following.strip()
        separator = _SEPARATOR.search(content)
        if separator is None or not separator.start():
            raise CannotRun(f"{path}:{number}: expected name=value")
        key, value = content[: separator.start()], content[separator.end() :]
        if key in settings:
            raise CannotRun(f"{path}:{number}: {key} appears twice")
        settings[key] = value
    return settings


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


MOST_OBJECT_BYTES = 2**28
"""The limit for one JSON object. A group of a million partitions with racks takes a tenth of it."""

_PIECE_BYTES = 2**20


@contextlib.contextmanager
def open_lines(file: str) -> Iterator[tuple[Iterator[bytes], str]]:
    """The lines of a file, or of stdin for "-", and the name of the source for errors."""
    if file == "-":
        if sys.stdin is None:
            raise CannotRun("stdin is closed: give a file, or pipe something in")
        yield _lines(sys.stdin.buffer, "stdin"), "stdin"
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115
    except OSError as error:
        raise CannotRun(f"{file}: {error.strerror}") from None
    with stream:
        yield _lines(stream, file), file


def _lines(stream: BinaryIO, source: str) -> Iterator[bytes]:
    """The lines of a stream; a line longer than `MOST_OBJECT_BYTES` is refused."""
    for number in itertools.count(1):
        line = bytearray()
        while not line.endswith(b"\n") and (piece := _piece(stream, source)):
            line += piece
            # The first piece already shows a device such as /dev/zero, long before the limit.
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


def read_groups(lines: Iterable[bytes], source: str) -> Iterator[tuple[str, Group]]:
    """The groups in `lines`, with `source:line` of each; see `read_forms`."""
    return read_forms("group", parse_group, lines, source)


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
        raise CannotRun(f"{source}: there is no {name} in it, it is empty")
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
                raise CannotRun(f"{source}:{at}: {_TOO_LARGE}")
        last = max(rest, default=number)
        document = text + "".join(rest.get(at, "\n") for at in range(number + 1, last + 1))
        yield f"{source}:{number}", _parse(name, parse, document, source, number)


def read_document(name: str, text: str, source: str) -> object:
    """Parse the whole `text` as one JSON value; errors call it a `name`."""
    return _parse(name, lambda value: value, text, source, 1)


_TOO_LARGE = f"larger than the {MOST_OBJECT_BYTES:,} bytes that an object may have here"
_CONSTANT = re.compile(r"NaN|-?Infinity")
_HUGE_NUMBER = re.compile(r"-?\d{1000}")


class _NotJson(ValueError):
    """Python's reader accepts it, but it is not JSON."""


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


def _parse(name: str, parse: Callable[[object], Value], text: str, source: str, first_line: int) -> Value:
    """Parse `text`; `first_line` is the number of its first line in `source`."""

    def refusal(problem: str, offset: int, path: FieldPath) -> CannotRun:
        where = f"{source}:{first_line + text.count(chr(10), 0, offset)}"
        return CannotRun(f"{where}: {format_path(path)}: {problem}" if path else f"{where}: {problem}")

    text = text.rstrip()  # Text that ends too early is reported on its last line.
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            problem = f"there is more after the end of the {name}: write one {name}, or one per line"
            raise refusal(problem, error.pos, ()) from None
        problem = f"not JSON at column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}"
        raise refusal(problem, error.pos, _path_at(text, error.pos)) from None
    except _NotJson as error:
        raise refusal(str(error), *_first_parse(text, _CONSTANT)) from None
    except _DuplicateKey:
        raise refusal("appears twice", *_second_of_its_path(text)) from None
    except RecursionError:
        raise refusal(f"not a {name}: it is nested too deeply", 0, ()) from None
    except ValueError:  # Python's own limit on the digits of a number.
        raise refusal("a number of thousands of digits", *_first_parse(text, _HUGE_NUMBER)) from None
    try:
        return parse(value)
    except InvalidFieldError as error:
        raise refusal(error.problem, _offset_of(text, error.path), error.path) from None


class _DuplicateKey(Exception):
    """An object has a key twice; `json` silently keeps the last value."""


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _DuplicateKey
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise _NotJson(f"not JSON: {name} is not a JSON value")


def _values(text: str) -> Iterator[tuple[int, FieldPath]]:
    """Offset and path of each value in `text`, in order, as long as the text looks like JSON."""
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


def _path_at(text: str, offset: int) -> FieldPath:
    """The path of the last value that begins at `offset` or before."""
    found: FieldPath = ()
    for start, path in _values(text):
        if start > offset:
            break
        found = path
    return found


def _offset_of(text: str, path: FieldPath) -> int:
    """The offset of the value at `path`; if it is missing, of the innermost value that should contain it."""
    best, depth = 0, -1
    for start, at in _values(text):
        if len(at) > depth and path[: len(at)] == at:
            best, depth = start, len(at)
            if depth == len(path):
                break
    return best


def _first_parse(text: str, pattern: re.Pattern[str]) -> tuple[int, FieldPath]:
    """Offset and path of the first value that begins with `pattern`."""
    return next(((start, path) for start, path in _values(text) if pattern.match(text, start)), (0, ()))


def _second_of_its_path(text: str) -> tuple[int, FieldPath]:
    seen: set[FieldPath] = set()
    for start, path in _values(text):
        if path in seen:
            return start, path
        seen.add(path)
    return 0, ()
