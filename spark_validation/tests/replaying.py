"""Replays in tests: results without their duration, which differs from run to run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

from kafka_assignors_replay import local_engine
from kafka_assignors_replay.engine import ENGINES
from kafka_assignors_replay.history.group_fold import FoldWork
from kafka_assignors_replay.history.sums import GroupSums
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.report.as_json import json_report_lines
from kafka_assignors_replay.result import ReplayOptions, ReplayResult


def replay(path: Path | str | None = None, engine: str | None = "local", **options: Any) -> ReplayResult:
    asked = replace(ReplayOptions(path=None if path is None else str(path)), **options)
    with folding_here():
        return replace(run_replay(asked, lambda _: None, engine=engine), seconds=0.0)


@contextmanager
def folding_here() -> Iterator[None]:
    """The local engine folds in this process: one of its own, as a replay starts, takes a second or two."""
    with mock.patch.object(local_engine, "_in_processes", _in_this_process):
        yield


def _in_this_process(work: FoldWork, files: list[str]) -> Iterator[list[GroupSums]]:
    with mock.patch.object(local_engine, "_work", work, create=True):
        for each in files:
            yield local_engine._fold_file(each)


def json_report(result: ReplayResult) -> str:
    """The result as the file of `--json` has it."""
    return "".join(f"{line}\n" for line in json_report_lines(result))


def replay_on_both_engines(path: Path | str, **options: Any) -> ReplayResult:
    """The result, after a check that both engines report the same."""
    on_spark, here = (replay(path, engine, **options) for engine in ENGINES)
    assert json_report(on_spark) == json_report(here)
    return here


@dataclass
class Replayed:
    """The result of a replay, and what its JSON report says of each group."""

    result: ReplayResult

    @cached_property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(json_report(self.result)))

    def group(self, name: str) -> dict[str, Any]:
        (found,) = (each for each in self.document["groups"] if each["group"] == name)
        return dict(found)

    def figures(self, name: str) -> list[dict[str, Any]]:
        return [each for each in self.document["verdicts"] if each["group"] == name]
