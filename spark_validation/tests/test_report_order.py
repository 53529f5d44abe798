"""The first view of the HTML report, and the parts behind expanders."""

from __future__ import annotations

import re
from dataclasses import replace

from kafka_assignors_replay.report.as_html import html_report
from kafka_assignors_replay.result import RECORDED
from spark_validation.tests.report_sample import result_of, sample, verdict


def section(document: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">.*?</section>', document, re.DOTALL)
    assert found is not None
    return " ".join(found[0].split())


def without_closed_expanders(html: str) -> str:
    """The visible part of the page before a reader opens an expander."""
    innermost = re.compile(r"<details[^>]*(?<!open)>(?:(?!<details).)*?</details>", re.DOTALL)
    while (shorter := innermost.sub(_summary, html)) != html:
        html = shorter
    return html


def _summary(details: re.Match[str]) -> str:
    return details[0].partition("<summary>")[2].partition("</summary>")[0]


def test_the_first_list_has_ten_changes_and_the_table_behind_it_has_all() -> None:
    pairs = [
        (verdict(f"g-{n:02}", RECORDED, moved=50), verdict(f"g-{n:02}", "sticky", moved=n)) for n in range(12)
    ]
    first = section(html_report(result_of(*(each for pair in pairs for each in pair))), "verdict")
    assert first.count('<li class="gain">') == 10
    seen = without_closed_expanders(first)
    assert "All figures of 12 groups, before and after, 2 more changes among them" in seen
    assert "<table" not in seen
    assert first.count('<tr> <th scope="row">') == 12


def test_a_check_that_passes_is_a_figure_and_one_that_fails_is_open_and_comes_first() -> None:
    result = sample()
    passing = html_report(result)
    assert "20 of 20 assignments match" in section(passing, "verdict")
    assert "<table" not in without_closed_expanders(section(passing, "accuracy"))
    [java, aiokafka] = result.truth.clients
    truth = replace(result.truth, clients=(replace(java, matched=19, unexplained=1), aiokafka))
    failing = html_report(replace(result, truth=truth))
    first = section(failing, "verdict")
    assert "19 of 20 assignments match" in first
    assert first.index("The accuracy check fails") < first.index('<ul class="verdict">')
    assert "<table" in without_closed_expanders(section(failing, "accuracy"))
