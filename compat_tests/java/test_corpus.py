"""The results of Java's assignors for the corpus, which docs/evidence.md must state exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.corpus.run import overall, run
from compat_tests.corpus.scenario import read_corpus
from compat_tests.peers.asking import PEERS

PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"


@pytest.mark.timeout(600)
def test_the_page_says_what_java_and_ours_did_here() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    results = list(run(read_corpus(), [peer for peer in PEERS if peer.client == "Java"]))
    said = [line for line in overall(results).splitlines() if line.startswith(("| ours", "| Java"))]
    assert len(said) == 7
    assert [line for line in said if line not in page] == []
