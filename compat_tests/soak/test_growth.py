"""The rule of the soak, applied to made-up series."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from compat_tests.soak.counts import MEASURES
from compat_tests.soak.growth import Series, growing, growth_of, read
from compat_tests.soak.repetition import Sample, added_by_each_round, sample

HOURS = 2
TIMES = [float(seconds) for seconds in range(0, HOURS * 3600, 20)]


def series(name: str, numbers: list[float]) -> Series:
    """A consumer with these numbers for one measure or type; all other counts are constant."""
    measures = {each: [100.0] * len(TIMES) for each in MEASURES}
    types = {"builtins.dict": [5000.0] * len(TIMES)}
    (measures if name in measures else types)[name] = numbers
    return Series(TIMES, measures, types, {})


class TestGrowth:
    @pytest.mark.parametrize(
        "name", ["callbacks", "futures", "tasks", "threads", "fds", "kafka.future.Future"]
    )
    def test_series_that_rises_by_one_a_minute_is_reported(self, name: str) -> None:
        assert list(growing(series(name, [50 + at // 60 for at in TIMES]))) == [name]

    def test_a_leak_is_found_below_greater_noise(self) -> None:
        noise = random.Random(1)
        numbers = [300 + at / 60 + noise.gauss(0, 20) for at in TIMES]
        assert list(growing(series("builtins.dict", [5000.0] * len(TIMES)))) == []
        assert list(growing(series("kafka.future.Future", numbers))) == ["kafka.future.Future"]

    @pytest.mark.parametrize("samples", [20, 40, len(TIMES)])
    def test_noise_does_not_grow(self, samples: int) -> None:
        for seed in range(50):
            noise = random.Random(seed)
            numbers = [20.0 + noise.choice([0, 0, 0, 8, 15]) for _ in range(samples)]
            found = Series(TIMES[:samples], {"callbacks": numbers}, {}, {})
            assert growing(found) == {}

    def test_caches_that_fill_in_the_first_half_do_not_grow(self) -> None:
        numbers = [min(at, 3000.0) * 1000 for at in TIMES]
        assert growing(series("traced_bytes", numbers)) == {}

    def test_an_outlier_does_not_grow(self) -> None:
        numbers = [40.0] * len(TIMES)
        numbers[-5:] = [4000.0] * 5
        assert growing(series("callbacks", numbers)) == {}

    def test_falling_series_is_not_reported(self) -> None:
        assert growing(series("callbacks", [5000 - at / 2 for at in TIMES])) == {}

    def test_the_slope_is_that_of_a_line(self) -> None:
        found = growth_of(TIMES, [7 + at / 36 for at in TIMES])
        assert found.per_hour == pytest.approx(100)
        assert found.added == pytest.approx(100, rel=0.02)
        assert found.steadiness == 1

    def test_a_run_that_is_too_short_is_not_judged(self) -> None:
        with pytest.raises(ValueError, match="let it run longer"):
            growth_of(TIMES[:10], [1.0] * 10)


class TestSamples:
    def test_types_are_written_when_they_change_and_the_last_line_may_be_under_way(
        self, tmp_path: Path
    ) -> None:
        counts = dict.fromkeys(MEASURES, 1)
        lines = [
            {"at": 10.0, "types": {"a": 1, "b": 2}, **counts},
            {"at": 30.0, "types": {"b": 3, "c": 4}, **counts},
            {"at": 50.0, "types": {"c": 0}, **counts},
        ]
        file = tmp_path / "one.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"at": 70.0, "ty')
        found = read(file)
        assert found.times == [0.0, 20.0, 40.0]
        assert found.types == {"a": [1, 1, 1], "b": [2, 3, 3], "c": [0.0, 4, 0]}


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
