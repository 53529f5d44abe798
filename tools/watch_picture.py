"""Draws the terminal view of `kafka-assignors watch` for the recorded history into docs/watch.svg.

python -m tools.watch_picture (or `make watch-picture`)
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import CONSOLE_SVG_FORMAT, Console

from kafka_assignors_ops.watch.fleet import Fleet, FleetLimits, FleetSnapshot
from kafka_assignors_ops.watch.metric_table import WatchStatus
from kafka_assignors_ops.watch_command import watch_tables
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.generations import Record
from kafka_assignors_replay.history.records import to_micros
from kafka_assignors_replay.history_files import catalogue_rows

ROOT = Path(__file__).resolve().parent.parent
HISTORY, PICTURE = ROOT / "spark_validation" / "recorded", ROOT / "docs" / "watch.svg"
SEEN_S = 600.0
"""The picture shows this moment, counted from the first record, while the groups rebalance."""

_WIDTH = 120
_ROWS = 12
# An SVG inside a page cannot load fonts, so the picture uses the reader's font.
_FORMAT = re.sub(r"@font-face {{.*?}}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def records() -> Iterator[Record]:
    """The records of the groups, ordered by time."""
    rows = pq.read_table(HISTORY / "raw").to_pylist()
    for row in sorted(rows, key=lambda row: (row["timestamp"], row["partition"], row["offset"])):
        micros = to_micros(row["timestamp"])
        yield Record(row["partition"], row["offset"], micros, row["key"], row["value"])


def fleet_at(seen_s: float) -> FleetSnapshot:
    """The snapshot of a watch that began before the first record, `seen_s` seconds after that record."""
    found = catalogue_rows(str(HISTORY), frozenset())
    assert found is not None
    fleet = Fleet(Catalogue.from_rows(found[1]), FleetLimits())
    begin_s: float | None = None
    for record in records():
        at_s = record.micros / 1e6
        begin_s = at_s if begin_s is None else begin_s
        if at_s > begin_s + seen_s:
            break
        fleet.feed(record, at_s)
    assert begin_s is not None
    return fleet.snapshot(begin_s + seen_s)


def picture() -> str:
    """The table as SVG; the same history always gives the same text."""
    status = WatchStatus(up=True, caught_up=True, lag=0, errors=0)
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), color_system="truecolor")
    # Without an empty last line the picture cuts off the descenders of the last row.
    console.print(*watch_tables(fleet_at(SEEN_S), status, [], _ROWS), "", sep="\n")
    return console.export_svg(title="kafka-assignors watch", code_format=_FORMAT, unique_id="watch")


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
