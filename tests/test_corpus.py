"""The scenarios of `compat_tests/corpus`: our strategies reach each optimum, and the stated facts hold."""

from __future__ import annotations

import pytest

from compat_tests.corpus.judge import End, judge, play
from compat_tests.corpus.optimum import best_of
from compat_tests.corpus.run import OURS, play_ours
from compat_tests.corpus.scenario import FAMILIES, Best, read_corpus
from compat_tests.peers.asking import Answer
from kafka_assignors.group import Assignment, Group, Member, Topic

CORPUS = read_corpus()
SMALL = [scenario for scenario in CORPUS if len(scenario.group.members) <= 40]


@pytest.mark.parametrize("strategy", OURS)
@pytest.mark.parametrize("family", FAMILIES)
def test_ours_is_optimal_and_at_rest_in_every_scenario(strategy: str, family: str) -> None:
    played = [play_ours(strategy, scenario) for scenario in CORPUS if scenario.family == family]
    assert played
    assert [result for result in played if not result.verdict.flawless] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_the_optimum_in_the_file_is_what_the_independent_solver_finds(family: str) -> None:
    for scenario in SMALL:
        if scenario.family == family:
            assert best_of(scenario.group) == scenario.best, scenario.name


# ---- the judge, on a group in which every failure is possible

GROUP = Group.of(
    [Topic("a", 4)],
    [Member("m1", frozenset("a"), owned={"a": [0, 1, 2, 3]}, generation=1), Member("m2", frozenset("a"))],
    2,
)
BEST = Best({2: 2}, (2, 0), (0, 2))


def answers(*rounds: dict[str, dict[str, list[int]]] | str) -> list[Answer]:
    return [
        Answer(None, given) if isinstance(given, str) else Answer(Assignment(given), None) for given in rounds
    ]


def played(*rounds: dict[str, dict[str, list[int]]] | str, cooperative: bool = False) -> tuple[End, str]:
    """The end of a group whose assignor returns these answers in turn, and then repeats the last one."""
    told = answers(*rounds)
    verdict = judge(
        GROUP, BEST, play(GROUP, lambda _: told.pop(0) if len(told) > 1 else told[0], cooperative=cooperative)
    )
    return verdict.end, verdict.why


FAIR = {"m1": {"a": [0, 1]}, "m2": {"a": [2, 3]}}
CROSSED = {"m1": {"a": [2, 3]}, "m2": {"a": [0, 1]}}
WITHHELD: dict[str, dict[str, list[int]]] = {"m1": {"a": [0, 1]}, "m2": {}}


@pytest.mark.parametrize(
    ("rounds", "cooperative", "end", "why"),
    [
        ([FAIR], False, End.SETTLED, ""),
        ([WITHHELD, FAIR], True, End.SETTLED, ""),
        (["out of memory"], False, End.CRASHED, "out of memory"),
        ([WITHHELD], False, End.INVALID, "leaves 2 partitions without an owner, the first being a-2"),
        ([WITHHELD], True, End.INVALID, "leaves 2 partitions without an owner, the first being a-2"),
        ([{**FAIR, "m1": {"a": [0, 1, 2]}}], False, End.INVALID, "gives a-2 to m1 and m2"),
        ([{**FAIR, "m3": {"a": [1]}}], True, End.INVALID, "gives a-1 to m3, who does not read it"),
        ([FAIR, CROSSED] * 10, False, End.NEVER_SETTLES, "still moves partitions in round 12"),
    ],
)
def test_the_judge_tells_how_it_ended(
    rounds: list[dict[str, dict[str, list[int]]] | str], cooperative: bool, end: End, why: str
) -> None:
    assert played(*rounds, cooperative=cooperative) == (end, why)
