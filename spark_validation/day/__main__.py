"""Take a day of a fleet, and the recorded history, through archive, replay, validate and report.

python -m spark_validation.day --groups 500 --generations 20000 OUT
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from compat_tests.support.kafka_cluster import Kafka, KafkaCluster
from kafka_assignors_cli import main as command
from kafka_assignors_replay.archive import ArchiveOptions
from kafka_assignors_replay.archive.run import run_archive
from kafka_assignors_replay.spark.spark_session import spark_session
from spark_validation.day.broker import SETTINGS, archived, publish
from spark_validation.fleet import history as fleet
from spark_validation.fleet.profile import FleetOptions
from spark_validation.tests.chromium import Page, find_chromium

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "spark_validation" / "recorded"
POLICIES = ("policy.toml", "strict-policy.toml")
WIDTH, HEIGHT = 1280, 900
SECTIONS = ("verdict", "strategies", "causes", "timeline", "groups", "excluded")


@dataclass(slots=True)
class Table:
    """The steps and their durations: one line of a Markdown table for each step."""

    lines: list[str]

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time the block; the block gets a function that adds its result."""
        outcome: list[str] = []
        started = time.monotonic()
        yield outcome.append
        self.lines.append(f"| {name} | {time.monotonic() - started:.1f} | {'; '.join(outcome)} |")
        print(self.lines[-1], file=sys.stderr, flush=True)


def through(name: str, history: Path, kafka: Kafka, out: Path, strategies: str, table: Table) -> None:
    """Archive, replay and validate one history, and open its report in a browser."""
    archive, results = out / f"{name}-archive", out / name
    with table.step(f"{name}: written to the broker") as say:
        written = publish(kafka, f"{name}-offsets", history)
        say(f"{len(written):,} records")
    with table.step(f"{name}: archive --once") as say:
        options = ArchiveOptions(
            str(archive), kafka.bootstrap, once=True, topic=f"{name}-offsets", timeout_seconds=60
        )
        run_archive(options, lambda _: None, lambda words: print(words, file=sys.stderr), threading.Event())
        if archived(archive) != written:
            raise SystemExit(f"{archive} does not hold what was written")
        size = sum(file.stat().st_size for file in (archive / "raw").rglob("*.parquet"))
        say(f"{len(written):,} records, the same; {size / 2**20:,.1f} MiB of Parquet")

    # The broker does not have the topics that these groups read, so the history's catalogue is used.
    kept = out / f"{name}-history"
    kept.mkdir()
    (kept / "raw").symlink_to(archive / "raw")
    (kept / "topics.parquet").symlink_to(next(history.glob("topics*")))
    report, document = results / "report.html", results / "report.json"
    with table.step(f"{name}: replay") as say:
        asked = ["--tables", str(results / "tables"), "--report", str(report), "--json", str(document)]
        ended = command(["replay", str(kept), "--strategy", strategies, *asked])
        if ended != 0:
            raise SystemExit(f"replay ended with {ended}")
        html, data = (file.stat().st_size / 2**20 for file in (report, document))
        say(f"report of {html:,.1f} MiB, JSON of {data:,.1f} MiB")
    for policy in POLICIES:
        with table.step(f"{name}: validate, {policy}") as say:
            ended = command(["validate", str(document), "--policy", str(ROOT / "examples" / policy)])
            say({0: "holds", 1: "violated"}.get(ended, "not judged"))
    browser = find_chromium()
    if browser is not None:
        with table.step(f"{name}: report in a browser") as say:
            say(f"{screenshots(browser, report)} screenshots beside it")


def screenshots(browser: str, report: Path) -> int:
    """Take a screenshot of the window for each section of the report."""
    with Page(browser, width=WIDTH, height=HEIGHT) as page:
        page.open(report.as_uri())
        for section in SECTIONS:
            page.evaluate(f"document.getElementById('{section}').scrollIntoView()")
            page.wait_until(
                "[...document.querySelectorAll('.plot')].every(e => { const at = e.getBoundingClientRect();"
                " return at.bottom < 0 || at.top > innerHeight || e.closest('details:not([open])')"
                " || e.querySelector('.main-svg') })"
            )
            page.screenshot(report.with_name(f"{section}.png"))
        return len(SECTIONS)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m spark_validation.day",
        description="Write a day of a synthetic fleet, and the recorded history, to topics of a broker; "
        "archive them, replay what was archived, hold it against the policies of the examples, and open the "
        "reports in Chromium. OUT has everything afterwards; what was done is printed as a table.",
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="a new directory")
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--generations", type=int, default=20_000, help="of all groups, about")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strategy", metavar="NAME,…", default="range,cooperative-sticky")
    parser.add_argument("--master", default="local[2]", help="Spark's")
    given = parser.parse_args()
    if given.out.exists():
        parser.error(f"{given.out} exists: give a new directory")
    out = given.out.resolve()
    out.mkdir(parents=True)

    table = Table(["| step | s | |", "|---|---:|---|"])
    made = out / "fleet"
    with spark_session(given.master) as spark, KafkaCluster(settings=SETTINGS, heap="1g") as kafka:
        with table.step("fleet: made") as say:
            fleet.write(spark, FleetOptions(given.groups, given.generations, 1.0, given.seed), str(made))
            say(f"{given.groups:,} groups, about {given.generations:,} generations, one day")
        through("fleet", made, kafka, out, given.strategy, table)
        through("recorded", RECORDED, kafka, out, f"{given.strategy},rack-aware-sticky", table)
    print("\n".join(table.lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
