"""Settings of the whole suite."""

from __future__ import annotations

import pytest
from hypothesis import is_hypothesis_test, settings

# Examples have no deadline: on a busy machine a deadline fails at random.
settings.register_profile("without deadlines", deadline=None, print_blob=True)
settings.load_profile("without deadlines")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every Hypothesis test as `exhaustive`, with the same examples on every Python version."""
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.exhaustive)
