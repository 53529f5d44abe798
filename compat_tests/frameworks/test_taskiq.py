"""Groups of taskiq workers: eager, because the broker of taskiq-aio-kafka creates its own consumer."""

from __future__ import annotations

from compat_tests.frameworks.framework_scenarios import FrameworkScenarios


class TestEager(FrameworkScenarios):
    program = "compat_tests.frameworks.taskiq_member"
    strategies = ("sticky",)
