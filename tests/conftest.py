"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# An example may take as long as it likes: on a busy machine a deadline would fail at random.
settings.register_profile("without deadlines", deadline=None, print_blob=True)
settings.load_profile("without deadlines")
