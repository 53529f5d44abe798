"""Tables of Delta and Iceberg without Spark's readers for them: the errors, and no wrong reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_assignors_replay.engine import choose_engine
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from spark_validation.tests.groups import Log, write_history
from spark_validation.tests.replaying import replay

LOGS = {"delta": "_delta_log/00000000000000000000.json", "iceberg": "metadata/v1.metadata.json"}


NAMES = ("raw", "topics")


def plain_history(folder: Path) -> None:
    """Records and a catalogue, each in a folder of its own."""
    write_history(folder, Log().three_generations("g"), {"orders": 4})
    for name in NAMES:
        (folder / name).mkdir()
        (folder / f"{name}.parquet").rename(folder / name / "a.parquet")


def with_log(folder: Path, form: str, table: str) -> Path:
    """A history with a table for the records or the catalogue; its Parquet files are readable alone."""
    plain_history(folder)
    log = folder / table / LOGS[form]
    log.parent.mkdir()
    log.write_text(json.dumps({}))
    return folder


@pytest.mark.parametrize("table", ["raw", "topics"])
@pytest.mark.parametrize("form", LOGS)
def test_only_spark_reads_a_table_with_a_log(tmp_path: Path, form: str, table: str) -> None:
    history = with_log(tmp_path, form, table)
    said = f"{tmp_path}/{table}: a table of the format {form} is read by Spark"
    with pytest.raises(ReplayError, match=f"^{said}: give --engine spark$"):
        replay(history)
    assert choose_engine(ReplayOptions(path=str(history)), None).name == "spark"


@pytest.mark.parametrize(("form", "table"), [("delta", "raw"), ("iceberg", "topics")])
def test_the_parquet_of_a_table_is_not_read_without_its_reader(
    spark: SparkSession, tmp_path: Path, form: str, table: str
) -> None:
    with pytest.raises(ReplayError) as error:
        replay(with_log(tmp_path, form, table), "spark")
    assert str(error.value) == (
        f"{tmp_path}/{table}: this is a table of the format {form}, and Spark has no reader for it: name its "
        "package, for the version of Spark, as spark.jars.packages in the file of --spark-config"
    )


def test_a_damaged_file_of_a_table_is_not_skipped(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"a table of the format delta .*--skip-corrupt is for Parquet"):
        replay(with_log(tmp_path, "delta", "raw"), None, skip_corrupt=True)


@pytest.mark.parametrize("name", ["lake.kafka", "no_such_table", "one.two.three.four"])
def test_a_table_that_no_catalog_has_is_named(spark: SparkSession, name: str) -> None:
    with pytest.raises(ReplayError, match=rf"^table://{name}: Spark's catalogs have no table {name} and"):
        replay(f"table://{name}", "spark")


def test_records_and_catalogue_are_tables_of_a_namespace(spark: SparkSession, tmp_path: Path) -> None:
    plain_history(tmp_path)
    spark.sql("CREATE DATABASE kafka_history")
    try:
        for name in NAMES:
            place = (tmp_path / name).as_uri()
            spark.sql(f"CREATE TABLE kafka_history.{name} USING parquet LOCATION '{place}'")
        plain, namespace, alone = (
            replay(each, "spark", strategies=("sticky",), sample_groups=0)
            for each in (str(tmp_path), "table://kafka_history", "table://kafka_history.raw")
        )
    finally:
        spark.sql("DROP DATABASE kafka_history CASCADE")
    assert namespace.groups == plain.groups
    assert namespace.verdicts == alone.verdicts == plain.verdicts
    assert alone.groups[0].inferred_topics == ("orders",)
