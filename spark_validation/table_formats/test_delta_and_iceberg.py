"""A history in tables of Delta and Iceberg replays like the same rows in Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from compat_tests.support.jvm import classpath
from kafka_assignors_replay.result import ReplayError
from kafka_assignors_replay.spark.spark_session import spark_session
from spark_validation.tests.groups import Log, write_history
from spark_validation.tests.replaying import json_report, replay

PROPERTIES = """\
spark.jars {jars}
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.ui.enabled false
spark.sql.shuffle.partitions 2
spark.databricks.delta.snapshotPartitions 2
spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension
spark.sql.catalog.spark_catalog org.apache.spark.sql.delta.catalog.DeltaCatalog
spark.sql.catalog.lake org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.lake.type hadoop
spark.sql.catalog.lake.warehouse {warehouse}
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    """A session with the readers of both formats, configured by a properties file as a user's would be."""
    jars = classpath(pom=Path(__file__).with_name("pom.xml")).replace(":", ",")
    properties = warehouse / "spark.properties"
    properties.write_text(PROPERTIES.format(jars=jars, warehouse=warehouse.as_uri()))
    with spark_session(str(properties)) as session:
        yield session


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The history as Parquet: three generations of a group, and the catalogue."""
    return Path(write_history(tmp_path / "plain", Log().three_generations("g"), {"orders": 4}))


def report(path: str, engine: str) -> str:
    """The JSON report, without the time and the path of the history."""
    result = replay(path, engine, strategies=("sticky",))
    options, history = replace(result.options, path=""), replace(result.history, source="")
    return json_report(replace(result, options=options, history=history))


def rows(spark: SparkSession, plain: Path, name: str) -> DataFrame:
    return spark.read.parquet(str(plain / f"{name}.parquet"))


def test_delta_tables_are_the_history_that_their_logs_say(
    spark: SparkSession, plain: Path, tmp_path: Path
) -> None:
    raw, folder = rows(spark, plain, "raw"), tmp_path / "delta"
    dated = raw.withColumn("date", F.to_date("timestamp"))
    # The log refers to the latest version; Parquet files of the previous version stay in the folder.
    dated.withColumn("offset", F.col("offset") + 100).write.format("delta").save(str(folder / "raw"))
    overwritten = dated.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    overwritten.partitionBy("date").save(str(folder / "raw"))
    rows(spark, plain, "topics").write.format("delta").save(str(folder / "topics"))
    assert len(list((folder / "raw").rglob("*.parquet"))) > 1
    expected = report(str(plain), "local")
    assert report(str(folder), "spark") == expected
    assert report(f"{folder.as_uri()}", "spark") == expected
    # The records alone, without a catalogue.
    assert '"inferred_topics": ["orders"]' in report(str(folder / "raw"), "spark")
    with pytest.raises(
        ReplayError, match="a table of the format delta is read by Spark: give --engine spark"
    ):
        report(str(folder), "local")


def test_iceberg_tables_are_read_by_name_and_by_path(
    spark: SparkSession, plain: Path, warehouse: Path
) -> None:
    spark.sql("CREATE NAMESPACE lake.kafka")
    raw = rows(spark, plain, "raw")
    raw.withColumn("offset", F.col("offset") + 100).writeTo("lake.kafka.raw").using("iceberg").create()
    raw.writeTo("lake.kafka.raw").overwrite(F.lit(True))
    rows(spark, plain, "topics").writeTo("lake.kafka.topics").using("iceberg").create()
    expected = report(str(plain), "local")
    assert report("table://lake.kafka", "spark") == expected
    assert report(str(warehouse / "kafka"), "spark") == expected
    assert '"inferred_topics": ["orders"]' in report("table://lake.kafka.raw", "spark")
    with pytest.raises(ReplayError, match="a table of the format iceberg is read by Spark: give --engine"):
        report(str(warehouse / "kafka"), "local")


def test_a_table_of_other_columns_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "raw"))
    with pytest.raises(ReplayError, match=f"{tmp_path}/raw: column partition, offset, .* is missing"):
        report(str(tmp_path), "spark")
