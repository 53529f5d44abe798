"""Groups of kstreams applications that are cooperative through `consumer_class`."""

from __future__ import annotations

from compat_tests.frameworks.framework_scenarios import FrameworkScenarios


class TestCooperative(FrameworkScenarios):
    program = "compat_tests.frameworks.kstreams_member"
