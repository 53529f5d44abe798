"""Groups of kstreams applications: eager by argument, cooperative by `consumer_class`."""

from __future__ import annotations

from compat_tests.frameworks.framework_scenarios import FrameworkScenarios

PROGRAM = "compat_tests.frameworks.kstreams_member"


class TestEager(FrameworkScenarios):
    program = PROGRAM
    strategies = ["sticky"]


class TestCooperative(FrameworkScenarios):
    program = PROGRAM
    strategies = ["cooperative-sticky"]
