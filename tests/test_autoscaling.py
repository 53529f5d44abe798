"""The autoscaling benchmark: published heuristics, queues computed by hand, and reproducible figures."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.autoscaling.contestants import OURS, Run, late_runs, runs
from benchmarks.autoscaling.heuristics import HEURISTICS, UNASSIGNED
from benchmarks.autoscaling.ours import as_published, fewest, fixed, following, held, scaled, when_exceeded
from benchmarks.autoscaling.published import published_lateness
from benchmarks.autoscaling.queues import Lateness, Queues
from benchmarks.autoscaling.report import no_worse, table, verdict
from benchmarks.autoscaling.results import RESULTS, read, row, write
from benchmarks.autoscaling.simulation import Decision, moved_partitions, r_score, simulate
from benchmarks.autoscaling.traces import CAPACITY, Trace, random_walk, read_stream, traces
from kafka_assignors.pause_model import Consumption, PauseModel
from kafka_assignors.strategies import CooperativeSticky, Weighted

PAGE = Path(__file__).resolve().parent.parent / "docs" / "autoscaling.md"


def assigned(name: str, speeds: Sequence[int], owners: Sequence[int] | None = None) -> list[int]:
    before = [UNASSIGNED] * len(speeds) if owners is None else owners
    return HEURISTICS[name](speeds, before, random.Random(0))


class TestHeuristics:
    @pytest.mark.parametrize(
        ("name", "owners"),
        [
            ("NFD", [0, 1, 1, 2, 2]),  # 60 | 50 + 40 | 30 + 20
            ("FFD", [0, 1, 0, 1, 1]),  # 60 + 40 | 50 + 30 + 20
            ("BFD", [0, 1, 0, 1, 1]),
            ("WFD", [0, 1, 1, 0, 2]),  # 60 + 30 | 50 + 40 | 20
        ],
    )
    def test_decreasing_any_fit_takes_the_fastest_first(self, name: str, owners: list[int]) -> None:
        assert assigned(name, [60, 50, 40, 30, 20]) == owners

    def test_best_fit_and_worst_fit_differ_in_the_consumer_for_what_fits_on_two(self) -> None:
        # 70 | 60, and 30 fits on both.
        assert assigned("BFD", [70, 60, 30]) == [0, 1, 0]
        assert assigned("WFD", [70, 60, 30]) == [0, 1, 1]

    def test_its_own_consumer_is_opened_for_a_partition_or_else_the_one_with_the_least_number(self) -> None:
        # 60 opens its owner 3. 50 does not fit there, so it opens 0, the first consumer that is not open.
        assert assigned("BFD", [60, 50, 45], [3, 3, 2]) == [3, 0, 0]
        assert assigned("FFD", [60, 50, 55], [3, 2, 2]) == [3, 0, 2]

    def test_an_empty_consumer_takes_what_is_above_the_capacity(self) -> None:
        assert assigned("FFD", [CAPACITY + 20, 30]) == [0, 1]

    @pytest.mark.parametrize("name", ["MWF", "MBF", "MWFP", "MBFP"])
    def test_modified_any_fit_worked_by_hand(self, name: str) -> None:
        # Consumer 0 has 60 + 50, and 1 has 40 + 10. 0 comes first: it opens, keeps 60, and 50 is left over.
        # Then 10 moves from 1 to 0. 40 does not fit there, so 1 opens and keeps it. At the end 50 goes to 1.
        assert assigned(name, [60, 50, 40, 10], [0, 0, 1, 1]) == [0, 1, 1, 0]

    def test_which_consumer_comes_first_is_decided_by_its_load_or_by_its_fastest_partition(self) -> None:
        # By load, 1 (45 + 45) is first, and the 10 of 0 fits on it; by the fastest partition, 0 (70 + 10) is.
        speeds, owners = [70, 10, 45, 45], [0, 0, 1, 1]
        assert assigned("MBF", speeds, owners) == [0, 1, 1, 1]
        assert assigned("MBFP", speeds, owners) == [0, 0, 1, 1]

    def test_modified_worst_fit_offers_to_the_emptiest_and_best_fit_to_the_fullest(self) -> None:
        speeds, owners = [80, 60, 15], [0, 1, 2]
        assert assigned("MWF", speeds, owners) == [0, 1, 1]
        assert assigned("MBF", speeds, owners) == [0, 1, 0]

    @pytest.mark.parametrize("name", HEURISTICS)
    def test_every_partition_has_a_consumer_that_is_not_filled_above_the_capacity(self, name: str) -> None:
        trace = random_walk("fits", partitions=40, measurements=5, delta=20, start=None, seed=8)
        owners, rng = [UNASSIGNED] * 40, random.Random(1)
        for speeds in trace.speeds:
            owners = HEURISTICS[name](speeds, owners, rng)
            loads: dict[int, int] = {}
            for speed, owner in zip(speeds, owners, strict=True):
                loads[owner] = loads.get(owner, 0) + speed
            assert UNASSIGNED not in loads
            assert max(loads.values()) <= CAPACITY


class TestMeasures:
    def test_the_r_score_is_the_speed_of_what_moves_by_the_capacity_now_and_a_first_owner_is_no_move(
        self,
    ) -> None:
        moved = moved_partitions([0, 0, 1, UNASSIGNED], [1, 0, 2, 0])
        assert moved == [0, 2]
        assert r_score([60, 50, 30, 90], moved) == pytest.approx(0.9)

    def test_a_percentile_lies_within_the_piece_it_falls_in(self) -> None:
        lateness = Lateness(prompt=90.0)
        lateness.add(4.0, 0.0, 5.0)
        lateness.add(10.0, 20.0, 5.0)
        assert lateness.percentile_s(90) == 0
        assert lateness.percentile_s(92.5) == pytest.approx(2.0, abs=1e-4)
        assert lateness.percentile_s(99) == pytest.approx(18.0, abs=1e-4)


class TestQueues:
    def test_a_pause_is_caught_up_with_what_the_consumer_has_to_spare(self) -> None:
        queues = Queues(1, 200)
        queues.run(30, [100], [0], {0: 5.0})
        # 500 records wait after 5 s, and 100 fewer each second: 1000 are late, by 5 s down to 0.
        assert queues.waiting == 0
        assert queues.lateness.prompt == pytest.approx(2000)
        assert sum(amount for _, _, amount in queues.lateness.late) == pytest.approx(1000)
        assert queues.lateness.percentile_s(99) == pytest.approx(5 * (1 - 30 / 1000), abs=1e-4)

    def test_a_consumer_with_too_much_falls_behind_for_as_long_as_it_lasts_and_all_is_processed_at_last(
        self,
    ) -> None:
        queues = Queues(1, 50)
        queues.run(30, [100], [0], {})
        assert queues.waiting == pytest.approx(1500)
        queues.drain([0])
        assert queues.lateness.amount == pytest.approx(3000)
        # The last record arrives at 30 s and is processed at 60 s.
        assert max(last for _, last, _ in queues.lateness.late) == pytest.approx(30)

    def test_a_partition_that_keeps_up_does_not_wait_for_the_backlog_of_another(self) -> None:
        queues = Queues(2, 100)
        queues.run(10, [20, 50], [0, 0], {1: 4.0})
        assert queues.lateness.prompt == pytest.approx(20 * 10 + 0)
        # Partition 1 has 200 records waiting after 4 s and drains 80 a second: 6 s more are not enough.
        assert queues.waiting == pytest.approx(200 - 30 * 6)

    def test_the_next_owner_gets_what_waits(self) -> None:
        queues = Queues(2, 100)
        queues.run(10, [100, 60], [0, 0], {})
        assert queues.waiting == pytest.approx(600)
        queues.run(10, [0, 0], [0, 1], {1: 2.0})
        assert queues.waiting == pytest.approx(0)
        assert queues.lateness.amount == pytest.approx(1600)

    def test_what_is_left_of_the_capacity_is_shared_by_those_that_want_more(self) -> None:
        queues = Queues(3, 90)
        queues.run(10, [10, 60, 60], [0, 0, 0], {})
        assert queues.lateness.prompt == pytest.approx(100)
        assert queues.waiting == pytest.approx(2 * 10 * (60 - 40))


class TestSimulation:
    def test_a_partition_that_moves_pauses_as_the_paper_and_as_the_model_say(self) -> None:
        # 60 + 30, then 60 + 50: the lighter partition is enough, so it moves to a second consumer.
        trace = Trace("two", [[60, 30], [60, 50]])
        result = simulate(trace, scaled(fewest, Weighted(capacity=CAPACITY)))
        assert result.consumers == [1, 2]
        assert result.r_scores == [0, 0.5]
        assert result.moved == 1
        pause_s = PauseModel().pause_s(Consumption.COOPERATIVE, 2)
        assert max(last for _, last, _ in result.paper.late) == pytest.approx(5)
        assert max(last for _, last, _ in result.modelled.late) == pytest.approx(pause_s)
        assert result.overloaded == 0

    def test_what_the_owner_left_behind_pauses_longer_and_an_eager_group_pauses_altogether(self) -> None:
        trace = Trace("down", [[60, 60], [20, 20]])
        cooperative = simulate(trace, scaled(fewest, CooperativeSticky()))
        eager = simulate(trace, scaled(fewest, CooperativeSticky()), eager=True)
        vacancy_s = PauseModel().vacancy_s(Consumption.COOPERATIVE, 1)
        assert max(last for _, last, _ in cooperative.modelled.late) == pytest.approx(vacancy_s)
        assert len(eager.modelled.late) > len(cooperative.modelled.late)
        assert eager.moved == cooperative.moved == 1

    def test_a_contestant_that_is_late_decides_on_the_measurement_before(self) -> None:
        trace = Trace("late", [[60, 30], [60, 90], [60, 90]])
        result = simulate(trace, scaled(fewest, Weighted(capacity=CAPACITY)), measured_late=True)
        assert result.consumers == [1, 1, 2]
        assert result.overloaded == pytest.approx(1 / 4)

    def test_counts_are_fewest_held_fixed_or_those_of_another(self) -> None:
        measurements = [[60, 60], [20, 20], [20, 20], [20, 20]]
        for count, expected in (
            (fewest, [2, 1, 1, 1]),
            (held(2), [2, 2, 1, 1]),
            (fixed(3), [3, 3, 3, 3]),
            (following([4, 3, 2, 1]), [4, 3, 2, 1]),
        ):
            assert [count(speeds) for speeds in measurements] == expected

    def test_the_least_loaded_consumer_goes_and_the_free_number_comes(self) -> None:
        before = Decision([0, 1, 2], frozenset({0, 1, 2}))
        after = scaled(fixed(2), CooperativeSticky())([50, 10, 60], before)
        assert after.consumers == {0, 2}
        assert scaled(fixed(3), CooperativeSticky())([50, 10, 60], after).consumers == {0, 1, 2}

    def test_above_the_capacity_of_a_consumer_and_not_before_a_guarded_heuristic_decides(self) -> None:
        step = when_exceeded(as_published(HEURISTICS["BFD"]))
        before = Decision([0, 0, 1], frozenset({0, 1}))
        assert step([70, 60, 10], before) is before
        assert step([70, 64, 10], before).owners != before.owners


def test_a_walk_stays_from_nothing_to_the_capacity_and_no_step_is_longer_than_its_delta() -> None:
    speeds = random_walk("walk", partitions=30, measurements=80, delta=25, start=None, seed=4).speeds
    assert {min(map(min, speeds)), max(map(max, speeds))} == {0, CAPACITY}
    steps = [
        abs(after - before) for one, two in pairwise(speeds) for before, after in zip(one, two, strict=True)
    ]
    assert max(steps) == 25
    assert random_walk("walk", partitions=3, measurements=2, delta=5, start=50, seed=4).speeds[0] == [50] * 3


def test_a_stream_of_the_authors_is_read_by_topic_and_partition(tmp_path: Path) -> None:
    file = tmp_path / "stream"
    file.write_text(
        json.dumps([{"b": {"0": 5}, "a": {"10": 2, "9": 1}}, {"a": {"9": 3, "10": 4}, "b": {"0": 6}}])
    )
    assert read_stream(file).speeds == [[1, 2, 5], [3, 4, 6]]


def test_the_formula_of_the_authors_worked_by_hand() -> None:
    # A consumer that processes 133 a second gets 100 and then 200: each record delays it by 1/133 - 1/200 s.
    trace = Trace("hand", [[100], [200]])
    consumers, score, lateness = published_lateness(trace, scaled(fixed(1), CooperativeSticky()))
    assert (consumers, score) == (1, 0)
    assert lateness.amount == pytest.approx(200 * 30)
    assert lateness.percentile_s(100) == pytest.approx(200 * 30 * (1 / 133 - 1 / 200), abs=1e-4)


class TestTheWhole:
    def test_the_short_form_runs_and_gives_the_same_figures_each_time(self, tmp_path: Path) -> None:
        trace = traces(small=True)[0]
        rows, again = ([row(run) for run in runs(trace)] for _ in range(2))
        assert rows == again
        late = [row(run) for run in late_runs(trace)]
        write(tmp_path / "results.json", {"prompt": {trace.name: rows}, "late": {trace.name: late}})
        assert read(tmp_path / "results.json")["prompt"][trace.name] == rows
        assert table(rows).count("\n") == len(rows) + 1

    def test_the_kept_figures_of_the_latencies_are_what_a_run_gives(self) -> None:
        trace = traces()[0]
        kept = {each.name: each for each in read(RESULTS)["prompt"][trace.name]}
        for name in ("BFD", "MWF", "MBF"):
            assert row(Run(name, "published", simulate(trace, as_published(HEURISTICS[name])))) == kept[name]
        for name, step_of in OURS.items():
            assert row(Run(name, "ours", simulate(trace, step_of()))) == kept[name]

    def test_with_as_many_consumers_ours_is_no_worse_on_any_trace(self) -> None:
        results = read(RESULTS)["prompt"]
        assert len(results) == len(traces(small=True))
        for rows in results.values():
            by_name = {each.name: each for each in rows}
            beside = [each for each in rows if each.kind == "as many"]
            assert beside
            assert all(no_worse(each, by_name[each.beside]) for each in beside)

    def test_the_page_has_the_tables_of_the_results(self) -> None:
        page = PAGE.read_text()
        results = read(RESULTS)
        assert table(results["prompt"]["latency"]) in page
        assert table(results["late"]["uniform, 25 %"]) in page
        assert verdict(results["prompt"]) in page
