"""Groups of taskiq workers: eager, since the broker of taskiq-aio-kafka makes its consumer itself."""

from __future__ import annotations

from compat_tests.frameworks.framework_scenarios import FrameworkScenarios


class TestEager(FrameworkScenarios):
    program = "compat_tests.frameworks.taskiq_member"
    strategies = ("sticky",)
