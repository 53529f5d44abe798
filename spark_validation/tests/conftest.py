"""One Spark for all tests, and a broker for those that read from one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.conftest import kafka as kafka
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_spark.spark.session import spark_session
from spark_validation.tests.archived_topic import ArchivedTopic

RECORDED = Path(__file__).parents[1] / "recorded"


QUICK = """\
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
spark.sql.adaptive.enabled false
"""
"""Thousands of queries over a few rows each: compiling them, and planning them again at each stage, takes
longer than they do. What Spark does by default is seen by the tests that start one of their own."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that `run_replay` finds and uses, too."""
    properties = tmp_path_factory.mktemp("spark") / "spark.properties"
    properties.write_text(QUICK)
    with spark_session("local[2]", str(properties)) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session


@pytest.fixture
def topic(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> Iterator[ArchivedTopic]:
    """Deleted in the end."""
    found = ArchivedTopic(kafka, tmp_path / "archive")
    yield found
    kafka.delete_topic(found.name)


@pytest.fixture(scope="session")
def recorded() -> str:
    """The recorded history of real groups that the repository carries."""
    return str(RECORDED)
