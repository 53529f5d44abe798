"""The wheel is all that a replay by spark-submit needs, on a cluster without any of our other files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_assignors_replay.schemas import TABLES
from spark_validation.standalone.comparison import compare

pytestmark = pytest.mark.exhaustive


def test_a_replay_by_spark_submit_on_two_workers_of_which_one_is_killed_is_the_replay_here(
    spark: SparkSession, recorded: str, tmp_path: Path
) -> None:
    compared = compare(recorded, "range,cooperative-sticky", tmp_path, timeout_s=600, kill_a_worker=True)
    assert compared.tasks_run_again > 0
    assert compared.workers == 2
    assert compared.differing == []
    assert {name for name in TABLES if compared.there[name]} >= {
        "generations",
        "members",
        "replayed",
        "faults",
    }
    assert "cooperative-sticky" in compared.printed
