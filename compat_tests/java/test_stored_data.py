"""The data about Java that the core's tests store agree with the installed Java client."""

from __future__ import annotations

from compat_tests.java.write_data import ASSIGNMENTS, SAMPLES, assignments, samples, to_lines

REMEDY = "run python -m compat_tests.java.write_data and look at the difference"


def test_the_stored_assignments_are_java_s() -> None:
    assert ASSIGNMENTS.read_text(encoding="ascii") == to_lines(assignments()), REMEDY


def test_the_stored_bytes_are_java_s() -> None:
    assert SAMPLES.read_text(encoding="ascii") == to_lines(samples()), REMEDY
