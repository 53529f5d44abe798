"""Which Python the workers run: ours where Spark is local, on a cluster the one that lies there."""

from __future__ import annotations

import os
import sys

import pytest

from kafka_assignors_spark.session import _choose_python


@pytest.mark.parametrize(
    ("master", "submitted", "kept"),
    [
        (None, False, False),
        ("local[2]", False, False),
        ("local[2]", True, False),
        (None, True, True),
        ("spark://127.0.0.1:7077", False, True),
    ],
)
def test_an_interpreter_that_the_environment_names_is_for_clusters(
    master: str | None, submitted: bool, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "python3")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    _choose_python(master)
    assert os.environ["PYSPARK_PYTHON"] == ("./environment/bin/python" if kept else sys.executable)
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
