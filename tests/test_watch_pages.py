"""The page, the dashboard and the alert rules of `kafka-assignors watch` name what there is, and no more."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka_assignors_spark.folds.causes import Cause
from kafka_assignors_spark.watch.group import STATES
from kafka_assignors_spark.watch.metrics import GROUP_METRICS, WATCH_METRICS
from tools.watch_docs import PAGE, page_with_metrics

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "watch"
METRICS = {metric.name: metric for metric in (*GROUP_METRICS, *WATCH_METRICS)}
_METRIC = re.compile(r"\bkafka_assignors_\w+")
_SELECTOR = re.compile(r"\b(kafka_assignors_\w+)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_VALUES = {"cause": {cause.value for cause in Cause}, "state": set(STATES), "type": {"classic", "consumer"}}


def labels_of(name: str) -> set[str]:
    metric = METRICS[name]
    return {*metric.labels, *(["group"] if metric in GROUP_METRICS else [])}


def require_known(expression: str) -> None:
    """Every metric, every label of it, and every value of a label that has a fixed set exists."""
    names = _METRIC.findall(expression)
    assert names, expression
    for name in names:
        assert name in METRICS, expression
    for name, matchers in _SELECTOR.findall(expression):
        for label, operator, value in _MATCHER.findall(matchers):
            assert label in labels_of(name), expression
            if operator == "=" and label in _VALUES:
                assert value in _VALUES[label], expression
    for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
        for label in (each.strip() for each in grouped.split(",")):
            assert any(label in labels_of(name) for name in names), expression


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXAMPLES / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return found


def alert_expressions() -> Iterator[str]:
    """The expressions of the rules, folded as YAML folds them."""
    text = (EXAMPLES / "prometheus-alerts.yml").read_text(encoding="utf-8")
    for found in re.finditer(r"^        expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)", text, re.MULTILINE):
        yield " ".join((found[1] or found[2]).split())


def test_the_page_has_every_metric() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_metrics(page), "run: python -m tools.watch_docs"


def test_the_dashboard_queries_metrics_and_labels_that_exist() -> None:
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    assert len(expressions) > 12
    for expression in expressions:
        require_known(expression)
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            require_known(variable["query"]["query"])


def test_the_dashboard_shows_every_metric_that_a_group_is_judged_by() -> None:
    text = json.dumps(dashboard())
    for name in ("generation_causes", "moved_partitions", "least_moved_partitions", "rebalances"):
        assert f"kafka_assignors_group_{name}_total" in text
    for name in ("imbalance_ratio", "members", "state", "info"):
        assert f"kafka_assignors_group_{name}" in text


def test_the_dashboard_has_what_an_import_into_grafana_needs() -> None:
    found = dashboard()
    assert found["schemaVersion"] >= 36
    assert found["title"]
    assert found["id"] is None  # the server gives one
    (data_input,) = found["__inputs"]
    assert (data_input["type"], data_input["pluginId"]) == ("datasource", "prometheus")
    variables = {variable["name"]: variable for variable in found["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert variables["datasource"]["current"]["value"] == f"${{{data_input['name']}}}"
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    used = {panel["type"] for panel in panels}
    assert used == {each["id"] for each in found["__requires"] if each["type"] == "panel"}
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        covered = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not covered & cells
        cells |= covered
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_the_alerts_use_metrics_labels_and_values_that_exist() -> None:
    expressions = list(alert_expressions())
    text = (EXAMPLES / "prometheus-alerts.yml").read_text(encoding="utf-8")
    assert len(expressions) == text.count("- alert: ") > 5
    for expression in expressions:
        require_known(expression)
