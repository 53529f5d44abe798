"""The configuration file of a consumer: TOML, JSON or Java properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_assignors.arguments import UserError
from kafka_assignors_cli.files import excess, parse_toml, read_document, read_file


def read_settings(path: Path) -> dict[str, object]:
    """The settings in a `.toml` file, a `.json` file, or else a Java properties file.

    Dots join the names of nested tables, as in TOML.
    """
    text = read_file(path)
    if path.suffix == ".toml":
        return _flat(parse_toml(path, text))
    if path.suffix != ".json":
        return _java_properties(path, text)
    table = read_document("object of settings", text, str(path))
    if not isinstance(table, dict):
        raise UserError(f"{path}:1: expected an object of settings")
    if problem := excess(table):
        raise UserError(f"{path}: {problem}")
    return _flat(table)


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
