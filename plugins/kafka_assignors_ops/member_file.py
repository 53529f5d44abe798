"""The configuration file of a consumer: TOML, JSON or Java properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_assignors.arguments import UserError
from kafka_assignors.text_files import excess
from kafka_assignors_cli.files import parse_toml, read_document, read_file


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
            raise UserError(f"{path}:1: expected an object of settings")
        if problem := excess(table):
            raise UserError(f"{path}: {problem}")
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
            raise UserError(f"{path}:{number}: expected name=value")
        key, value = content[: separator.start()], content[separator.end() :]
        if key in settings:
            raise UserError(f"{path}:{number}: {key} appears twice")
        settings[key] = value
    return settings
