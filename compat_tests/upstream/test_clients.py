"""A client's own tests pass with the cooperative consumer where they pass with the stock one.

kafka-python's tests come from the source archive on the package index; without an index these tests fail and
say so. aiokafka's archive has no tests: with UPSTREAM_SUITE=aiokafka they come from the checkout in AIOKAFKA.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from compat_tests.upstream.differences import ALLOWED
from compat_tests.upstream.suites import (
    DOWNLOAD_TIMEOUT_S,
    RUN_TIMEOUT_S,
    SUITES,
    Outcome,
    SuiteError,
    compare,
    download,
    report,
    run,
    unpack,
)

pytestmark = pytest.mark.timeout(DOWNLOAD_TIMEOUT_S + 2 * RUN_TIMEOUT_S + 60)

CLIENT = os.environ.get("UPSTREAM_SUITE", "kafka-python")

FAILS_WITH_BOTH = {
    # The broker has no TLS listener.
    "aiokafka": {"tests/test_consumer.py::TestConsumerIntegration::test_ssl_consume"},
    "kafka-python": set[str](),
}
FEWEST_TESTS = {"aiokafka": 80, "kafka-python": 25}

Outcomes = Mapping[str, tuple[Outcome, Outcome]]


class Report:
    """A plugin of pytest that prints these lines at the end of the run."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._lines:
            terminalreporter.write_line(line)


def sources(folder: Path) -> Path:
    if CLIENT == "kafka-python":
        return unpack(download(CLIENT, folder), folder)
    if "AIOKAFKA" not in os.environ:
        raise SuiteError("AIOKAFKA=folder is needed: a checkout of aiokafka, of the installed release")
    return Path(os.environ["AIOKAFKA"])


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Outcomes:
    found = run(SUITES[CLIENT], sources(tmp_path_factory.mktemp("sources")))
    pytestconfig.pluginmanager.register(Report(report(CLIENT, found)))
    return found


def test_cooperative_consumer_passes_each_test_that_the_stock_consumer_passes(outcomes: Outcomes) -> None:
    different = compare(outcomes)
    assert {test: why for test, why in different.items() if test not in ALLOWED[CLIENT]} == {}


def test_each_allowed_difference_is_one(outcomes: Outcomes) -> None:
    assert set(ALLOWED[CLIENT]) <= set(compare(outcomes))


def test_the_tests_pass_with_the_stock_consumer(outcomes: Outcomes) -> None:
    failed = {test for test, (stock, _) in outcomes.items() if stock.outcome not in ("passed", "skipped")}
    assert failed == FAILS_WITH_BOTH[CLIENT]
    assert len(outcomes) >= FEWEST_TESTS[CLIENT]
