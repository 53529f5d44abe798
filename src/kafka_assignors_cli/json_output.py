"""`--json FILE`, the same in every command: where the result goes as JSON, and whether stdout shows text."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kafka_assignors_cli.console import emit, note
from kafka_assignors_cli.files import replacing, require_writable

__all__ = [
    "is_stdout",
    "json_lines",
    "json_unless_terminal",
    "require_json_file",
    "write_document",
    "write_lines",
]

_STDOUT = Path("-")


def is_stdout(file: Path | None) -> bool:
    """Whether the JSON goes to stdout, which then shows no text."""
    return file == _STDOUT


def json_unless_terminal(file: Path | None) -> Path | None:
    """`file`; if it is not given and stdout is not a terminal, stdout."""
    return _STDOUT if file is None and not sys.stdout.isatty() else file


def require_json_file(file: Path | None) -> None:
    """Fail before minutes of work if the file of `--json` cannot be written."""
    if file is not None and not is_stdout(file):
        require_writable(file)


def write_document(file: Path | None, text: str) -> None:
    """Write `text`, the whole result, to `file`; a file is replaced at once."""
    write_lines(file, (text.rstrip("\n"),) if text else ())


def write_lines(file: Path | None, lines: Iterable[str]) -> None:
    """Write lines, which have no end of line, to `file` as they come; a file is replaced at once."""
    with _writer(file) as write:
        for line in lines:
            write(line)


@contextlib.contextmanager
def json_lines(file: Path | None) -> Iterator[Callable[[object], None]]:
    """A function that writes a value as one line of JSON, nowhere if `file` is None.

    Stdout has each line at once. A file is replaced when the block ends without an error.
    """
    with _writer(file) as write:
        yield lambda value: write(json.dumps(value))


@contextlib.contextmanager
def _writer(file: Path | None) -> Iterator[Callable[[str], None]]:
    if file is None:
        yield lambda line: None
    elif is_stdout(file):
        yield emit
    else:
        require_writable(file)
        with replacing(file) as stream:
            yield lambda line: print(line, file=stream)
        note(f"wrote {file}")
