"""The check of a sample: the result of an engine equals that of a plain loop, or the run fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_assignors_replay.collected import Collected
from kafka_assignors_replay.engine import Engine, check_sample, draw
from kafka_assignors_replay.folds.group import Detail, FoldWork
from kafka_assignors_replay.folds.sums import GroupSums
from kafka_assignors_replay.local.engine import LocalEngine
from kafka_assignors_replay.result import ReplayError, ReplayOptions, SampleCheck
from spark_validation.tests.folding import work_on
from spark_validation.tests.groups import write_history
from spark_validation.tests.test_kip848_fold import ORDERS
from spark_validation.tests.test_kip848_groups import story

NAMES = ("range", "cooperative-sticky")

Folded = tuple[Engine, FoldWork, Collected]


@pytest.fixture
def folded(tmp_path: Path) -> Iterator[Folded]:
    """An engine that folded a classic group, a KIP-848 group and one that moved twice; work and outputs."""
    options = ReplayOptions(path=write_history(tmp_path, story()), strategies=NAMES)
    with LocalEngine.opened(options) as engine, Collected() as collected:
        engine.survey()
        work = work_on(engine.records_of(["g", "again", "old"]), ORDERS, strategies=NAMES)
        for output in engine.fold(work, lambda done, total: None):
            collected.add(output)
        yield engine, work, collected


def check(folded: Folded, groups: tuple[str, ...]) -> SampleCheck:
    engine, work, collected = folded
    return check_sample(engine, work, groups, collected.sums, collected.detail)


def test_a_sample_is_the_same_for_the_same_seed_and_has_no_large_group(folded: Folded) -> None:
    found = folded[2].sums
    assert sorted(draw(found.values(), 9, 0)) == ["again", "g", "old"]
    assert draw(found.values(), 2, 0) == draw(found.values(), 2, 0)
    assert len({draw(found.values(), 1, seed) for seed in range(20)}) > 1
    found["g"].facts.replayable = 201
    assert "g" not in draw(found.values(), 9, 0)


def test_a_sample_of_groups_of_either_protocol_is_folded_here_too(folded: Folded) -> None:
    found = folded[2].sums
    groups = draw(found.values(), 3, 0)
    assert check(folded, groups) == SampleCheck(groups, sum(sums.rows for sums in found.values()))
    assert check(folded, ()) == SampleCheck((), 0)


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
    plant(folded[2].sums["again"])
    with pytest.raises(ReplayError, match=f"group 'again' differently, .*{said}"):
        check(folded, ("again",))


def test_details_that_differ_are_an_error(folded: Folded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded[2], "detail", lambda group, most: Detail({}, ()))
    with pytest.raises(ReplayError, match=r"group 'again' differently, .* rebalance 0: nothing there"):
        check(folded, ("again",))
