"""TOML files, read with what Python has or what the extra `cli` brings."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from kafka_assignors.cli.errors import CannotRun

__all__ = ["parse_toml"]


def parse_toml(path: Path, text: str) -> dict[str, Any]:
    """The table in `text`, which stands in `path`."""
    reader: Any = None
    for name in ("tomllib", "tomli"):
        try:
            reader = importlib.import_module(name)
            break
        except ModuleNotFoundError:
            continue
    if reader is None:
        raise CannotRun(f'{path}: Python 3.10 reads no TOML by itself: pip install "kafka-assignors[cli]"')
    try:
        settings: dict[str, Any] = reader.loads(text)
    except reader.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        quote = ": a name with dots beside one that it begins with, such as client, belongs in quotes"
        hint = quote if "overwrite" in str(error) else ""
        raise CannotRun(f"{path}{':' + line[1] if line else ''}: not TOML: {error}{hint}") from None
    return settings
