"""One Spark session for all tests, and a broker for the tests that read from one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.conftest import kafka as kafka
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_replay.spark.spark_session import spark_session
from spark_validation.tests.archived_topic import ArchivedTopic

RECORDED = Path(__file__).parents[1] / "recorded"


QUICK = """\
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
spark.sql.adaptive.enabled false
"""
"""The tests run thousands of queries over a few rows each. Compiling such a query, or planning it again at
each stage, takes longer than running it. Tests that start their own session use Spark's defaults."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; `run_replay` finds it and uses it, too."""
    properties = tmp_path_factory.mktemp("spark") / "spark.properties"
    properties.write_text(QUICK)
    with spark_session("local[2]", str(properties)) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session


@pytest.fixture
def topic(kafka: Kafka, tmp_path: Path) -> Iterator[ArchivedTopic]:
    """A topic that is deleted after the test."""
    found = ArchivedTopic(kafka, tmp_path / "archive")
    yield found
    kafka.delete_topic(found.name)


@pytest.fixture(scope="session")
def recorded() -> str:
    """The recorded history of real groups in the repository."""
    return str(RECORDED)
