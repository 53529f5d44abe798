"""Text files that are named on the command line."""

from __future__ import annotations

from pathlib import Path

from kafka_assignors.textfile import MOST_BYTES, TextFileError, read_text
from kafka_assignors_cli.errors import CannotRun

__all__ = ["read_file"]


def read_file(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text in a UTF-8 file; raises `CannotRun`, which names the file."""
    try:
        return read_text(path, most_bytes)
    except TextFileError as error:
        raise CannotRun(f"{path}: {error}") from None
