"""Writes the data about Java for the tests without a JVM: `python -m compat_tests.java.write_data`.

- `tests/data/java_assignments.jsonl`: groups, and the assignments of Java's assignors for them
- `tests/data/java_bytes.jsonl`: samples of every kind of bytes (see `java_bytes`)
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compat_tests.java.java_bytes import KINDS, JavaBytes, random_fields
from compat_tests.java.oracle import JavaOracle
from compat_tests.java.random_groups import features, random_group
from kafka_assignors.group import Group
from kafka_assignors_cli.group_form import group_to_json

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
ASSIGNMENTS = DATA / "java_assignments.jsonl"
SAMPLES = DATA / "java_bytes.jsonl"

GROUPS = 60
SAMPLES_OF_EACH = 6


def assignments() -> Iterable[dict[str, Any]]:
    """Small groups, each with a new combination of features, and the answers of `range` and `roundrobin`."""
    with JavaOracle("range", "roundrobin") as java:
        for group in _small_and_different(GROUPS):
            answers = java.assign(group)
            yield {
                "group": group_to_json(group),
                "range": answers["range"].members,
                "roundrobin": answers["roundrobin"].members,
            }


def _small_and_different(count: int) -> Iterable[Group]:
    seen: set[frozenset[str]] = set()
    for seed in range(10_000):
        group = random_group(seed)
        kind = frozenset(features(group) - {"owned partitions", "a claim of an older generation"})
        small = len(group.members) <= 6 and sum(topic.partitions for topic in group.topics.values()) <= 60
        if small and kind not in seen:
            seen.add(kind)
            yield group
            if len(seen) == count:
                return


def samples() -> Iterable[dict[str, Any]]:
    """Java's bytes for every kind and version, with the fields that they contain."""
    with JavaBytes() as java:
        for kind, version in KINDS:
            rng = random.Random(f"stored {kind} {version}")
            for _ in range(SAMPLES_OF_EACH):
                fields = random_fields(kind, version, rng)
                data = java.write(kind, version, fields)
                yield {"kind": kind, "version": version, "fields": fields, "hex": data.hex()}


def to_lines(rows: Iterable[dict[str, Any]]) -> str:
    """JSON lines, ASCII only, so that no editor changes a character."""
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def main() -> None:
    """Write both files."""
    ASSIGNMENTS.write_text(to_lines(assignments()), encoding="ascii")
    SAMPLES.write_text(to_lines(samples()), encoding="ascii")


if __name__ == "__main__":
    main()
