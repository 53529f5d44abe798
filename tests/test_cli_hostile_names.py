"""The output of commands for names that control a terminal, contain markup or imitate other output."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors.strategies import Sticky
from kafka_assignors.wire import Subscription
from kafka_assignors_cli import main
from kafka_assignors_ops.comparison import compare_strategies
from kafka_assignors_ops.groups_view import description, group_list
from kafka_assignors_ops.lint import LintReport
from kafka_assignors_ops.lint.rules import LintFinding, NotJudged, Severity
from kafka_assignors_ops.lint_command import report_renderables
from kafka_assignors_ops.live_group import LiveGroup, LiveMember, as_group
from tests.golden_tables.check import rendered
from tests.hostile_names import NAMES, assert_harmless
from tests.test_cli import assert_one_error
from tests.test_cli_tables import LIVE, TOPIC


def assert_shown(text: str) -> None:
    """Assert that a name controls no terminal and forges no error."""
    assert_harmless(text)
    assert not any(line.strip().startswith("kafka-assignors: error") for line in text.splitlines())


@pytest.fixture(params=NAMES.values(), ids=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def live(name: str) -> LiveGroup:
    """A group with the name in every field that a broker takes from a client."""
    subscription = Subscription(3, (TOPIC, name), rack=name)
    member = LiveMember(name, name, name, name, assigned={TOPIC: range(3)}, subscription=subscription)
    return replace(
        LIVE,
        id=name,
        protocol=name,
        members=(member, replace(member, id=f"{name}2", assigned={})),
        problems=(name,),
        unknown_topics={name: name},
    )


@pytest.mark.parametrize("width", [80, 200])
def test_tables_of_groups_and_findings_of_lint(name: str, width: int) -> None:
    group = live(name)
    shown = rendered(group_list([group, LIVE]), width)
    shown += rendered(description(group, compare_strategies(as_group(group), [("sticky", Sticky())])), width)
    findings = (LintFinding("rule", Severity.ERROR, (name, "b"), name, name, name),)
    shown += rendered(report_renderables(LintReport(findings, (NotJudged(name, name),))), width)
    assert_shown(shown)


def test_assign(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    owned = {"orders": [0, 1, 2], name: [0]}
    members = [
        {"id": name, "topics": ["orders", name], "owned": owned, "generation": 7},
        {"id": f"{name}2", "topics": ["orders", name, "missing"]},
    ]
    group = tmp_path / "group.json"
    topics = {"orders": {"partitions": 3}, name: {"partitions": 2}}
    group.write_text(json.dumps({"topics": topics, "members": members}))
    assert main(["assign", str(group), "--strategy", "sticky"]) == 0
    assigned = capsys.readouterr()
    assert set(json.loads(assigned.out)["assignment"]) == {name, f"{name}2"}
    assert_shown(assigned.out + assigned.err)


def test_errors_that_quote_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = tmp_path / "group.json"
    documents: list[dict[str, object]] = [
        {"topics": {}, "members": [{"id": name, "topics": []}] * 2},
        {"topics": {}, "members": [], name: 1},
        {"topics": {}, "members": name},
    ]
    missing = f"{tmp_path}/x" + name.replace("\0", "")
    for document in documents:
        group.write_text(json.dumps(document))
        for arguments in ([str(group)], [str(group), f"--strategy={name}"], [missing]):
            assert main(["assign", *arguments]) == 2
            said = capsys.readouterr()
            assert_harmless(said.err)
            assert_one_error(said.err)
