"""`kafka-assignors validate` as a user runs it: exit codes, table, JSON verdict, and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from pyspark.sql import SparkSession

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_cli import main
from kafka_assignors_cli.app import command_line
from kafka_assignors_replay.report.as_json import json_report
from spark_validation.tests.groups import Log, member, write_history
from spark_validation.tests.report_sample import HOSTILE, sample

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
def report(tmp_path: Path) -> Path:
    """The output of `replay --json` for `sample()`."""
    path = tmp_path / "report.json"
    path.write_text(json_report(sample()), encoding="utf-8")
    return path


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(RULE, encoding="utf-8")
    return path


def run(*arguments: object) -> int:
    return main(["validate", *map(str, arguments)])


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line on stderr with which the command refuses."""
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.strip().split("\n")
    return line


def test_a_policy_that_holds_ends_with_0_and_says_so(
    report: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(report, "--policy", policy) == 0
    said = capsys.readouterr()
    assert "moved of cooperative-sticky ≤ 1 × the least possible (steady-state)" in " ".join(said.out.split())
    assert "The policy holds on history of" in said.out
    assert said.err == ""


def test_a_violated_policy_ends_with_1_and_names_group_value_and_bound(
    report: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(RULE.replace("1.0", "0.5").replace('"payments"', '"*"'), encoding="utf-8")
    assert run(report, "--policy", policy) == 1
    said = capsys.readouterr().out
    assert "moves no more than it has to: payments: 12, and has to be at most 6" in said
    assert f"{HOSTILE}: 12, and has to be at most 6" in said
    assert "The policy is violated" in said


def test_a_policy_that_cannot_be_judged_ends_with_2_and_says_why(
    report: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(RULE.replace("payments", "orders"), encoding="utf-8")
    assert run(report, "--policy", policy) == 2
    assert "not judged: no group matches 'orders'" in capsys.readouterr().out


def test_the_verdict_as_json_has_every_rule_and_group(report: Path, policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "verdict.json"
    policy.write_text(RULE + RULE.replace("no more", "less").replace("1.0", "0.5"), encoding="utf-8")
    assert run(report, "--policy", policy, "--json", out) == 1
    verdict: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert (verdict["format"], verdict["verdict"], verdict["policy"]) == (1, "violated", str(policy))
    holds, violated = verdict["rules"]
    assert (holds["verdict"], violated["verdict"]) == ("holds", "violated")
    assert violated["groups"] == [
        {
            "group": "payments",
            "verdict": "violated",
            "value": 12.0,
            "at_least": None,
            "at_most": 6.0,
            "reason": None,
        }
    ]


def test_a_written_report_is_judged_where_spark_is_not_installed(report: Path, policy: Path) -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pyspark', 'pyarrow', 'confluent_kafka'))); "
        f"from kafka_assignors_cli import main; "
        f"sys.exit(main(['validate', {str(report)!r}, '--policy', {str(policy)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule\nname", "policy.toml:1: not TOML"),
        ("", "policy.toml: a policy has rules, each a table that begins with [[rule]]"),
        (RULE.replace("moved", "movd"), "rule 1 ('moves no more than it has to'): there is no metric 'movd'"),
        (RULE.replace("cooperative-sticky", "sticki"), "strategy: "),
        (RULE.replace("cooperative-sticky", "no_such_module:Strategy"), "strategy: "),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused_with_file_rule_and_key(
    text: str, words: str, report: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(text, encoding="utf-8")
    line = refusal(capsys, report, "--policy", policy)
    assert str(policy) in line
    assert words in line


def test_missing_files_and_files_that_are_no_report_are_refused(
    tmp_path: Path, report: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "No such file" in refusal(capsys, report, "--policy", tmp_path / "none.toml")
    assert "No such file" in refusal(capsys, tmp_path / "none.json", "--policy", policy)
    report.write_text("{}", encoding="utf-8")
    assert "not a report of `kafka-assignors replay --json`" in refusal(capsys, report, "--policy", policy)
    report.write_text("{", encoding="utf-8")
    assert "report.json:1: not JSON" in refusal(capsys, report, "--policy", policy)
    assert "there is no such file or directory" in refusal(capsys, tmp_path / "none", "--policy", policy)


REPLAY_OPTIONS = [
    ("--bootstrap-server", "b:1"),
    ("--command-config", "client.properties"),
    ("--timeout", "1"),
    ("--group", "payments"),
    ("--strict",),
    ("--skip-corrupt",),
    ("--pause", "resume_s=1"),
    ("--master", "local[1]"),
    ("--spark-config", "spark.properties"),
    ("--engine", "local"),
    ("--strategy-timeout", "60"),
]


def test_the_options_of_a_replay_are_declared_once_for_replay_and_validate() -> None:
    group: Any = typer.main.get_command(command_line())
    declared = {
        command: {
            parameter.opts[0]: (parameter.opts, parameter.help, parameter.metavar, parameter.default)
            for parameter in group.commands[command].params
            if parameter.param_type_name == "option"
        }
        for command in ("replay", "validate")
    }
    shared = {option for option, *_ in REPLAY_OPTIONS} | {"--json"}
    for option in shared:
        assert declared["validate"][option] == declared["replay"][option]
    own = {"--strategy", "--mode", "--report", "--tables", "--fault"}
    assert declared["replay"].keys() - declared["validate"].keys() == own
    assert declared["validate"].keys() - declared["replay"].keys() == {"--policy", "--junit", "--github"}


def test_a_damaged_file_is_left_out_and_named(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log()
    log.generation("payments", 1, member("a", gets={"orders": [0, 1]}))
    history = Path(write_history(tmp_path / "history", log, {"orders": 2}))
    (history / "raw").mkdir()
    (history / "raw.parquet").rename(history / "raw" / "good.parquet")
    (history / "raw" / "damaged.parquet").write_bytes(b"PAR1 damaged")
    arguments = (history, "--policy", policy, "--engine", "local")
    assert run(*arguments) == 2
    assert "error: " in (error := capsys.readouterr().err)
    assert "damaged.parquet" in error
    assert run(*arguments, "--skip-corrupt") == 0
    said = capsys.readouterr()
    assert "damaged.parquet" in said.err
    assert "The policy holds" in said.out


def test_without_a_history_and_a_cluster_it_is_refused(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "give either a history or --bootstrap-server" in refusal(capsys, "--policy", policy)


def test_options_that_would_change_the_replay_are_refused_for_a_written_report(
    report: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(capsys, report, "--policy", policy, "--pause", "resume_s=1", "--strict")
    assert "--strict, --pause: no effect on" in line
    for option in REPLAY_OPTIONS:
        assert f"{option[0]}: no effect on" in refusal(capsys, report, "--policy", policy, *option)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("resume_s", "expected NAME=VALUE, with one of heartbeat_interval_s, "),
        ("resum_s=1", "there is no parameter 'resum_s': did you mean resume_s?"),
        ("resume_s=fast", "resume_s has to be a number, found 'fast'"),
        ("resume_s=-1", "resume_s must be a finite number of at least 0, not -1.0"),
        ("heartbeats_in_step=1", "heartbeats_in_step is true or false, found '1'"),
    ],
)
def test_a_wrong_parameter_of_the_model_is_refused_by_name(
    given: str, words: str, tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"--pause: {words}" in refusal(capsys, tmp_path, "--policy", policy, "--pause", given).replace(
        f"--pause {given}:", "--pause:"
    )


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_workers_run_a_strategy_in_a_file_and_import_no_other_file_beside_it(
    engine: str,
    spark: SparkSession,
    tmp_path: Path,
    policy: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert spark is SparkSession.getActiveSession()
    log = Log()
    log.generation("payments", 1, member("a", gets={"orders": [0, 1]}))
    history = write_history(tmp_path / "history", log, {"orders": 2})
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


def test_a_history_is_replayed_under_what_the_policy_names(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log()
    log.generation("payments", 1, member("a", gets={"orders": [0, 1, 2, 3]}))
    log.generation("payments", 2, member("a", gets={"orders": [0, 1]}), member("b", gets={"orders": [2, 3]}))
    history = write_history(tmp_path / "history", log, {"orders": 4})
    policy.write_text(
        RULE + RULE.replace("no more", "twice").replace("max", "min").replace("1.0", "2"), "utf-8"
    )
    verdict = tmp_path / "verdict.json"
    assert run(history, "--policy", policy, "--engine", "local", "--json", verdict) == 1
    rules = json.loads(verdict.read_text(encoding="utf-8"))["rules"]
    assert [rule["groups"][0]["value"] for rule in rules] == [2, 2]
    assert "1 of 2 rules hold, 1 violated." in " ".join(capsys.readouterr().out.split())
