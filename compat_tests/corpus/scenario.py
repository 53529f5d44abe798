"""The scenarios of the corpus: groups in a named situation, with the optimum of each.

The data files, `data/FAMILY.jsonl`, have a scenario in each line::

    {"name": "join-of-a-third", "situation": "A third member joins …", "from": ["Java's suite"],
     "group": {…},                                     the JSON form of kafka_assignors.group_json
     "best": {"loads": [[4, 3]],                       [partitions, number of members], ascending
              "moved_then_misses": [4, 0],             least moved, and least rack misses at that
              "misses_then_moved": [0, 4]}}            the other order: least rack misses, least moved at that

`loads` is the histogram of every balanced assignment (they all have the same), including members without
partitions. "Moved" and "rack misses" are the least among the balanced assignments, and are counted as in
`docs/internals/solver.md`. "from" names the suites that cover the situation, and the issues in which it
went wrong. Of a new scenario, `optimum.best_of(parse_group(...))` is the "best".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_assignors.group import Group
from kafka_assignors.group_json import parse_group

DATA = Path(__file__).parent / "data"
FAMILIES = ("fresh", "changes", "mixed", "topics", "claims", "static", "racks")


@dataclass(frozen=True, slots=True)
class Best:
    """The common figures of the best assignments of a group; see the module for the units."""

    loads: Mapping[int, int]
    moved_then_misses: tuple[int, int]
    misses_then_moved: tuple[int, int]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Best:
        moved, misses_at_that = value["moved_then_misses"]
        misses, moved_at_that = value["misses_then_moved"]
        return cls(dict(value["loads"]), (moved, misses_at_that), (misses, moved_at_that))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A group in a situation; what the situation is, and where it comes from, is only in the file."""

    family: str
    name: str
    group: Group
    best: Best


def read_corpus(folder: Path = DATA) -> list[Scenario]:
    """All scenarios, family by family."""
    return [
        Scenario(file.stem, value["name"], parse_group(value["group"]), Best.from_json(value["best"]))
        for file in sorted(folder.glob("*.jsonl"))
        for value in map(json.loads, file.read_text(encoding="utf-8").splitlines())
    ]
