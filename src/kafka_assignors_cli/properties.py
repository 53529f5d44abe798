"""Client properties from a file: what must not be seen in a list of processes or in a shell's history."""

from __future__ import annotations

from pathlib import Path

from kafka_assignors_cli.errors import CannotRun
from kafka_assignors_cli.textfiles import read_file

__all__ = ["read_properties"]


def read_properties(path: Path) -> dict[str, str]:
    """librdkafka's properties out of a file with one `name=value` per line; `#` and `!` begin a comment.

    A value is taken as it stands, without quotes or escapes, for passwords may hold anything. Errors name
    the line and never show a value.
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
            # Every Java client's file has it, and librdkafka's own message would not say what to do.
            raise CannotRun(
                f"{path}:{number}: sasl.jaas.config is of Java clients: give sasl.username and sasl.password"
            )
        if name in properties:
            raise CannotRun(f"{path}:{number}: {name} appears twice")
        properties[name] = value
    return properties
