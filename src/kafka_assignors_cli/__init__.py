"""The command line. It parses, calls and prints; what it calls can be had from Python as well.

Importing this package imports nothing else, so that an installation without the extra `cli` can still say
what it lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `kafka-assignors` with `arguments` (those of the process if None) and return its exit code."""
    try:
        from kafka_assignors_cli.app import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"typer", "click", "rich"}:
            raise
        remedy = 'pip install "kafka-assignors[cli]"'
        print(f"kafka-assignors: error: the command line needs {error.name}: {remedy}", file=sys.stderr)
        return 2
    return run(sys.argv[1:] if arguments is None else arguments)
