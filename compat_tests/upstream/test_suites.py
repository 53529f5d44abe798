"""The comparison itself, with small made-up suites."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from pathlib import Path

import pytest

from compat_tests.upstream.suites import SUITES, SuiteError, compare, download, run

_TESTS = """
import kafka
import pytest


def test_of_the_stock_class():
    assert "Cooperative" not in kafka.KafkaConsumer.__name__


def test_of_the_cooperative_class():
    assert "Cooperative" in kafka.KafkaConsumer.__name__


def test_of_both():
    pass


def test_of_a_consumer_that_breaks_at_the_end(request):
    request.addfinalizer(test_of_the_stock_class)
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_names.py").write_text(_TESTS)
    (tmp_path / "kafka").mkdir()
    version = importlib.metadata.version("kafka-python")
    (tmp_path / "kafka" / "version.py").write_text(f"__version__ = '{version}'\n")
    return tmp_path


def test_a_test_that_passes_with_the_stock_consumer_alone_is_a_difference(sources: Path) -> None:
    suite = dataclasses.replace(SUITES["kafka-python"], files=("test/test_names.py",), selected="")
    outcomes = run(suite, sources)
    assert {
        test.rpartition("::")[2]: (stock.outcome, ours.outcome) for test, (stock, ours) in outcomes.items()
    } == {
        "test_of_the_stock_class": ("passed", "failed"),
        "test_of_the_cooperative_class": ("failed", "passed"),
        "test_of_both": ("passed", "passed"),
        "test_of_a_consumer_that_breaks_at_the_end": ("passed", "failed"),
    }
    assert {test.rpartition("::")[2] for test in compare(outcomes)} == {
        "test_of_the_stock_class",
        "test_of_a_consumer_that_breaks_at_the_end",
    }


def test_sources_of_another_version_are_refused(sources: Path) -> None:
    (sources / "kafka" / "version.py").write_text("__version__ = '0.1'\n")
    with pytest.raises(SuiteError, match=r"is kafka-python 0\.1, but .* is installed: check out"):
        run(SUITES["kafka-python"], sources)


def test_without_an_index_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(SuiteError, match="Is a package index reachable"):
        download("kafka-python", tmp_path)
