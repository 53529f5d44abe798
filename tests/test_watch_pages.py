"""The page, the dashboard and the alert rules of `kafka-assignors watch` name what there is, and no more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.promql import WrongQuery, labels_of, require_labels, result_labels
from tools.watch_docs import PAGE, page_with_metrics

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "watch"
GROUP = "kafka_assignors_group_"
CAUSES = f"{GROUP}generation_causes_total"


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXAMPLES / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return found


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((EXAMPLES / "prometheus-alerts.yml").read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("sum(", "unclosed left parenthesis"),
        (f"{GROUP}sate", f"no metric {GROUP}sate"),
        (f'{GROUP}state{{stat="empty"}}', "no label stat"),
        (f'{GROUP}state{{state="asleep"}}', "label state is never 'asleep'"),
        (f"sum by (cause) (increase({GROUP}rebalances_total[1h]))", "no label cause"),
        (f"{GROUP}rebalances_total > 1", "is a counter, inside no function"),
        (f"rate({GROUP}members[5m])", "is a gauge, inside rate"),
        (f"{GROUP}members and {GROUP}info", "no series has both"),
        (f"{GROUP}members and on (cause) increase({CAUSES}[1h])", "no label cause"),
        (f"{GROUP}members and on (group) kafka_assignors_watch_up", "no label group"),
        ("1 + 1", "asks for no metric"),
    ],
)
def test_a_wrong_query_is_found(expression: str, said: str) -> None:
    with pytest.raises(WrongQuery, match=re.escape(said)):
        result_labels(expression)


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        (f"{GROUP}members", {"group", "instance", "job"}),
        (f"sum({GROUP}members) / 2", set()),
        (f"topk(2, sum by (group) ({GROUP}members))", {"group"}),
        (f"sum without (instance, job) (rate({CAUSES}[5m]))", {"group", "cause"}),
        (f"{GROUP}state == 1 and on (group) {GROUP}members", {"group", "state", "instance", "job"}),
        (f"{GROUP}members - on (group) {GROUP}idle_members", {"group"}),
    ],
)
def test_the_labels_that_a_query_gives(expression: str, labels: set[str]) -> None:
    assert result_labels(expression) == labels


def test_the_page_has_every_metric() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_metrics(page), "run: python -m tools.watch_docs"


def test_the_dashboard_queries_what_exists_and_its_legends_name_labels_of_the_answers() -> None:
    targets = [target for panel in dashboard()["panels"] for target in panel["targets"]]
    assert len(targets) > 12
    for target in targets:
        named = re.findall(r"{{ *(\w+) *}}", target["legendFormat"])
        # Grafana puts a duration in before it asks.
        expression = target["expr"].replace("$__rate_interval", "5m")
        require_labels(named, result_labels(expression), target["expr"])


def test_the_dashboards_variable_lists_values_of_a_label_that_exists() -> None:
    (query,) = (each["query"] for each in dashboard()["templating"]["list"] if each["type"] == "query")
    # The call is Grafana's own, not PromQL.
    (found,) = re.finditer(r"label_values\((\w+), (\w+)\)", query["query"])
    require_labels([found[2]], labels_of(found[1]), query["query"])


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


def test_the_alerts_ask_for_what_exists_and_name_labels_of_the_answers() -> None:
    assert len(alerts()) > 5
    for alert in alerts():
        said = " ".join(alert["annotations"].values())
        require_labels(re.findall(r"\$labels\.(\w+)", said), result_labels(alert["expr"]), alert["alert"])
