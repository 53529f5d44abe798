"""kafka-python's own tests pass with the cooperative consumer where they pass with the stock one.

The tests come from the source archive on the package index; without an index these tests fail and say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from compat_tests.upstream.differences import ALLOWED
from compat_tests.upstream.suites import (
    DOWNLOAD_TIMEOUT_S,
    RUN_TIMEOUT_S,
    SUITES,
    Outcome,
    compare,
    download,
    run,
    unpack,
)

pytestmark = pytest.mark.timeout(DOWNLOAD_TIMEOUT_S + RUN_TIMEOUT_S + 60)

Outcomes = Mapping[str, tuple[Outcome, Outcome]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("sources")
    found = run(SUITES["kafka-python"], unpack(download("kafka-python", folder), folder))
    for number, consumer in enumerate(("stock", "cooperative")):
        print(
            f"{consumer}: {sum(pair[number].outcome == 'passed' for pair in found.values())} of {len(found)}"
        )
    return found


def test_cooperative_consumer_passes_each_test_that_the_stock_consumer_passes(outcomes: Outcomes) -> None:
    different = compare(outcomes)
    assert {test: why for test, why in different.items() if test not in ALLOWED["kafka-python"]} == {}


def test_each_allowed_difference_is_one(outcomes: Outcomes) -> None:
    assert set(ALLOWED["kafka-python"]) <= set(compare(outcomes))


def test_the_tests_pass_with_the_stock_consumer(outcomes: Outcomes) -> None:
    failed = {
        test: stock for test, (stock, _) in outcomes.items() if stock.outcome not in ("passed", "skipped")
    }
    assert failed == {}
    assert len(outcomes) >= 25


@pytest.mark.parametrize("client", ALLOWED)
def test_the_docs_name_each_allowed_difference(client: str) -> None:
    page = Path(__file__).parents[2].joinpath("docs/upstream-suites.md").read_text(encoding="utf-8")
    assert [test for test in ALLOWED[client] if test.rpartition("::")[2] not in page] == []
