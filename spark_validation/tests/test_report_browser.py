"""The HTML report in a real browser: it draws, it makes no requests, and hostile names stay text.

Without a browser these tests fail under CI, and are skipped elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kafka_assignors_cli.console import printable
from kafka_assignors_replay.report.as_html import html_report
from spark_validation.tests.chromium import Page, find_chromium
from spark_validation.tests.report_sample import GROUPS, sample
from tests.hostile_names import NAMES, assert_harmless

pytestmark = pytest.mark.exhaustive  # the same with every PySpark

SHOWN = tuple(dict.fromkeys((*GROUPS, *NAMES.values())))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The loaded report, with each group and expander open."""
    executable = find_chromium()
    if executable is None:
        install = "install chromium, or set CHROMIUM to a Chrome or Chromium executable"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no browser to open the report in: {install}")
    file: Path = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(html_report(sample(groups=SHOWN)), encoding="utf-8")
    with closing(Page(executable)) as page:
        page.open(file.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        yield page


def test_nothing_on_the_page_fails_and_nothing_is_fetched_but_the_file_itself(page: Page) -> None:
    assert page.errors() == []
    [address] = [address for address in page.requests() if not address.startswith("data:")]
    assert address.startswith("file://")
    policy = page.evaluate("document.querySelector('meta[http-equiv=Content-Security-Policy]').content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert page.evaluate("document.querySelectorAll('[src], link:not([href=\"data:,\"])').length") == 0


def test_every_plot_has_marks_of_some_size_in_it_and_a_legend(page: Page) -> None:
    plots = page.evaluate("document.querySelectorAll('figure .plot').length")
    assert plots == 1 + len(SHOWN)
    empty = """[...document.querySelectorAll('figure')].filter(figure => {
      const marks = figure.querySelectorAll('.plot .bar');
      const box = [...marks].map(mark => mark.getBoundingClientRect());
      return !figure.querySelector('.legend li') || !box.some(each => each.width + each.height > 3);
    }).map(figure => figure.querySelector('figcaption').textContent)"""
    assert page.evaluate(empty) == []


@pytest.mark.parametrize("width", [390, 1400])
def test_no_label_is_cut_and_the_page_is_as_wide_as_the_screen(page: Page, width: int) -> None:
    page.command(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
    )
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    # The text of a label is within its plot, and not under the drawing.
    cut = """[...document.querySelectorAll(
      '.plot .label, .plot .figure, .legend li, .tiles li, .chip, .cards td, summary')].filter(label => {
        const text = document.createRange();
        text.selectNodeContents(label);
        const inner = text.getBoundingClientRect();
        const outer = label.closest('.plot, .legend, .tiles, .verdict, .cards, details')
          .getBoundingClientRect();
        const drawing = label.closest('.plot') && label.closest('.row, .plot').querySelector('.track');
        const under = drawing && (box => inner.left < box.right - 1 && inner.right > box.left + 1
          && inner.top < box.bottom - 1 && inner.bottom > box.top + 1)(drawing.getBoundingClientRect());
        return inner.width && (inner.left < outer.left - 1 || inner.right > outer.right + 1 || under);
      }).map(label => label.className + ': ' + label.textContent.slice(0, 60))"""
    assert page.evaluate(cut) == []


def plain(text: str) -> str:
    """The text as a browser shows it: white space collapses."""
    return " ".join(text.split())


def test_hostile_names_are_shown_and_do_nothing(page: Page) -> None:
    assert page.dialogs() == 0
    assert_harmless(page.evaluate("document.documentElement.outerHTML").replace("\t", ""))
    text = plain(page.evaluate("document.body.innerText"))
    for name in SHOWN:
        assert plain(printable(name)) in text
    assert page.evaluate("document.querySelectorAll('img, iframe').length") == 0
    assert page.evaluate("document.scripts.length") == 1
    links = page.evaluate("[...document.querySelectorAll('a')].map(link => link.getAttribute('href'))")
    assert all(re.match(r"#|\./javascript%3Atables/", link) for link in links)
    handlers = (
        "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(a => /^on/.test(a))"
    )
    assert page.evaluate(handlers) == []


def test_a_link_to_a_group_opens_it(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(e => e.open = false)")
    page.evaluate("document.querySelector('.cards a[href=\"#group-1\"]').click()")
    page.wait_until("document.getElementById('group-1').open")
    assert not page.evaluate("document.getElementById('group-2').open")
