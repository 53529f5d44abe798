"""The engine's results equal those of a fold of a sample in this process, or the run fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_assignors_replay.engine import check_sample, draw
from kafka_assignors_replay.history.group_fold import FoldWork
from kafka_assignors_replay.history.sums import GroupSums
from kafka_assignors_replay.local_engine import LocalEngine
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from spark_validation.tests.folding import work_on
from spark_validation.tests.groups import write_history
from spark_validation.tests.test_kip848_fold import ORDERS, story

pytestmark = pytest.mark.exhaustive

NAMES = ("range", "cooperative-sticky")
Folded = tuple[LocalEngine, FoldWork, dict[str, GroupSums]]


@pytest.fixture
def folded(tmp_path: Path) -> Iterator[Folded]:
    """An engine that folded a classic group, a KIP-848 group and one that moved twice; work and sums."""
    options = ReplayOptions(path=write_history(tmp_path, story()), strategies=NAMES)
    with contextlib.ExitStack() as closing:
        engine = LocalEngine(options, frozenset(), lambda done, total: None, closing)
        engine.survey()
        work = work_on(engine.records_of([b"g", b"again", b"old"]), ORDERS, strategies=NAMES)
        yield engine, work, {each.group or "": each for each in engine.run(work)}


def test_a_sample_is_the_same_each_time_and_has_no_large_group(folded: Folded) -> None:
    _, _, found = folded
    assert sorted(draw(found.values(), 9)) == ["again", "g", "old"]
    assert draw(found.values(), 2) == draw(found.values(), 2)
    found["g"].facts.replayable = 201
    assert "g" not in draw(found.values(), 9)


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (lambda sums: next(iter(sums.figures.values())).values.update(moved=-1), "in its verdicts."),
        (lambda sums: sums.figures.clear(), "in its verdicts."),
        (lambda sums: sums.causes.update([*sums.causes]), "in its groups."),
    ],
)
def test_a_difference_is_an_error(folded: Folded, plant: Callable[[GroupSums], None], said: str) -> None:
    engine, work, found = folded
    plant(found["again"])
    with pytest.raises(ReplayError, match=f"group 'again' differently, {said}"):
        check_sample(engine, work, found.values(), ("again",))


def test_a_group_in_which_a_strategy_failed_is_not_folded_again(folded: Folded) -> None:
    """The strategy may not end, and in another thread than the main one nothing stops it."""
    _, _, found = folded
    found["g"].figures["one-step", "range"].fail("StrategyTimeout: no assignment within 60 s")
    assert sorted(draw(found.values(), 9)) == ["again", "old"]
