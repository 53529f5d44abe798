"""The setup of Spark: the Python of the workers, and large records."""

from __future__ import annotations

import os
import sys

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafka_assignors_replay.spark.spark_session import _choose_python, spark_session


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


def test_tables_of_large_records_go_to_the_disk_in_little_memory(spark: SparkSession) -> None:
    # With Spark's default, the JVM (a gigabyte) would have to hold a hundred batches in each of two tasks.
    value = F.expr("cast(repeat('x', 8000000) AS binary)").alias("value")
    records = spark.range(0, 240, 1, 2).select(value).persist()
    try:
        assert records.count() == 240
    finally:
        records.unpersist()


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
