"""The setup of Spark, and the line of a Spark error that tells the cause."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_replay.spark.spark_session import (
    JVM_ENDED,
    SPARK_ERRORS,
    _choose_python,
    one_line,
    spark_session,
)
from spark_validation.tests.groups import Log, write_history
from tests.test_cli import without_progress


def onto_a_full_disk(spark: SparkSession, folder: Path) -> None:
    jvm: Any = spark._jvm
    jvm.java.io.FileOutputStream("/dev/full").write(1)


def through_python(spark: SparkSession, folder: Path) -> None:
    def fail(value: int) -> int:
        raise ValueError("no such topic")

    spark.range(1).select(F.udf(fail, "int")("id")).collect()


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (
            lambda spark, _: spark.range(1).write.parquet("/proc/table"),
            "Mkdirs failed to create file:/proc/table",
        ),
        (onto_a_full_disk, "No space left on device"),
        (through_python, "ValueError: no such topic"),
    ],
)
def test_the_cause_is_said(
    spark: SparkSession, tmp_path: Path, fails: Callable[[SparkSession, Path], None], said: str
) -> None:
    with pytest.raises(SPARK_ERRORS) as error:
        fails(spark, tmp_path)
    assert one_line(error.value).startswith(said)
    assert "\n" not in one_line(error.value)


WITHOUT_JVM = """
import os, signal, sys
from pyspark import SparkContext
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayError, ReplayOptions

def end_the_jvm(step):
    if step.number == 2:
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)

try:
    options = ReplayOptions(sys.argv[1], strategies=("range",))
    run_replay(options, end_the_jvm, engine="spark")
except ReplayError as error:
    print(error)
"""


@pytest.fixture
def history(tmp_path: Path) -> str:
    return write_history(tmp_path / "history", Log().three_generations("g"))


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    changed = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False, env=changed)


def replay_on_spark(history: str, *arguments: str, **environment: str) -> list[str]:
    """The lines that the command says as it fails."""
    asked = ["replay", history, "--strategy", "range", "--engine", "spark", *arguments]
    done = python("-m", "kafka_assignors_cli", *asked, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    return without_progress(done.stderr).splitlines()


def test_a_jvm_that_ended_is_said(history: str) -> None:
    """A JVM ends like this when it runs out of memory."""
    done = python("-c", WITHOUT_JVM, history)
    assert (done.returncode, done.stdout) == (0, f"Spark failed: {JVM_ENDED}\n")


def test_properties_that_spark_refuses_are_an_error_of_one_line(history: str, tmp_path: Path) -> None:
    properties = tmp_path / "spark.properties"
    properties.write_text("spark.executor.memory 1m\n")
    *_, last = replay_on_spark(history, "--spark-config", str(properties))
    assert "Spark does not start: " in last
    assert "Executor memory" in last


def test_a_missing_java_is_named(history: str, tmp_path: Path) -> None:
    engine, *_, last = replay_on_spark(history, PATH=str(tmp_path), JAVA_HOME="")
    assert engine == "kafka-assignors: engine: spark (as asked for)"
    assert last.startswith("kafka-assignors: error: Spark does not start: ")
    assert "Java 17 or newer" in last


# The setup: the Python of the workers, and the settings of a session


@pytest.mark.parametrize(
    ("properties", "submitted", "kept"),
    [
        ("", False, False),
        ("spark.master local[2]", False, False),
        ("", True, True),
        ("spark.jars a.jar\nspark.master = spark://127.0.0.1:7077", False, True),
    ],
)
def test_an_interpreter_that_the_environment_names_is_for_clusters(
    properties: str, submitted: bool, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "python3")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert _choose_python(properties) is not kept
    assert os.environ["PYSPARK_PYTHON"] == ("./environment/bin/python" if kept else sys.executable)
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.mark.parametrize(
    ("setting", "callers", "ours"),
    [
        ("spark.sql.execution.arrow.maxRecordsPerBatch", "1234", "256"),
        ("spark.sql.legacy.parquet.nanosAsLong", "false", "true"),
        ("spark.sql.session.timeZone", "Asia/Kathmandu", "UTC"),
    ],
)
def test_the_session_of_the_caller_gets_its_setting_back(
    spark: SparkSession, setting: str, callers: str, ours: str
) -> None:
    before = spark.conf.get(setting)
    spark.conf.set(setting, callers)
    try:
        with spark_session() as session:
            assert session is spark
            assert spark.conf.get(setting) == ours
        assert spark.conf.get(setting) == callers
        with pytest.raises(ZeroDivisionError), spark_session():
            raise ZeroDivisionError
        assert spark.conf.get(setting) == callers
    finally:
        spark.conf.set(setting, str(before))
