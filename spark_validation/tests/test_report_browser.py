"""The HTML report in a real browser: it draws, it makes no requests, and hostile names stay text.

Without a browser these tests fail under CI. Elsewhere the run ends with a line that names the skipped tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_assignors_replay.report.as_html import html_report
from spark_validation.tests.chromium import Page, find_chromium
from spark_validation.tests.report_sample import BREAKING_OUT, GROUPS, HOSTILE, LINKING, sample
from tests.hostile_names import NAMES

pytestmark = pytest.mark.exhaustive  # takes minutes, and is the same with every PySpark

INSTALL = "install chromium, or set CHROMIUM to a Chrome or Chromium executable"


class NotRun:
    """Reports at the end of the run which tests had no browser."""

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
    """The loaded report of these groups."""
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


def open_all(page: Page) -> None:
    """Open every group and expander, as a reader would."""
    page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")


def show(page: Page, width: int, theme: str) -> None:
    """Show the page at this width, in the light or dark theme, with everything open."""
    page.command(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
    )
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    open_all(page)


def test_every_plot_has_marks_of_some_size_in_it(page: Page, groups: tuple[str, ...]) -> None:
    open_all(page)
    plots = page.evaluate("document.querySelectorAll('figure .plot').length")
    assert plots == 2 + sum(4 if index < 20 else 2 for index in range(len(groups)))
    empty = """[...document.querySelectorAll('figure')].filter(figure => {
      const marks = figure.querySelectorAll(
        '.plot .bar, .plot circle, .plot path[class^=look]');
      const box = [...marks].map(mark => mark.getBoundingClientRect());
      return !box.some(each => each.width + each.height > 3);
    }).map(figure => figure.querySelector('figcaption').textContent)"""
    assert page.evaluate(empty) == []


def test_every_plot_has_a_legend(page: Page) -> None:
    open_all(page)
    without = "[...document.querySelectorAll('figure')].filter(e => !e.querySelector('.legend li')).length"
    assert page.evaluate(without) == 0


@pytest.mark.parametrize("width", [390, 1400])
def test_no_label_is_cut_and_the_page_is_as_wide_as_the_screen(page: Page, width: int) -> None:
    show(page, width, "light")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    # The text of a label is within its plot, and not under the drawing.
    cut = """[...document.querySelectorAll('.plot .label, .plot .figure, .plot .times span,'
      + '.plot .ticks span, .plot .labels span, .legend li, .tiles li, .chip, .cards td, summary'
      )].filter(label => {
        const text = document.createRange();
        text.selectNodeContents(label);
        const inner = text.getBoundingClientRect();
        const outer = label.closest('.plot, .legend, .tiles, .verdict, .cards, details')
          .getBoundingClientRect();
        const drawing = label.closest('.plot') && label.closest('.row, .plot').querySelector('svg, .track');
        const under = drawing && (box => inner.left < box.right - 1 && inner.right > box.left + 1
          && inner.top < box.bottom - 1 && inner.bottom > box.top + 1)(drawing.getBoundingClientRect());
        return inner.width && (inner.left < outer.left - 1 || inner.right > outer.right + 1 || under);
      }).map(label => label.className + ': ' + label.textContent.slice(0, 60))"""
    assert page.evaluate(cut) == []


def test_the_head_of_the_page_takes_less_than_a_third_of_a_narrow_screen(page: Page) -> None:
    """The verdict comes after the head."""
    show(page, 390, "light")
    bottom = "document.querySelector('header').getBoundingClientRect().bottom + scrollY"
    assert page.evaluate(bottom) < 844 / 3


def test_a_narrow_screen_shows_the_whole_caption_of_a_table(page: Page) -> None:
    show(page, 390, "light")
    cut = """[...document.querySelectorAll('.scroll caption')].filter(caption => {
        const text = document.createRange();
        text.selectNodeContents(caption);
        const seen = caption.closest('.scroll').getBoundingClientRect();
        return text.getBoundingClientRect().right > seen.right + 1;
      }).map(caption => caption.textContent.slice(0, 60))"""
    assert page.evaluate(cut) == []


def test_a_row_keeps_its_head_in_view_on_a_narrow_screen(page: Page) -> None:
    show(page, 390, "light")
    lost = """[...document.querySelectorAll('.scroll')].filter(scroll => {
        scroll.scrollLeft = scroll.scrollWidth;
        const head = scroll.querySelector('tbody th');
        const left = element => element.getBoundingClientRect().left;
        const gone = head && left(head) < left(scroll) - 1;
        const column = scroll.querySelector('thead th');
        const apart = column.offsetParent
          && Math.abs(left(column) - left(scroll.querySelector('tbody').rows[0].cells[0])) > 1;
        scroll.scrollLeft = 0;
        return gone || apart;
      }).map(scroll => scroll.querySelector('caption').textContent.slice(0, 60))"""
    assert page.evaluate("[...document.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth)")
    assert page.evaluate(lost) == []


def test_links_to_sections_are_large_enough_to_touch(page: Page) -> None:
    """WCAG 2.2, criterion 2.5.8: at least 24 pixels."""
    show(page, 390, "light")
    heights = page.evaluate(
        "[...document.querySelectorAll('nav a')].map(e => e.getBoundingClientRect().height)"
    )
    assert heights
    assert min(heights) >= 24


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_marks_have_contrast(page: Page, theme: str) -> None:
    """WCAG 2.2: a ratio of 4.5 for text (1.4.3), and of 3 for graphics (1.4.11)."""
    show(page, 1400, theme)
    ratios = page.evaluate("""(() => {
      const style = getComputedStyle(document.documentElement);
      const luminance = name => {
        const parts = style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi).map(part => {
          const value = parseInt(part, 16) / 255;
          return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
      };
      const ratio = (one, other) => {
        const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
      };
      const found = {};
      for (const under of ['--paper', '--panel']) {
        for (const name of ['--ink', '--faint', '--accent', '--good', '--bad'])
          found[name + ' on ' + under] = [ratio(name, under), 4.5];
        for (let look = 0; look < 7; look++)
          found['--look-' + look + ' on ' + under] = [ratio('--look-' + look, under), 3];
      }
      return found;
    })()""")
    assert len(ratios) == 24
    assert {what: ratio for what, (ratio, least) in ratios.items() if ratio < least} == {}


def test_a_difference_has_a_sign_and_not_only_a_colour(page: Page) -> None:
    differences = page.evaluate("[...document.querySelectorAll('.delta')].map(e => e.textContent)")
    assert differences
    assert all(re.fullmatch(r"[+−][\d,.]+", difference) for difference in differences)
    colours = page.evaluate(
        "[...document.querySelectorAll('.delta.ok')].map(e => getComputedStyle(e).color ==="
        " getComputedStyle(document.body).color)"
    )
    assert colours
    assert not any(colours)


def test_a_link_to_a_group_opens_it(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(e => e.open = false)")
    page.evaluate("document.querySelector('.cards a[href=\"#group-1\"]').click()")
    page.wait_until("document.getElementById('group-1').open")
    assert not page.evaluate("document.getElementById('group-2').open")


def test_nothing_on_the_page_fails(page: Page) -> None:
    open_all(page)
    assert page.errors() == []


def test_nothing_is_fetched_but_the_file_itself(page: Page) -> None:
    open_all(page)
    [address] = [address for address in page.requests() if not address.startswith("data:")]
    assert address.startswith("file://")


def plain(text: str) -> str:
    """The text as a browser shows it: the HTML parser drops nulls, and white space collapses."""
    return " ".join(text.replace("\0", "").split())


def test_hostile_names_are_shown_and_do_nothing(page: Page, groups: tuple[str, ...]) -> None:
    open_all(page)
    assert page.dialogs() == 0
    text = plain(page.evaluate("document.body.innerText"))
    for name in (HOSTILE, BREAKING_OUT, LINKING, *groups):
        assert plain(name) in text
    labels = page.evaluate("document.querySelector('.strips .plot').textContent")
    assert HOSTILE in labels
    assert page.evaluate("document.querySelectorAll('img, iframe, svg a, a[href^=javascript]').length") == 0


def test_tables_and_plots_are_there_without_javascript(page: Page) -> None:
    address = page.evaluate("location.href").partition("#")[0]
    count = "document.querySelectorAll('.plot, .plot path, .plot circle, .bar, table').length"
    everything = page.evaluate(count)
    page.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(address)
        root = page.command("DOM.getDocument")["root"]["nodeId"]
        selector = ".plot, .plot path, .plot circle, .bar, table"
        found = page.command("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"]
    finally:
        page.command("Emulation.setScriptExecutionDisabled", value=False)
        page.open(address)
    assert len(found) == everything
