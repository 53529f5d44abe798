"""`kafka-assignors replay` as a user runs it: its output, its files, and its errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_cli import main
from spark_validation.tests.groups import Log, member, write_history
from spark_validation.tests.replaying import folding_here
from tests.test_cli import without_progress

pytestmark = pytest.mark.exhaustive

HOSTILE = "<script>alert(1)</script>"


def three_generations() -> Log:
    """A group that two more members join."""
    log = Log(partition=7)
    log.generation(HOSTILE, 1, member("a", gets={"orders": range(6)}))
    log.generation(
        HOSTILE, 2, member("a", gets={"orders": range(3)}), member("b", gets={"orders": range(3, 6)})
    )
    thirds = (member(name, gets={"orders": [2 * n, 2 * n + 1]}) for n, name in enumerate("abc"))
    log.generation(HOSTILE, 3, *thirds)
    return log


@pytest.fixture
def history(tmp_path: Path) -> str:
    return write_history(tmp_path / "history", three_generations(), {"orders": 6})


def test_the_command_prints_tables_and_a_verdict_and_writes_both_reports(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, document = tmp_path / "out" / "report.html", tmp_path / "out" / "report.json"
    arguments = [history, "--strategy", "range,cooperative-sticky", "--report", str(report)]
    with folding_here():
        assert main(["replay", *arguments, "--json", str(document), "--engine", "local"]) == 0
    out, err = capsys.readouterr()
    for part in (
        "All groups together",
        "The accuracy check passes",
        "cooperative-sticky",
    ):
        assert part in out
    assert "3 generations of 1 group replayed" in out
    assert f"wrote {report}" in err
    assert HOSTILE not in report.read_text(encoding="utf-8")
    result: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
    assert [group["group"] for group in result["groups"]] == [HOSTILE]
    assert {verdict["strategy"] for verdict in result["verdicts"]} == {
        "recorded",
        "range",
        "cooperative-sticky",
    }
    assert result["truth"]["holds"] is True
    assert sorted(path.name for path in report.parent.iterdir()) == ["report.html", "report.json"]


def test_a_replay_of_a_single_mode_and_group_counts_records_that_do_not_decode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = three_generations()
    log.append(log.records[0]["key"], b"\x00\x03\xff")  # type: ignore[arg-type]
    undecodable = write_history(tmp_path / "history", log, {"orders": 6})
    asked = ["-s", "sticky", "--mode", "one-step", "-g", HOSTILE, "--engine", "local"]
    with folding_here():
        assert main(["replay", undecodable, *asked]) == 0
    out = capsys.readouterr().out
    assert "one-step" in out
    assert "steady-state" not in out
    assert "1 undecodable record, by partition/offset: 7/3 (" in out


def test_a_missing_java_is_named(history: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-m", "kafka_assignors_cli", "replay", history, "--engine", "spark"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (2, "")
    engine, *_, line = without_progress(done.stderr).splitlines()
    assert engine == "kafka-assignors: engine: spark (as asked for)"
    assert line.startswith("kafka-assignors: error: ")
    assert "Java" in line
