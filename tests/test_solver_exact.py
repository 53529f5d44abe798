"""No better assignment exists: the solver against an independent exact one, for random groups."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import pytest

from kafka_assignors.claims import Claims
from kafka_assignors.criteria import PLAIN, Criteria, Scale
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies.range_roundrobin import Range
from tests import exact_comparison
from tests.exact_comparison import Comparison, Failure, compare
from tests.exact_families import FAMILIES, MOST_MEMBERS, MOST_PARTITIONS, draw
from tests.exact_groups import Limits, random_group
from tests.exact_oracle import Oracle
from tests.exact_scales import random_scale
from tests.exact_score import Order, Score, readers, score
from tests.exact_search import Search, main

pytestmark = pytest.mark.exhaustive

TINY = Limits(members=4, topics=3, partitions=3)
LARGER = Limits(members=30, topics=25, partitions=15)


@pytest.mark.timeout(1200)  # about ten seconds of CPU time, on a machine that may be busy
@pytest.mark.parametrize(
    ("groups", "seed", "limits"),
    [(2000, 1, Limits()), (150, 2, LARGER)],
    ids=["2000 small groups", "150 larger groups"],
)
def test_no_assignment_is_better_balanced_or_moves_less_or_matches_more_racks(
    groups: int, seed: int, limits: Limits, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = compare(groups, seed, limits)
    with capsys.disabled():
        print(f"\n{comparison.table()}")
    assert comparison.groups == groups
    assert not comparison.failures


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("groups", "seed", "limits"),
    [(400, 1, Limits()), (30, 2, LARGER)],
    ids=["400 small groups", "30 larger groups"],
)
def test_no_assignment_is_better_where_members_differ_in_capacity(
    groups: int, seed: int, limits: Limits, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = compare(groups, seed, limits, make_scale=random_scale)
    with capsys.disabled():
        print(f"\n{comparison.table()}")
    assert comparison.kinds["capacities"] > groups / 2 < comparison.kinds["partitions already there"] * 2
    assert not comparison.failures


def best_of_all(group: Group, order: Order, scale: Scale) -> Score:
    """The best score, found by trying every assignment."""
    oracle = Oracle(group)
    assignments = product(*oracle.readers.values())
    scores = (
        score(group, dict(zip(oracle.readers, members, strict=True)), oracle.prior, scale)
        for members in assignments
    )
    return min(scores, key=lambda reached: reached.in_order(order))


def test_the_exact_solver_of_the_comparison_finds_what_trying_everything_finds() -> None:
    tried = 0
    for number in range(300):
        rng = random.Random(f"tiny/{number}")
        group = random_group(rng, TINY)
        scale = random_scale(rng, group) if number % 2 else PLAIN
        oracle = Oracle(group, scale)
        if 4 ** len(oracle.partitions) <= 4**5:
            tried += 1
            for order in Order:
                assert oracle.best(order).in_order(order) == best_of_all(group, order, scale).in_order(order)
    assert tried > 100


def solve_by_range(group: Group, claims: Claims, *, criteria: Criteria, scale: Scale) -> Assignment:
    return Range().assign(group)


def solve_by_order(group: Group, claims: Claims, *, criteria: Criteria, scale: Scale) -> Assignment:
    """Assign every partition to its first subscriber."""
    shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
    for topic, partition in readers(group):
        shares[readers(group)[topic, partition][0]].setdefault(topic, []).append(partition)
    return Assignment(shares)


def solve_nothing(group: Group, claims: Claims, *, criteria: Criteria, scale: Scale) -> Assignment:
    return Assignment({member_id: {} for member_id in group.members})


@pytest.mark.parametrize(
    ("wrong_solver", "what"),
    [
        (solve_by_range, "is possible"),
        (solve_by_order, "the order of members or topics matters"),
        (solve_nothing, "a partition is assigned to no member"),
    ],
)
def test_the_comparison_sees_what_a_wrong_solver_does(
    wrong_solver: object, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_comparison, "solve", wrong_solver)
    wrong = compare(groups=50, seed=4).failures
    assert len({failure.name for failure in wrong if what in failure.what}) > 25


class TestTheSearch:
    def test_with_capacities_does_not_go_on_without_them(self, tmp_path: Path) -> None:
        file = tmp_path / "search.json"
        assert (
            main(["--groups", "100", "--seed", "3", "--jobs", "1", "--capacities", "--json", str(file)]) == 0
        )
        assert Search.read(file).total().kinds["capacities"] > 50
        assert main(["--groups", "100", "--seed", "3", "--json", str(file)]) == 2

    def test_goes_on_where_it_stopped(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        stopped, whole = tmp_path / "stopped.json", tmp_path / "whole.json"
        assert main(["--groups", "100", "--seed", "3", "--jobs", "1", "--json", str(stopped)]) == 0
        assert "100 solved, 0 not optimal" in capsys.readouterr().out
        assert main(["--groups", "200", "--seed", "3", "--jobs", "1", "--json", str(stopped)]) == 0
        assert main(["--groups", "200", "--seed", "3", "--jobs", "2", "--json", str(whole)]) == 0
        continued, at_once = (json.loads(file.read_text()) for file in (stopped, whole))
        assert continued["chunks_done"] == [[0, 1]]
        for family in FAMILIES:
            assert Comparison.from_json(continued["families"][family]) == Comparison.from_json(
                at_once["families"][family]
            )

    def test_does_not_go_on_with_another_search(self, tmp_path: Path) -> None:
        file = tmp_path / "search.json"
        Search(seed=1).save(file)
        assert main(["--groups", "100", "--seed", "2", "--json", str(file)]) == 2

    def test_a_comparison_that_finds_a_fault_exits_with_1(self, tmp_path: Path) -> None:
        file = tmp_path / "search.json"
        search = Search(seed=1)
        search.by_family["small"].failures.append(Failure("small/1/0", "MOVEMENT", "is wrong", {}))
        search.chunks.add(0)
        search.save(file)
        assert main(["--groups", "100", "--seed", "1", "--json", str(file)]) == 1

    def test_draws_what_each_family_says(self) -> None:
        seen = Comparison()
        for family in FAMILIES:
            of_family = Comparison()
            for number in range(60):
                of_family.add(family, draw(family, f"kinds/{number}"))
            assert of_family.kinds["racks"] > 10 or family not in ("small", "racks", "everything")
            assert of_family.kinds["double claims"] > 10 or family not in ("claims", "everything")
            assert of_family.kinds["static members"] > 10 or family not in ("static", "everything")
            assert (of_family.kinds["prior owners"] == 0) == (family == "fresh")
            seen.merge(of_family)
        assert max(seen.sizes["members"]) == MOST_MEMBERS
        assert MOST_PARTITIONS * 0.95 < max(seen.sizes["partitions assigned"]) <= MOST_PARTITIONS
