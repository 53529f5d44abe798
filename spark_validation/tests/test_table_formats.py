"""Tables of Delta and Iceberg without Spark's readers for them: the errors, and no wrong reads."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_assignors_replay.engine import choose_engine
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from spark_validation.tests.groups import RAW_SCHEMA, START, TOPICS_SCHEMA, Log, member

LOGS = {"delta": "_delta_log/00000000000000000000.json", "iceberg": "metadata/v1.metadata.json"}


TOPIC = {"topic": "orders", "topic_id": None, "from": START, "partitions": 2, "replica_racks": None}


def recorded_files(folder: Path) -> dict[str, pa.Table]:
    """Two generations of a group, and the catalogue."""
    log = Log()
    log.generation("g", 1, member("a", gets={"orders": [0, 1]}))
    log.generation("g", 2, member("a", gets={"orders": [0]}), member("b", gets={"orders": [1]}))
    tables = {
        "raw": pa.Table.from_pylist(log.records, RAW_SCHEMA),
        "topics": pa.Table.from_pylist([TOPIC], TOPICS_SCHEMA),
    }
    for name, rows in tables.items():
        (folder / name).mkdir()
        pq.write_table(rows, folder / name / "a.parquet")
    return tables


def history(folder: Path, form: str, table: str) -> ReplayOptions:
    """A history with a table for the records or the catalogue; its Parquet files are readable alone."""
    recorded_files(folder)
    log = folder / table / LOGS[form]
    log.parent.mkdir()
    log.write_text(json.dumps({}))
    return ReplayOptions(path=str(folder), strategies=("sticky",))


@pytest.mark.parametrize("table", ["raw", "topics"])
@pytest.mark.parametrize("form", LOGS)
def test_only_spark_reads_a_table_with_a_log(tmp_path: Path, form: str, table: str) -> None:
    options = history(tmp_path, form, table)
    said = f"{tmp_path}/{table}: a table of the format {form} is read by Spark"
    with pytest.raises(ReplayError, match=f"^{said}: give --engine spark$"):
        run_replay(options, lambda _: None, engine="local")
    choice = choose_engine(options, None)
    assert choice.name == "spark"


@pytest.mark.parametrize(("form", "table"), [("delta", "raw"), ("iceberg", "topics")])
def test_the_parquet_of_a_table_is_not_read_without_its_reader(
    spark: SparkSession, tmp_path: Path, form: str, table: str
) -> None:
    with pytest.raises(ReplayError) as error:
        run_replay(history(tmp_path, form, table), lambda _: None, engine="spark")
    assert str(error.value) == (
        f"{tmp_path}/{table}: this is a table of the format {form}, and Spark has no reader for it: name its "
        "package, for the version of Spark, as spark.jars.packages in the file of --spark-config"
    )


def test_a_damaged_file_of_a_table_is_not_skipped(tmp_path: Path) -> None:
    options = ReplayOptions(path=history(tmp_path, "delta", "raw").path, skip_corrupt=True)
    with pytest.raises(ReplayError, match=r"a table of the format delta .*--skip-corrupt is for Parquet"):
        run_replay(options, lambda _: None)


@pytest.mark.parametrize("name", ["lake.kafka", "no_such_table", "one.two.three.four"])
def test_a_table_that_no_catalog_has_is_named(spark: SparkSession, name: str) -> None:
    with pytest.raises(ReplayError, match=rf"^table://{name}: Spark's catalogs have no table {name} and"):
        run_replay(ReplayOptions(path=f"table://{name}"), lambda _: None, engine="spark")


def test_records_and_catalogue_are_tables_of_a_namespace(spark: SparkSession, tmp_path: Path) -> None:
    names = recorded_files(tmp_path)
    spark.sql("CREATE DATABASE kafka_history")
    try:
        for name in names:
            place = (tmp_path / name).as_uri()
            spark.sql(f"CREATE TABLE kafka_history.{name} USING parquet LOCATION '{place}'")
        plain, namespace, alone = (
            run_replay(
                ReplayOptions(path=each, strategies=("sticky",), sample_groups=0),
                lambda _: None,
                engine="spark",
            )
            for each in (str(tmp_path), "table://kafka_history", "table://kafka_history.raw")
        )
    finally:
        spark.sql("DROP DATABASE kafka_history CASCADE")
    assert namespace.groups == plain.groups
    assert namespace.verdicts == alone.verdicts == plain.verdicts
    assert alone.groups[0].inferred_topics == ("orders",)
