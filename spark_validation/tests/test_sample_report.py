"""`docs/sample-report.html` is the current output of `make sample-report`."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kafka_assignors_replay.report.as_html import html_report
from spark_validation.tests.replaying import replay
from tools.watch_picture import PICTURE, picture

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
    strategies, groups = made_by_make("STRATEGIES"), made_by_make("SAMPLE_GROUPS")
    now = html_report(replay("spark_validation/recorded", strategies=strategies, groups=groups))
    assert without_versions(now) == without_versions(SAMPLE.read_text("utf-8")), "run make sample-report"


# The picture of kafka-assignors watch


SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """The words of the picture; their layout depends on the release of rich."""
    found = (text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text"))
    return " ".join(found).split()


def test_the_picture_is_of_the_table_as_it_is() -> None:
    shown = texts(PICTURE.read_text(encoding="utf-8"))
    assert shown == texts(picture()), "run: make watch-picture"
    assert "checkout" in shown
