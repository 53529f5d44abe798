"""A run as a JSON file: the measurements, settings and versions."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.pause.summary import PeerSummary, Timeline

__all__ = ["Results"]


@dataclass(frozen=True, slots=True)
class Results:
    """`about`: versions, settings, machine; `labels`: the name of each peer in the tables."""

    about: Mapping[str, Any]
    labels: Mapping[str, str]
    summaries: Sequence[PeerSummary]
    timelines: Sequence[Timeline]

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
            timelines=[Timeline(**one) for one in data["timelines"]],
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
