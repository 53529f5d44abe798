"""Configuration files of consumers: properties as Java reads them, TOML, or JSON.

A value keeps the line it is on, so that whoever objects to it can say where it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_assignors.tomltext import excess
from kafka_assignors_cli.errors import CannotRun
from kafka_assignors_cli.jsontext import read_document
from kafka_assignors_cli.textfiles import read_file
from kafka_assignors_cli.toml import parse_toml

__all__ = ["MemberFile", "read_member_file"]


@dataclass(frozen=True, slots=True)
class MemberFile:
    """The settings in a file. The names of nested tables are joined by dots, as TOML splits them."""

    path: Path
    settings: Mapping[str, object]
    text: str

    def where(self, key: str | None) -> str:
        """The file, and the line of this setting as far as it can be told."""
        if key is None:
            return str(self.path)
        last = re.escape(key.rpartition(".")[2])
        for pattern in (re.escape(key), last):
            match = re.search(rf"""(?m)^[ \t{{,]*["']?(?:[\w."-]+\.)?{pattern}["']?\s*[=:]""", self.text)
            if match:
                return f"{self.path}:{self.text.count(chr(10), 0, match.end()) + 1}"
        return str(self.path)

    def quoted(self, key: str | None) -> bool:
        """Whether this is a properties file whose value has quotes around it, which belong to the value."""
        value = self.settings.get(key) if key is not None else None
        properties = self.path.suffix not in (".toml", ".json")
        return properties and isinstance(value, str) and value[:1] in ('"', "'")


def read_member_file(path: Path) -> MemberFile:
    """The settings in a `.toml`, a `.json`, or else a properties file. Errors name the line."""
    text = read_file(path)
    if path.suffix == ".toml":
        settings = _flat(parse_toml(path, text))
    elif path.suffix == ".json":
        settings = _flat(_json(path, text))
    else:
        settings = _properties(path, text)
    return MemberFile(path, settings, text)


def _json(path: Path, text: str) -> dict[str, Any]:
    settings = read_document("object of settings", text, str(path))
    if not isinstance(settings, dict):
        raise CannotRun(f"{path}:1: expected an object of settings")
    if problem := excess(settings):
        raise CannotRun(f"{path}: {problem}")
    return settings


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    settings: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            settings.update(_flat(value, f"{prefix}{key}."))
        else:
            settings[f"{prefix}{key}"] = value
    return settings


_SEPARATOR = re.compile(r"\s*[=:]\s*|\s+")


def _properties(path: Path, text: str) -> dict[str, object]:
    settings: dict[str, object] = {}
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        content = line.strip()
        if not content or content[0] in "#!":
            continue
        while content.endswith("\\"):
            _, following = next(lines, (0, ""))
            content = content[:-1] + following.strip()
        key, separator, value = _partition(content)
        if not separator or not key:
            raise CannotRun(f"{path}:{number}: expected name=value")
        if key in settings:
            raise CannotRun(f"{path}:{number}: {key} appears twice")
        settings[key] = value
    return settings


def _partition(content: str) -> tuple[str, str, str]:
    match = _SEPARATOR.search(content)
    return (
        (content, "", "") if match is None else (content[: match.start()], match[0], content[match.end() :])
    )
