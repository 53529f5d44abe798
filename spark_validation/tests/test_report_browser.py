"""The HTML report in a real browser: it draws, it makes no requests, and hostile names stay text.

Without a browser these tests fail under CI, and are skipped elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_cli.console import printable
from kafka_assignors_replay.report.as_html import html_report
from spark_validation.tests.report_sample import GROUPS, sample
from tests.hostile_names import NAMES, assert_harmless

pytestmark = pytest.mark.exhaustive  # the same with every PySpark

SHOWN = tuple(dict.fromkeys((*GROUPS, *NAMES.values())))

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # There is no sandbox for root, as which CI runs; the page is ours.
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--allow-file-access-from-files",  # for `AROUND`, which reads the frame
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
    "--dump-dom",
)

AROUND = """<!DOCTYPE html>
<meta charset="utf-8">
<style>iframe { border: 0; height: 900px }</style>
<pre id="result"></pre>
<script>
async function look(frame) {
  const {document, performance} = frame.contentWindow;
  document.querySelectorAll("details").forEach(each => each.open = true);
  result.textContent = JSON.stringify([%s]);
}
</script>
<iframe sandbox="allow-scripts allow-same-origin" width="%d" src="report.html" onload="look(this)"></iframe>
"""
"""The values of expressions, and the report in a frame, in which a dialog is an error."""

ABOUT_THE_FRAME = "An iframe which has both allow-scripts and allow-same-origin for its sandbox attribute"


def evaluate(*expressions: str, width: int = 1280) -> list[Any]:
    """The values of JavaScript expressions in the report, each group open; nothing may be on its console."""
    browsers = (os.environ.get("CHROMIUM"), *map(shutil.which, BROWSERS))
    browser = next(filter(None, browsers), None)
    if browser is None:
        install = "install chromium, or set CHROMIUM to a Chrome or Chromium executable"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no browser to open the report in: {install}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = Path(folder, "page.html")
        page.write_text(AROUND % (", ".join(f"await ({each})" for each in expressions), width))
        Path(folder, "report.html").write_text(html_report(sample(groups=SHOWN)), encoding="utf-8")
        command = [browser, *FLAGS, f"--user-data-dir={folder}/profile", page.as_uri()]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=HANG_S, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line and ABOUT_THE_FRAME not in line]
    assert console == []
    result = done.stdout.partition('<pre id="result">')[2].partition("</pre>")[0]
    values: list[Any] = json.loads(unescape(result))
    return values


def test_nothing_on_the_page_fails_and_nothing_is_fetched_but_the_file_itself() -> None:
    policy, fetched, sources = evaluate(
        "document.querySelector('meta[http-equiv=Content-Security-Policy]').content",
        "performance.getEntriesByType('resource').map(entry => entry.name)",
        "document.querySelectorAll('[src], link:not([href=\"data:,\"])').length",
    )
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-[\w+/=]+'; style-src 'unsafe-inline'; img-src data:", policy
    )
    assert [address for address in fetched if not address.startswith("data:")] == []
    assert sources == 0


def test_every_plot_has_marks_of_some_size_in_it_and_a_legend() -> None:
    empty = """[...document.querySelectorAll('figure')].filter(figure => {
      const marks = figure.querySelectorAll('.plot .bar');
      const box = [...marks].map(mark => mark.getBoundingClientRect());
      return !figure.querySelector('.legend li') || !box.some(each => each.width + each.height > 3);
    }).map(figure => figure.querySelector('figcaption').textContent)"""
    plots = "document.querySelectorAll('figure .plot').length"
    assert evaluate(plots, empty) == [1 + len(SHOWN), []]


@pytest.mark.parametrize("width", [390, 1400])
def test_no_label_is_cut_and_the_page_is_as_wide_as_the_screen(width: int) -> None:
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
    fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert evaluate("document.documentElement.clientWidth", fits, cut, width=width) == [width, True, []]


def plain(text: str) -> str:
    """The text as a browser shows it: white space collapses."""
    return " ".join(text.split())


def test_hostile_names_are_shown_and_do_nothing() -> None:
    markup, shown, foreign, scripts, links, handlers = evaluate(
        "document.documentElement.outerHTML",
        "document.body.innerText",
        "document.querySelectorAll('img, iframe').length",
        "document.scripts.length",
        "[...document.querySelectorAll('a')].map(link => link.getAttribute('href'))",
        "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(a => /^on/.test(a))",
    )
    assert_harmless(markup.replace("\t", ""))
    assert [name for name in SHOWN if plain(printable(name)) not in plain(shown)] == []
    assert (foreign, scripts, handlers) == (0, 1, [])
    assert all(re.match(r"#|\./javascript%3Atables/", link) for link in links)


def test_a_link_to_a_group_opens_it() -> None:
    follow = """new Promise(followed => {
      document.querySelectorAll('details').forEach(each => each.open = false);
      frame.contentWindow.addEventListener('hashchange', followed);
      document.querySelector('.cards a[href="#group-1"]').click();
    }).then(() => ['group-1', 'group-2'].map(id => document.getElementById(id).open))"""
    assert evaluate(follow) == [[True, False]]
