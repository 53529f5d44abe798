"""Writes the metrics of `kafka-assignors watch` into docs/monitoring.md, generated from the metrics.

python -m tools.watch_docs
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafka_assignors_ops.watch.metric_table import GROUP_METRICS, WATCH_METRICS, WatchedMetric
from tools.generated_part import with_part

PAGE = Path(__file__).resolve().parent.parent / "docs" / "monitoring.md"


def page_with_metrics(page: str) -> str:
    """The page, with the table of metrics generated again."""
    rows = [_row(metric, ("group", *metric.labels)) for metric in GROUP_METRICS]
    rows += [_row(metric, metric.labels) for metric in WATCH_METRICS]
    return with_part(page, "metrics", "| metric | type | labels | |\n|---|---|---|---|\n" + "".join(rows))


def _row(metric: WatchedMetric[Any], labels: tuple[str, ...]) -> str:
    return f"| `{metric.name}` | {metric.kind} | {_labels(labels)} | {metric.help} |\n"


def _labels(labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in labels)


if __name__ == "__main__":
    PAGE.write_text(page_with_metrics(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
