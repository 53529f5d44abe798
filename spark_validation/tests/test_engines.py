"""Both engines produce the same bytes of the report, and the local engine needs no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_replay.archive import run
from kafka_assignors_replay.archive.folder import ArchiveError
from kafka_assignors_replay.engine import LOCAL_BYTES, Choice, choose_engine
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from spark_validation.tests.groups import Log, write_history
from spark_validation.tests.replaying import replay, replay_on_both_engines
from spark_validation.tests.test_bad_histories import bad, in_three_files
from spark_validation.tests.test_forged_records import forged
from spark_validation.tests.test_kip848_fold import story
from tests.test_cli import without_progress

S3 = "s3a://bucket/groups"


@pytest.mark.parametrize(
    ("strategies", "groups"),
    [(("cooperative-sticky",), None), (("range", "sticky"), ("audit-trail", "checkout"))],
    ids=["all groups", "a few groups"],
)
def test_they_report_the_same_of_the_recorded_history(
    spark: SparkSession, recorded: str, strategies: tuple[str, ...], groups: tuple[str, ...] | None
) -> None:
    assert replay_on_both_engines(recorded, strategies=strategies, groups=groups).history.records > 0


@pytest.mark.parametrize("log", [bad(), forged(), story()], ids=["bad", "forged", "kip848"])
def test_they_report_the_same_of_records_that_should_not_be_there(
    spark: SparkSession, tmp_path: Path, log: Log
) -> None:
    path = write_history(tmp_path, log, {"orders": 4})
    assert replay_on_both_engines(path, strategies=("sticky",), sample_groups=9).history.records > 0


def test_they_report_the_same_of_a_history_without_its_damaged_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = in_three_files(tmp_path, damaged=True)
    [group] = replay_on_both_engines(path, strategies=("sticky",), skip_corrupt=True).groups
    assert group.rebalances - group.replayed_rebalances == 1


WITHOUT_SPARK = """
import sys
for name in ("pyspark", "py4j", "confluent_kafka"):
    sys.modules[name] = None
import os
os.environ.update(JAVA_HOME="/no/such/java", PATH="/nowhere")
from kafka_assignors_cli import main
sys.exit(main(sys.argv[1:]))
"""


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)


@pytest.mark.exhaustive
def test_the_local_engine_runs_where_neither_spark_nor_java_is(recorded: str, tmp_path: Path) -> None:
    json_file, html = tmp_path / "report.json", tmp_path / "report.html"
    asked = ("--json", json_file, "--report", html)
    done = python(WITHOUT_SPARK, "replay", recorded, "--strategy", "range", *asked)
    assert done.returncode == 0, done.stderr
    first = without_progress(done.stderr).splitlines()[0]
    assert first == "kafka-assignors: engine: local (PySpark is not installed)"
    assert len(json.loads(json_file.read_text())["groups"]) > 12
    assert html.stat().st_size > 10_000
    done = python(WITHOUT_SPARK, "replay", recorded, "--engine", "spark")
    assert done.returncode == 2
    assert 'replay needs pyspark: pip install "kafka-assignors[cli,spark]"' in done.stderr


@pytest.mark.parametrize(
    ("options", "wanted", "choice"),
    [
        ({}, "local", Choice("local", "as asked for")),
        ({"spark_config": "spark.conf"}, None, Choice("spark", "Spark's properties are given")),
        ({}, None, Choice("local", "the history has 1 MiB, and up to 256 MiB need no Spark")),
        ({"path": S3}, None, Choice("spark", f"{S3}: a URL is read by Spark")),
    ],
)
def test_the_engine_fits_the_history(
    monkeypatch: pytest.MonkeyPatch,
    recorded: str,
    options: dict[str, object],
    wanted: str | None,
    choice: Choice,
) -> None:
    monkeypatch.setattr("kafka_assignors_replay.engine._has_session", lambda: False)
    given = replace(ReplayOptions(path=recorded), **options)  # type: ignore[arg-type]
    assert choose_engine(given, wanted) == choice


@pytest.mark.parametrize("engine", [None, "spark"])
def test_a_live_cluster_is_replayed_on_spark_only_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str | None
) -> None:
    """Executors on other machines cannot read what this one reads from the cluster."""

    def no_cluster(*_: object) -> None:
        raise ArchiveError("no cluster here")

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(run, "run_archive", no_cluster)
    (tmp_path / "raw" / "_delta_log").mkdir(parents=True)
    (tmp_path / "raw" / "_delta_log" / "0.json").touch()
    monkeypatch.chdir(tmp_path)  # where a history of Spark lies, which is not asked for
    chosen: list[str] = []
    with pytest.raises(ReplayError, match="no cluster here"):
        run_replay(
            ReplayOptions(bootstrap_servers="b:1"),
            lambda _: None,
            engine=engine,
            on_choice=lambda choice: chosen.append(choice.name),
        )
    assert chosen == [engine or "local"]


def test_a_large_history_is_replayed_on_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kafka_assignors_replay.engine._has_session", lambda: False)
    (tmp_path / "raw").mkdir()
    with (tmp_path / "raw" / "part.parquet").open("wb") as file:
        file.truncate(LOCAL_BYTES + 1)
    choice = choose_engine(ReplayOptions(path=str(tmp_path)), None)
    assert choice == Choice("spark", "the history has 256 MiB, more than 256 MiB")


def test_the_local_engine_refuses_what_only_spark_can_read() -> None:
    with pytest.raises(ReplayError, match=f"{S3}: a URL is read by Spark.*--engine spark"):
        replay(S3, "local")
