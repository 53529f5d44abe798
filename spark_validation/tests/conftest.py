"""One Spark for all tests, and a broker for those that read from one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat_tests.conftest import kafka as kafka
from kafka_assignors_spark.session import spark_session

RECORDED = Path(__file__).parents[1] / "recorded"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that `run_replay` finds and uses, too."""
    with spark_session("local[2]") as session:
        yield session


@pytest.fixture(scope="session")
def recorded() -> str:
    """The recorded history of real groups that the repository carries."""
    return str(RECORDED)
