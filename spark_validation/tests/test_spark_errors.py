"""The line of a Spark error that tells the cause."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_replay.spark.spark_session import JVM_ENDED, SPARK_ERRORS, one_line
from spark_validation.tests.groups import Log, member, write_history


def into_a_file(spark: SparkSession, folder: Path) -> None:
    (folder / "file").touch()
    spark.range(1).write.parquet(str(folder / "file" / "table"))


def into_a_folder_that_takes_nothing(spark: SparkSession, folder: Path) -> None:
    spark.range(1).write.parquet("/proc/table")


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
        (into_a_file, "Parent path is not a directory: file:"),
        (into_a_folder_that_takes_nothing, "Mkdirs failed to create file:/proc/table"),
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


def test_a_jvm_that_ended_is_said(tmp_path: Path) -> None:
    """A JVM ends like this when it runs out of memory."""
    log = Log()
    log.generation("g", 1, member("a", gets={"orders": [0]}))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JVM, write_history(tmp_path, log)],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
    )
    assert done.stdout == f"Spark failed: {JVM_ENDED}\n"


def test_properties_that_spark_refuses_are_an_error_of_one_line(tmp_path: Path) -> None:
    log = Log()
    log.generation("g", 1, member("a", gets={"orders": [0]}))
    properties = tmp_path / "spark.properties"
    properties.write_text("spark.executor.memory 1m\n")
    asked = ["--strategy", "range", "--engine", "spark", "--spark-config", str(properties)]
    done = subprocess.run(
        [sys.executable, "-m", "kafka_assignors_cli", "replay", write_history(tmp_path, log), *asked],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "Spark does not start: " in last
    assert "Executor memory" in last
