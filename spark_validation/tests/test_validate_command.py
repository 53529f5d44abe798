"""`kafka-assignors validate` as a user runs it: exit codes, table, JSON verdict, and errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_assignors_cli import main
from kafka_assignors_replay import replay_command
from spark_validation.tests.groups import Log, write_history
from spark_validation.tests.replaying import folding_here
from spark_validation.tests.report_sample import HOSTILE, sample
from spark_validation.tests.test_bad_histories import in_three_files
from tests.test_cli import refusal

RULE = """
[[rule]]
name = "moves no more than it has to"
metric = "moved"
strategy = "cooperative-sticky"
groups = ["payments"]
max = 1.0
relative_to = "least"
"""


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history whose replay is `sample()`."""
    monkeypatch.setattr(replay_command, "run_replay_with_progress", lambda *_: sample())
    return tmp_path / "history"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(RULE, encoding="utf-8")
    return path


def run(*arguments: object) -> int:
    return main(["validate", *map(str, arguments)])


def test_a_policy_that_holds_ends_with_0_and_says_so(
    history: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(history, "--policy", policy) == 0
    said = capsys.readouterr()
    assert "moved of cooperative-sticky ≤ 1 × the least possible (steady-state)" in " ".join(said.out.split())
    assert "The policy holds on history of" in said.out
    assert said.err == ""


def test_a_violated_policy_ends_with_1_and_names_group_value_and_bound(
    history: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(RULE.replace("1.0", "0.5").replace('"payments"', '"*"'), encoding="utf-8")
    assert run(history, "--policy", policy) == 1
    said = capsys.readouterr().out
    assert "moves no more than it has to: payments: 12, and has to be at most 6" in said
    assert f"{HOSTILE}: 12, and has to be at most 6" in said
    assert "The policy is violated" in said


def test_a_policy_that_cannot_be_judged_ends_with_2_and_says_why(
    history: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(RULE.replace("payments", "orders"), encoding="utf-8")
    assert run(history, "--policy", policy) == 2
    assert "not judged: no group matches 'orders'" in capsys.readouterr().out


def test_the_verdict_as_json_has_every_rule_and_group(history: Path, policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "verdict.json"
    policy.write_text(RULE + RULE.replace("no more", "less").replace("1.0", "0.5"), encoding="utf-8")
    assert run(history, "--policy", policy, "--json", out) == 1
    verdict: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert (verdict["format"], verdict["verdict"], verdict["policy"]) == (1, "violated", str(policy))
    holds, violated = verdict["rules"]
    assert (holds["verdict"], violated["verdict"]) == ("holds", "violated")
    figures = {"value": 12.0, "at_least": None, "at_most": 6.0, "reason": None}
    assert violated["groups"] == [{"group": "payments", "verdict": "violated", **figures}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule\nname", "policy.toml:1: not TOML"),
        (RULE.replace("moved", "movd"), "rule 1 ('moves no more than it has to'): metric has to be one of"),
        (RULE.replace("cooperative-sticky", "no_such_module:Strategy"), "strategy: "),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused_with_file_rule_and_key(
    text: str, words: str, history: Path, policy: Path
) -> None:
    policy.write_text(text, encoding="utf-8")
    line = refusal("validate", history, "--policy", policy)
    assert str(policy) in line
    assert words in line


def test_missing_files_are_refused(tmp_path: Path, policy: Path) -> None:
    assert "No such file" in refusal("validate", tmp_path, "--policy", tmp_path / "none.toml")
    assert "there is no such file or directory" in refusal("validate", tmp_path / "none", "--policy", policy)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("resume_s", "resume_s has to be a number"),
        ("resum_s=1", "expected NAME=VALUE, with one of heartbeat_interval_s, "),
        ("resume_s=fast", "resume_s has to be a number"),
        # A sum of pauses would be infinite, which is not in JSON.
        ("resume_s=1e308", "resume_s must be from 0 to 1e+09, not 1e+308"),
    ],
)
def test_a_wrong_parameter_of_the_model_is_refused_by_name(
    given: str, words: str, tmp_path: Path, policy: Path
) -> None:
    line = refusal("validate", tmp_path, "--policy", policy, "--pause", given)
    assert f"--pause: {words}" in line.replace(f"--pause {given}:", "--pause:")


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_workers_run_a_strategy_in_a_file_and_import_no_other_file_beside_it(
    engine: str, spark: SparkSession, tmp_path: Path, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark is SparkSession.getActiveSession()
    history = write_history(tmp_path / "history", Log().three_generations("payments"), {"orders": 4})
    hostile = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"
    for name in ("json", "sched"):
        (tmp_path / f"{name}.py").write_text(hostile, encoding="utf-8")
    strategy = tmp_path / "strategy_of_validate.py"
    strategy.write_text(
        "import json\nimport sched\nfrom kafka_assignors.strategies import Range\n", encoding="utf-8"
    )
    policy.write_text(RULE.replace("cooperative-sticky", f"{strategy}:Range"), encoding="utf-8")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert run(history, "--policy", policy, "--engine", engine) == 0
    assert list(tmp_path.glob("*.ran")) == []


def test_a_group_without_rebalances_is_not_judged(tmp_path: Path, policy: Path) -> None:
    """A group that was stopped before the history begins has one record, of an empty generation."""
    log = Log().three_generations("payments").generation("stopped", 7)
    history = write_history(tmp_path / "history", log, {"orders": 4})
    policy.write_text(RULE.replace('["payments"]', '["*"]'), encoding="utf-8")
    with folding_here():
        assert run(history, "--policy", policy, "--engine", "local") == 0


@pytest.mark.parametrize(("damaged", "code"), [(True, 2), (False, 0)])
def test_what_a_damaged_file_had_counts_as_not_replayed(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str], damaged: bool, code: int
) -> None:
    history = in_three_files(tmp_path / "history", damaged=damaged)
    # Of the eight rebalances that are left, one is not replayed.
    policy.write_text(f"max_not_replayed = 0.3\n{RULE.replace('least', 'recorded')}", encoding="utf-8")
    with folding_here():
        assert run(history, "--policy", policy, "--engine", "local", "--skip-corrupt") == code
    assert ("42% of its rebalances were not replayed" in capsys.readouterr().out) == damaged


def test_what_the_figures_leave_out_is_said(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = write_history(tmp_path / "history", Log().three_generations("payments"), {"orders": 4})
    policy.write_text(RULE.replace("cooperative-sticky", "weighted"), encoding="utf-8")
    with folding_here():
        assert run(history, "--policy", policy, "--engine", "local") == 0
    said = capsys.readouterr().err
    assert "kafka-assignors: warning: weighted counts partitions here: a history has no weights\n" in said
