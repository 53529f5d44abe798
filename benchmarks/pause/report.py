"""A run as a JSON file, and the tables of an earlier one.

python -m benchmarks.pause.report benchmarks/pause/results/60.json
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.pause.summary import PeerSummary
from benchmarks.pause.tables import markdown, tables

__all__ = ["Results"]


@dataclass(frozen=True, slots=True)
class Results:
    """`about`: versions, settings, machine; `labels`: the name of each peer in the tables."""

    about: Mapping[str, Any]
    labels: Mapping[str, str]
    summaries: Sequence[PeerSummary]

    def write(self, file: Path) -> None:
        data = _without_nan(dataclasses.asdict(self))
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(data, indent=None, separators=(",", ":")) + "\n", encoding="utf-8")
        partial.rename(file)

    @classmethod
    def read(cls, file: Path) -> Results:
        data = json.loads(file.read_text(encoding="utf-8"))
        return cls(
            about=data["about"],
            labels=data["labels"],
            summaries=[PeerSummary.from_json(one) for one in data["summaries"]],
        )


def _without_nan(value: Any) -> Any:
    """Replace NaN by None, since JSON has no NaN."""
    match value:
        case float():
            return None if math.isnan(value) else value
        case dict():
            return {key: _without_nan(one) for key, one in value.items()}
        case list() | tuple():
            return [_without_nan(one) for one in value]
    return value


def main(file: Annotated[Path, typer.Argument(exists=True)]) -> None:
    """Print the tables of a run that was kept with --json."""
    results = Results.read(file)
    print(markdown(tables(results.summaries, results.labels)), end="")


if __name__ == "__main__":
    typer.run(main)
