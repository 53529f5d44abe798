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
from tests.test_cli_tables import LIVE, TOPIC


def has_lines(text: str, forged: str) -> bool:
    return any(line.strip().startswith(forged) for line in text.splitlines())


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
def test_tables_of_groups(name: str, width: int) -> None:
    group = live(name)
    shown = rendered(group_list([group, LIVE]), width)
    shown += rendered(description(group, compare_strategies(as_group(group), [("sticky", Sticky())])), width)
    assert_harmless(shown)
    assert not has_lines(shown, "kafka-assignors: error")


@pytest.mark.parametrize("width", [80, 200])
def test_findings_of_lint(name: str, width: int) -> None:
    findings = (LintFinding("rule", Severity.ERROR, (name, "b"), name, name, name),)
    assert_harmless(rendered(report_renderables(LintReport(findings, (NotJudged(name, name),))), width))


def test_assign(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members = [
        {"id": name, "topics": ["orders", name], "owned": {"orders": [0, 1, 2], name: [0]}, "generation": 7},
        {"id": f"{name}2", "topics": ["orders", name, "missing"]},
    ]
    group = tmp_path / "group.json"
    group.write_text(
        json.dumps({"topics": {"orders": {"partitions": 3}, name: {"partitions": 2}}, "members": members})
    )
    assert main(["assign", str(group), "--strategy", "sticky"]) == 0
    assigned = capsys.readouterr()
    assert set(json.loads(assigned.out)["assignment"]) == {name, f"{name}2"}
    assert_harmless(assigned.out + assigned.err)
    assert not has_lines(assigned.out + assigned.err, "kafka-assignors: error")


def test_errors_that_quote_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = tmp_path / "group.json"
    twice = [{"id": name, "topics": []}] * 2
    for content in (
        {"topics": {}, "members": twice},
        {"topics": {}, "members": [], name: 1},
        {"topics": {}, "members": name},
    ):
        group.write_text(json.dumps(content))
        assert main(["assign", str(group)]) == 2
        said = capsys.readouterr()
        assert_harmless(said.err)
        assert said.err.count("\n") == 1
    for arguments in (
        ["assign", str(group), f"--strategy={name}"],
        ["assign", str(tmp_path / "x") + name.replace("\0", "")],
    ):
        assert main(arguments) == 2
        assert_harmless(capsys.readouterr().err)
