"""One Spark session for all tests, and a broker for the tests that read from one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.conftest import kafka as kafka
from kafka_assignors_replay.spark.spark_session import spark_session

RECORDED = Path(__file__).parents[1] / "recorded"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session; `run_replay` finds it and uses it, too."""
    with spark_session() as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session


@pytest.fixture(scope="session")
def recorded() -> str:
    """The recorded history of real groups in the repository."""
    return str(RECORDED)
