"""`docs/sample-report.html` is the current output of `make sample-report`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.report.as_html import html_report
from kafka_assignors_replay.result import ReplayOptions

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "docs/sample-report.html"


def made_by_make(variable: str) -> tuple[str, ...]:
    found = re.search(rf"^{variable} \??:?= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return tuple(re.split("[, ]", found[1]))


def without_versions(document: str) -> str:
    """The document without the versions that made it and the duration."""
    return re.sub(r"<dt>(?:kafka-assignors|pyarrow|pyspark|python|took)</dt><dd>.*?</dd>\n", "", document)


def test_the_sample_report_is_what_the_replay_writes_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    options = ReplayOptions(
        path="spark_validation/recorded",
        strategies=made_by_make("STRATEGIES"),
        groups=made_by_make("SAMPLE_GROUPS"),
    )
    now = html_report(run_replay(options, lambda _: None, engine="local"))
    assert without_versions(now) == without_versions(SAMPLE.read_text("utf-8")), "run make sample-report"
