"""Files that a command writes beside what it prints."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from kafka_assignors_cli.errors import CannotRun

__all__ = ["prepare", "write"]


def prepare(path: Path) -> None:
    """Fail now, and not after minutes of work, if `path` cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise CannotRun(f"cannot write {path}: {error.strerror}") from None


def write(path: Path, text: str) -> None:
    """Replace `path` as a whole, so that a reader never sees half a report."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CannotRun(f"cannot write {path}: {error.strerror}") from None
