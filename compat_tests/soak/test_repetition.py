"""What rounds of repetitions say of an object that is kept."""

from __future__ import annotations

from compat_tests.soak.repetition import Sample, added_by_each_round, sample


class Kept:
    """A type of which the rest of the process has no objects."""


KEPT = f"{Kept.__module__}.{Kept.__qualname__}"


class TestRounds:
    def test_object_that_each_repetition_keeps_is_reported(self) -> None:
        assert added_by_each_round(self.samples(10, 10, 10), 10)[KEPT] == 10

    def test_objects_that_a_single_round_adds_are_not_reported(self) -> None:
        assert KEPT not in added_by_each_round(self.samples(0, 10, 0), 10)

    def samples(self, *added: int) -> list[Sample]:
        kept: list[Kept] = []
        samples = []
        for number in added:
            kept += [Kept() for _ in range(number)]
            samples.append(sample())
        return samples
