"""`--json FILE`, the same in every command: where the result goes as JSON, and whether stdout shows text."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from kafka_assignors_cli.console import emit, note
from kafka_assignors_cli.files import replacing, require_writable

__all__ = ["is_stdout", "json_lines", "json_unless_terminal", "require_json_file", "write_document"]

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
    if is_stdout(file):
        emit(text.rstrip("\n"))
    elif file is not None:
        with replacing(file) as stream:
            stream.write(text if text.endswith("\n") or not text else text + "\n")
        note(f"wrote {file}")


@contextlib.contextmanager
def json_lines(file: Path | None) -> Iterator[Callable[[object], None]]:
    """A function that writes a value as one line of JSON, nowhere if `file` is None.

    Stdout has each line at once. A file is replaced when the block ends without an error.
    """
    if file is None:
        yield lambda value: None
    elif is_stdout(file):
        yield lambda value: emit(json.dumps(value))
    else:
        require_writable(file)
        with replacing(file) as stream:
            yield lambda value: print(json.dumps(value), file=stream)
        note(f"wrote {file}")
