"""The page, the dashboard and the alert rules of `kafka-assignors watch` use only existing metrics."""

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
        (f"{GROUP}sate", f"no metric {GROUP}sate"),
        (f'{GROUP}state{{stat="empty"}}', "no label stat"),
        (f'{GROUP}state{{state="asleep"}}', "label state is never 'asleep'"),
        (f"sum by (cause) (increase({GROUP}rebalances_total[1h]))", "no label cause"),
        (f"{GROUP}rebalances_total > 1", "is a counter, inside no function"),
        (f"{GROUP}members and {GROUP}info", "no series has both"),
        (f"{GROUP}members and on (group) kafka_assignors_watch_up", "no label group"),
        ("1 + 1", "asks for no metric"),
    ],
)
def test_a_wrong_query_is_found(expression: str, said: str) -> None:
    with pytest.raises(WrongQuery, match=re.escape(said)):
        result_labels(expression)


def test_the_page_has_every_metric() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_metrics(page), "run: python -m tools.watch_docs"


def test_the_dashboard_queries_what_exists_and_its_legends_name_labels_of_the_answers() -> None:
    targets = [target for panel in dashboard()["panels"] for target in panel["targets"]]
    assert len(targets) > 12
    for target in targets:
        named = re.findall(r"{{ *(\w+) *}}", target["legendFormat"])
        # Grafana substitutes a duration before it queries.
        expression = target["expr"].replace("$__rate_interval", "5m")
        require_labels(named, result_labels(expression), target["expr"])


def test_the_dashboards_variable_lists_values_of_a_label_that_exists() -> None:
    (query,) = (each["query"] for each in dashboard()["templating"]["list"] if each["type"] == "query")
    # The call is Grafana's, not PromQL.
    (found,) = re.finditer(r"label_values\((\w+), (\w+)\)", query["query"])
    require_labels([found[2]], labels_of(found[1]), query["query"])


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
        require_labels(re.findall(r"\$labels\.(\w+)", said), result_labels(alert["expr"]), alert["alert"])
