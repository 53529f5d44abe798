"""A replay in chunks equals the replay in one piece, and a killed replay continues where it stopped.

Spark's results equal those of a plain loop, or the run fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_assignors_replay.engine import Limits, check_sample, draw
from kafka_assignors_replay.engine_choice import ENGINES
from kafka_assignors_replay.folds.group import FoldWork, fold_groups
from kafka_assignors_replay.folds.replay_state import read_state, write_state
from kafka_assignors_replay.folds.sums import GroupSums
from kafka_assignors_replay.local.engine import LocalEngine
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.report.as_json import json_report
from kafka_assignors_replay.result import Mode, ReplayError, ReplayOptions, ReplayResult, SampleCheck, Verdict
from spark_validation.fleet import history
from spark_validation.fleet.profile import FleetOptions
from spark_validation.tests.folding import work_on
from spark_validation.tests.groups import write_history
from spark_validation.tests.test_kip848_fold import ORDERS
from spark_validation.tests.test_kip848_groups import story

FLEET = FleetOptions(groups=12, generations=240, days=0.05, seed=6)
NAMES = ("range", "cooperative-sticky")
CHUNKS = Limits(chunk_bytes=64 << 10, slice_bytes=1 << 20)
"""The largest group needs several chunks."""


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("fleet") / "out")
    history.write(spark, FLEET, path)
    return path


def run(path: str, limits: Limits | None = None, engine: str = "spark", **options: object) -> ReplayResult:
    given = replace(ReplayOptions(path=path, strategies=NAMES), **options)  # type: ignore[arg-type]
    return run_replay(given, lambda _: None, limits or Limits(), engine=engine)


@pytest.fixture(scope="module")
def in_one(spark: SparkSession, path: str) -> ReplayResult:
    return run(path)


def text(result: ReplayResult) -> str:
    return json_report(replace(result, seconds=0.0))


def of_mode(verdicts: Iterable[Verdict], mode: Mode) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.mode is mode]


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", ENGINES)
def test_a_replay_in_pieces_is_the_replay_in_one(path: str, in_one: ReplayResult, engine: str) -> None:
    phases: list[str] = []
    in_pieces = run_replay(
        ReplayOptions(path=path, strategies=NAMES),
        lambda step: phases.append(step.phase),
        CHUNKS,
        engine=engine,
    )
    # A quick slice does not report progress.
    slices = {int(phase.rpartition(" of ")[2]) for phase in phases if "slice" in phase}
    assert min(slices) > 2, "the fleet is too small to come in chunks"
    assert text(in_pieces) == text(in_one)


# The check of a sample


Folded = tuple[LocalEngine, FoldWork, dict[str, GroupSums]]


@pytest.fixture
def folded(tmp_path: Path) -> Iterator[Folded]:
    """An engine that folded a classic group, a KIP-848 group and one that moved twice; work and sums."""
    options = ReplayOptions(path=write_history(tmp_path, story()), strategies=NAMES)
    with LocalEngine.opened(options) as engine:
        work = work_on(engine.records_of(["g", "again", "old"]), ORDERS, strategies=NAMES)
        engine.survey(Limits())
        engine.begin(work)
        sums = [read_state(GroupSums, each) for each in engine.run_slice(0, lambda done, total: None)]
        yield engine, work, {each.group or "": each for each in sums}


def test_a_sample_is_the_same_for_the_same_seed_and_has_no_large_group(folded: Folded) -> None:
    _, _, found = folded
    assert sorted(draw(found.values(), 9, 0)) == ["again", "g", "old"]
    assert draw(found.values(), 2, 0) == draw(found.values(), 2, 0)
    assert len({draw(found.values(), 1, seed) for seed in range(20)}) > 1
    found["g"].facts.replayable = 201
    assert "g" not in draw(found.values(), 9, 0)


def test_a_sample_of_groups_of_either_protocol_is_folded_here_too(folded: Folded) -> None:
    engine, work, found = folded
    groups = draw(found.values(), 3, 0)
    rows = sum(sums.rows for sums in found.values())
    assert check_sample(engine, work, found.values(), groups) == SampleCheck(groups, rows)
    assert check_sample(engine, work, found.values(), ()) == SampleCheck((), 0)


def _more_moves(sums: GroupSums) -> None:
    next(iter(sums.figures.values())).counts["moved"] += 1


def _no_figures(sums: GroupSums) -> None:
    sums.figures.clear()


def _another_cause(sums: GroupSums) -> None:
    sums.churn = {cause: count + 1 for cause, count in sums.churn.items()}


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (_more_moves, "one-step, strategy .*: moved is 1 there and 0 here"),
        (_no_figures, "nothing there"),
        (_another_cause, "the causes: join is"),
    ],
)
def test_a_difference_is_an_error(folded: Folded, plant: Callable[[GroupSums], None], said: str) -> None:
    engine, work, found = folded
    plant(found["again"])
    with pytest.raises(ReplayError, match=f"group 'again' differently, .*{said}"):
        check_sample(engine, work, found.values(), ("again",))


def test_details_that_differ_are_an_error(folded: Folded, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, work, found = folded
    monkeypatch.setattr(engine, "details", lambda groups: {})
    with pytest.raises(ReplayError, match=r"group 'again' differently, .* rebalance 0: nothing there"):
        check_sample(engine, work, found.values(), ("again",))


def test_sums_are_the_same_after_their_way_between_processes(folded: Folded) -> None:
    engine, work, found = folded
    for output in fold_groups(engine.records_of(found), replace(work, tables=False)):
        assert output.sums is not None
        assert write_state(read_state(GroupSums, output.sums)) == output.sums
