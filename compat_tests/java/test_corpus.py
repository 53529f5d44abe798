"""The results of Java's assignors for the corpus, which docs/evidence.md must state exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.corpus.judge import End
from compat_tests.corpus.run import Result, overall, run
from compat_tests.corpus.scenario import read_corpus
from compat_tests.peers.asking import PEERS

PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return list(run(read_corpus(), [peer for peer in PEERS if peer.client == "Java"]))


@pytest.mark.timeout(600)
def test_the_page_says_what_java_and_ours_did_here(results: list[Result]) -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    said = [line for line in overall(results).splitlines() if line.startswith(("| ours", "| Java"))]
    assert len(said) == 7
    assert [line for line in said if line not in page] == []


def test_java_is_never_better_than_ours(results: list[Result]) -> None:
    ours = {r.scenario.name for r in results if r.assignor == "ours cooperative-sticky" and r.verdict.best}
    assert {r.scenario.name for r in results if not r.ours and r.verdict.best} <= ours


def test_java_crashes_over_a_negative_partition_where_ours_drops_the_claim(results: list[Result]) -> None:
    (java,) = (
        result.verdict
        for result in results
        if result.assignor == "Java sticky" and result.scenario.name == "claims-a-negative-partition"
    )
    assert java.end is End.CRASHED
