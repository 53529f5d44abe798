"""Replays in tests: results without their duration, which differs from run to run."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kafka_assignors_replay.engine import ENGINES
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.report.as_json import json_report
from kafka_assignors_replay.result import ReplayOptions, ReplayResult


def replay(path: Path | str, engine: str | None = "local", **options: Any) -> ReplayResult:
    asked = replace(ReplayOptions(path=str(path)), **options)
    return replace(run_replay(asked, lambda _: None, engine=engine), seconds=0.0)


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
