"""The page, the dashboard and the alert rules of `kafka-assignors watch` use only existing metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_assignors_ops.watch.fleet import KINDS, STATES, UNDECODABLE
from kafka_assignors_ops.watch.metric_table import GROUP_METRICS, WATCH_METRICS
from kafka_assignors_replay.history.rebalances import Cause
from tools.watch_docs import PAGE, page_with_metrics

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "watch"
LABELS = {
    **{metric.name: {*metric.labels} for metric in WATCH_METRICS},
    **{metric.name: {*metric.labels, "group"} for metric in GROUP_METRICS},
}
VALUES = {
    "cause": {cause.value for cause in Cause},
    "state": {*STATES},
    "type": {"classic", "consumer"},
    "part": {*UNDECODABLE},
    "kind": {*KINDS},
}
"""The values of each label that has a fixed set of values."""


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXAMPLES / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return found


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((EXAMPLES / "prometheus-alerts.yml").read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def assert_names_exist(expression: str, named: list[str]) -> None:
    """Check the metrics of a query, and its labels with those that are named beside it."""
    metrics = re.findall(r"kafka_assignors_\w+", expression)
    assert {*metrics} <= LABELS.keys()
    counters = re.findall(r"(?:rate|increase)\((\w+)", expression)
    assert {*counters} == {metric for metric in metrics if metric.endswith("_total")}
    grouped = [label for some in re.findall(r"(?:by|on) \((.*?)\)", expression) for label in some.split(", ")]
    matched = re.findall(r"(\w+)=~?\"([^\"]*)\"", expression)
    assert metrics
    assert {*grouped, *named, *(label for label, _ in matched)} <= set().union(
        *map(LABELS.__getitem__, metrics)
    )
    assert all(value in VALUES.get(label, {value}) for label, value in matched if "$" not in value)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("kafka_assignors_group_sate", []),
        ('kafka_assignors_group_state{stat="empty"}', []),
        ('kafka_assignors_group_state{state="asleep"}', []),
        ("kafka_assignors_group_rebalances_total > 1", []),
        ("sum by (cause) (kafka_assignors_group_state)", []),
        ("kafka_assignors_watch_up", ["group"]),
    ],
)
def test_a_wrong_query_is_found(expression: str, named: list[str]) -> None:
    with pytest.raises(AssertionError):
        assert_names_exist(expression, named)


def test_the_page_has_every_metric() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_metrics(page), "run: python -m tools.watch_docs"


def test_the_dashboard_queries_what_exists_and_its_legends_name_labels_of_the_answers() -> None:
    targets = [target for panel in dashboard()["panels"] for target in panel["targets"]]
    assert len(targets) > 12
    for target in targets:
        assert_names_exist(target["expr"], re.findall(r"{{ *(\w+) *}}", target["legendFormat"]))


def test_the_dashboards_variable_lists_values_of_a_label_that_exists() -> None:
    (query,) = (each["query"] for each in dashboard()["templating"]["list"] if each["type"] == "query")
    # The call is Grafana's, not PromQL.
    (found,) = re.finditer(r"label_values\((\w+), (\w+)\)", query["query"])
    assert found[2] in LABELS[found[1]]


def test_the_dashboard_takes_its_data_source_from_the_import_and_places_no_panel_over_another() -> None:
    found = dashboard()
    assert found["id"] is None  # the server sets it
    (data_input,) = found["__inputs"]
    assert (data_input["type"], data_input["pluginId"]) == ("datasource", "prometheus")
    (source,) = (each for each in found["templating"]["list"] if each["name"] == "datasource")
    assert source["current"]["value"] == f"${{{data_input['name']}}}"
    cells = []
    for panel in found["panels"]:
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        cells += [(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len(cells) == len({*cells})
    assert max(x for x, _ in cells) < 24


def test_every_variable_that_the_dashboard_uses_is_defined() -> None:
    found = dashboard()
    defined = {each["name"] for each in [*found["templating"]["list"], *found["__inputs"]]}
    used = re.findall(r"\$(?:(\w+)|{(\w+)[^}]*})", json.dumps(found))
    # Grafana itself defines the variables with two underscores, such as $__rate_interval.
    assert {one or other for one, other in used if not one.startswith("__")} == defined


def test_the_alerts_ask_for_what_exists_and_name_labels_of_the_answers() -> None:
    assert len(alerts()) > 5
    for alert in alerts():
        said = " ".join(alert["annotations"].values())
        assert_names_exist(alert["expr"], re.findall(r"\$labels\.(\w+)", said))
