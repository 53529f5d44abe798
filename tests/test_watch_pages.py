"""The page, the dashboard and the alert rules of `kafka-assignors watch` use only existing metrics."""

from __future__ import annotations

import enum
import json
import re
import typing
from collections.abc import Iterator
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
    assert found["id"] is None  # the server sets it
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


GRAFANAS_OWN = re.compile(r"__\w+")
"""Variables that Grafana itself defines, such as $__rate_interval."""


def test_every_variable_that_the_dashboard_uses_is_defined() -> None:
    found = dashboard()
    defined = {variable["name"] for variable in found["templating"]["list"]}
    defined |= {each["name"] for each in found["__inputs"]}
    used = {
        name for pair in re.findall(r"\$(?:(\w+)|{(\w+)[^}]*})", json.dumps(found)) for name in pair if name
    }
    assert {name for name in used if not GRAFANAS_OWN.fullmatch(name)} == defined


OUTSIDE_THE_SCHEMA = {"__inputs", "__requires", "id", "templating.list.1.definition"}
"""Fields for the import and the server, and the text that Grafana shows for a variable's query."""


def test_the_dashboard_keeps_to_grafanas_schema() -> None:
    assert {*against_the_schema("Dashboard", dashboard())} == OUTSIDE_THE_SCHEMA


@pytest.mark.parametrize(
    ("panel", "said"),
    [
        ({"type": "stat", "options": {"colourMode": "value"}}, "options.colourMode"),
        ({"type": "stat", "fieldConfig": {"default": {"unit": "short"}}}, "fieldConfig.default"),
        ({"type": "stat", "gridPos": {"h": "4", "w": 3, "x": 0, "y": 0}}, "h: '4'"),
        ({"type": "timeseries", "targets": [{"refId": "A", "expression": "up"}]}, "targets.0.expression"),
        ({"type": "timeseries", "options": {"legend": {"displayMode": "rows"}}}, "'rows' is no <enum"),
    ],
)
def test_a_panel_that_grafana_does_not_know_is_found(panel: dict[str, Any], said: str) -> None:
    for target in panel.get("targets", ()):
        target["datasource"] = {"type": "prometheus"}
    found = [*against_the_schema("Panel", panel)]
    assert any(said in each for each in found), found


def against_the_schema(kind: str, value: dict[str, Any]) -> Iterator[str]:
    """The fields of a dashboard or panel that Grafana's published classes lack or type differently."""
    sdk = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason="it needs Python 3.11")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    register_default_plugins()  # the options of each kind of panel, and Prometheus queries
    read = getattr(sdk, kind).from_json(value)
    yield from wrong_types(read, kind)
    yield from lost(value, json.loads(JSONEncoder().encode(read)))


def lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """The paths whose value changes when the schema's classes read and write it."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            yield from lost(before[key], after.get(key), f"{path}.{key}" if path else key)
            if key not in after and before[key] is None:
                yield f"{path}.{key}" if path else key
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(one, other, f"{path}.{number}")
    elif before != after:
        yield path


def wrong_types(value: Any, path: str) -> Iterator[str]:
    """The attributes of the schema's classes in `value` that do not have their declared type."""
    for name, declared in typing.get_type_hints(type(value)).items():
        held = getattr(value, name)
        if not _fits(held, declared):
            yield f"{path}.{name}: {held!r} is no {declared}"
        for each in held if isinstance(held, list) else [held]:
            if type(each).__module__.startswith("grafana_foundation_sdk.models"):
                yield from wrong_types(each, f"{path}.{name}")


def _fits(value: Any, declared: Any) -> bool:
    arguments = typing.get_args(declared)
    match typing.get_origin(declared):
        case typing.Union:
            return any(_fits(value, each) for each in arguments)
        case typing.Literal:
            return value in arguments
        case origin if origin is list:
            return isinstance(value, list) and all(_fits(each, arguments[0]) for each in value)
        case origin if origin is dict:
            return isinstance(value, dict) and all(_fits(each, arguments[1]) for each in value.values())
    if declared in (object, Any):
        return True
    if issubclass(declared, enum.Enum):
        return value in [each.value for each in declared]
    return isinstance(value, (int, float) if declared is float else declared)


def test_the_alerts_ask_for_what_exists_and_name_labels_of_the_answers() -> None:
    assert len(alerts()) > 5
    for alert in alerts():
        said = " ".join(alert["annotations"].values())
        require_labels(re.findall(r"\$labels\.(\w+)", said), result_labels(alert["expr"]), alert["alert"])
