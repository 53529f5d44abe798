"""The command line. It parses options, calls functions that Python programs can call as well, and prints.

Importing this package imports no other module, so that an installation without the extra `cli` can name the
missing package.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `kafka-assignors` with `arguments` (by default those of the process) and return its exit code."""
    try:
        from kafka_assignors_cli.app import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"typer", "click", "rich"}:
            raise
        remedy = 'pip install "kafka-assignors[cli]"'
        print(f"kafka-assignors: error: the command line needs {error.name}: {remedy}", file=sys.stderr)
        return 2
    return run(sys.argv[1:] if arguments is None else arguments)
