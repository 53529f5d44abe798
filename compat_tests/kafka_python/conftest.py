"""Which tests are for the kafka-python that is installed."""

from __future__ import annotations

import kafka

collect_ignore_glob = ["test_cooperative_*.py"] if kafka.__version__.startswith("2.") else []
"""The cooperative consumer needs kafka-python 3; `test_assignor` has what 2 says to that."""
