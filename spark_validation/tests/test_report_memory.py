"""The memory for writing a JSON report: it does not hold the whole text."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors_cli.output_files import write_lines
from kafka_assignors_replay.report.as_json import json_report_lines
from kafka_assignors_replay.result import ReplayResult
from spark_validation.tests.report_sample import sample

pytestmark = pytest.mark.exhaustive

WRITER = 1 << 20
"""The memory limit of a writer in bytes: its buffer, one line, the encoder, and uncollected garbage."""

OF_A_GROUP = 1 << 10
"""The memory limit for each group in bytes: its finding, which has a rank among all findings."""


def written(result: ReplayResult, file: Path) -> tuple[int, int]:
    """The peak of memory for writing the result's report, in bytes, and the size of the file."""
    tracemalloc.start()
    try:
        write_lines(file, json_report_lines(result))
        return tracemalloc.get_traced_memory()[1], file.stat().st_size
    finally:
        tracemalloc.stop()


def groups(count: int) -> tuple[str, ...]:
    return tuple(f"group-{number}" for number in range(count))


def test_the_memory_of_a_writer_does_not_grow_with_the_timeline(tmp_path: Path) -> None:
    few = sample(groups=groups(4))
    peak, size = written(replace(few, timeline=few.timeline * 60), tmp_path / "report.json")
    assert size > 4 * WRITER
    assert peak < WRITER


def test_of_each_group_a_writer_holds_the_finding_alone(tmp_path: Path) -> None:
    count = 150
    result = sample(groups=groups(count))
    peak, size = written(result, tmp_path / "report.json")
    assert size > 20_000 * count
    assert peak < WRITER + OF_A_GROUP * count


def test_a_report_whose_lists_are_empty_is_json() -> None:
    result = replace(sample(), groups=(), verdicts=(), timeline=(), damaged=())
    document = json.loads("\n".join(json_report_lines(result)))
    assert document["verdicts"] == document["damaged"] == []
