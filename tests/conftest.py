"""Settings of the whole suite."""

from __future__ import annotations

import pytest
from hypothesis import is_hypothesis_test, settings

# An example may take as long as it likes: on a busy machine a deadline would fail at random.
settings.register_profile("without deadlines", deadline=None, print_blob=True)
settings.load_profile("without deadlines")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What draws examples searches, and finds the same on every Python."""
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.exhaustive)
