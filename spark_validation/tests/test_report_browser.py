"""The HTML report in a real browser: it draws, it asks for nothing, and hostile names stay text.

Without a browser these tests fail under CI. Elsewhere the run ends with a line that names what did not run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_assignors_spark.report import html_report
from spark_validation.tests.chromium import Page, find_chromium
from spark_validation.tests.report_sample import BREAKING_OUT, GROUPS, HOSTILE, LINKING, sample
from tests.hostile_names import NAMES

INSTALL = "install chromium, or set CHROMIUM to a Chrome or Chromium executable"
DRAWN = "[...document.querySelectorAll('.plot')].filter(e => e.querySelector('.main-svg')).map(e => e.id)"


class NotRun:
    """Says at the end of the run which tests had no browser."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"WARNING: {Path(__file__).name} did not run, no browser found: {INSTALL}"
        )


@pytest.fixture(scope="module", params=[GROUPS, tuple(NAMES.values())], ids=["usual", "hostile"])
def groups(request: pytest.FixtureRequest) -> tuple[str, ...]:
    chosen: tuple[str, ...] = request.param
    return chosen


@pytest.fixture(scope="module")
def page(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, groups: tuple[str, ...]
) -> Iterator[Page]:
    """The report of these groups, loaded."""
    executable = find_chromium()
    if executable is None:
        if os.environ.get("CI"):
            pytest.fail(f"no browser to open the report in: {INSTALL}")
        plugins = request.config.pluginmanager
        if not plugins.has_plugin("report-browser-not-run"):
            plugins.register(NotRun(), "report-browser-not-run")
        pytest.skip(INSTALL)
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(html_report(sample(groups=groups)), encoding="utf-8")
    with Page(executable) as page:
        page.open(file.as_uri())
        yield page


def draw_all(page: Page) -> None:
    """Open every group and scroll every plot into view, as a reader would."""
    page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    for plot in page.evaluate("[...document.querySelectorAll('.plot')].map(e => e.id)"):
        page.evaluate(f"document.getElementById('{plot}').scrollIntoView()")
        page.wait_until(f"document.querySelector('#{plot} .main-svg') !== null")


def test_every_plot_is_drawn_with_marks_in_it(page: Page, groups: tuple[str, ...]) -> None:
    draw_all(page)
    drawn = page.evaluate(DRAWN)
    assert len(drawn) == 3 + 3 * len(groups)
    empty = (
        "[...document.querySelectorAll('.plot')]"
        ".filter(e => !e.querySelector('.bars path, .scatterlayer .point, .scatterlayer .js-line'))"
        ".map(e => e.id)"
    )
    assert page.evaluate(empty) == []


def test_nothing_on_the_page_fails(page: Page) -> None:
    draw_all(page)
    assert page.errors() == []


def test_nothing_is_fetched_but_the_file_itself(page: Page) -> None:
    draw_all(page)
    # A `data:` address carries what it names: plotly asks so which image formats the browser knows.
    [address] = [address for address in page.requests() if not address.startswith("data:")]
    assert address.startswith("file://")


def plain(text: str) -> str:
    """Without nulls, which an HTML parser drops, and with each run of white space as a browser shows it."""
    return " ".join(text.replace("\0", "").split())


def test_hostile_names_are_shown_and_do_nothing(page: Page, groups: tuple[str, ...]) -> None:
    draw_all(page)
    assert page.dialogs() == 0
    text = plain(page.evaluate("document.body.innerText"))
    for name in (HOSTILE, BREAKING_OUT, LINKING, *groups):
        assert plain(name) in text
    labels = page.evaluate("document.querySelector('#generations .yaxislayer-above').textContent")
    assert HOSTILE in labels
    assert page.evaluate("document.querySelectorAll('img, iframe, svg a, a[href^=javascript]').length") == 0


def test_the_plots_follow_the_theme(page: Page) -> None:
    def colours() -> tuple[str, str]:
        ink = page.evaluate("getComputedStyle(document.body).color")
        label = page.evaluate("getComputedStyle(document.querySelector('#moved-in-total .xtick text')).fill")
        return str(ink), str(label)

    page.evaluate("document.getElementById('moved-in-total').scrollIntoView()")
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    page.wait_until("document.querySelector('#moved-in-total .xtick text') !== null")
    light = colours()
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.wait_until(
        "getComputedStyle(document.querySelector('#moved-in-total .xtick text')).fill"
        " === getComputedStyle(document.body).color"
    )
    dark = colours()
    assert light[0] == light[1]
    assert dark[0] == dark[1] != light[0]


def test_the_tables_are_there_without_javascript(page: Page, groups: tuple[str, ...]) -> None:
    address = page.evaluate("location.href")
    page.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(address)
        root = page.command("DOM.getDocument")["root"]["nodeId"]
        found = {
            selector: len(page.command("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"])
            for selector in (".main-svg", "table", "noscript")
        }
    finally:
        page.command("Emulation.setScriptExecutionDisabled", value=False)
        page.open(address)
    assert found[".main-svg"] == 0
    assert found["table"] >= 8
    assert found["noscript"] == 3 + 3 * len(groups)
