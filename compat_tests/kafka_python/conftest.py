"""Excludes the tests that the installed kafka-python cannot run."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import kafka
import pytest

collect_ignore_glob = ["test_cooperative_*.py"] if kafka.__version__.startswith("2.") else []
"""The cooperative consumer needs kafka-python 3; `test_assignor` checks its error with kafka-python 2."""


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
