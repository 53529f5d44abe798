"""TOML files, with errors that name the file and the line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kafka_assignors.tomltext import NoTomlReaderError, TomlError, read_toml
from kafka_assignors_cli.errors import CannotRun

__all__ = ["parse_toml"]


def parse_toml(path: Path, text: str) -> dict[str, Any]:
    """The table in `text`, which stands in `path`."""
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
