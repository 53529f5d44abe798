"""Excludes the tests that the installed kafka-python cannot run."""

from __future__ import annotations

import kafka

collect_ignore_glob = ["test_cooperative_*.py"] if kafka.__version__.startswith("2.") else []
"""The cooperative consumer needs kafka-python 3; `test_assignor` checks its error with kafka-python 2."""
