"""A strategy that modifies its arguments affects only itself, in every place where strategies run."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from kafka_assignors import messages
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import InvalidAssignmentError, lead
from kafka_assignors.strategies import Range, Sticky
from kafka_assignors.strategies.sticky import CooperativeSticky
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy, contract_problem, lent
from kafka_assignors.wire import encode_member
from kafka_assignors_cli import main
from kafka_assignors_cli.group_form import group_to_json
from kafka_assignors_ops.comparison import compare_strategies
from kafka_assignors_strategies.composed import Composed
from kafka_assignors_strategies.rules.basic import LevelPartitions
from kafka_assignors_strategies.rules.rule import Place, Problem, Rule
from tests.exact_groups import SMALL, random_group
from tests.hostile_strategy import HOSTILE, Ruining, RuiningByInheritance, RuiningLater, ruin
from tests.joining import subscription_bytes

COOPERATIVE = RebalanceProtocol.COOPERATIVE


def moving() -> Group:
    """A group in which a partition has to move, with every field that a strategy may read."""
    topics = [
        Topic("orders", 3, (frozenset("a"), frozenset("b"), frozenset("a")), weights=(1, 2, None)),
        Topic("payments", 2),
    ]
    both = frozenset({"orders", "payments"})
    members = [
        Member("m1", both, rack="a", owned={"orders": [2, 0, 1], "payments": [0]}, generation=4, data=b"x"),
        Member("m2", both, rack="b", owned={"payments": [0, 1]}, generation=3),
        Member("m3", both, "instance"),
    ]
    return Group.of(topics, members, 5)


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest) -> Strategy:
    strategy: Strategy = request.param()
    assert contract_problem(strategy) is None
    return strategy


def call(strategy: Strategy, hook: str, group: Group) -> None:
    """Call a hook as the library does; errors of the strategy are ignored."""
    member = group.members["m1"]
    context = MemberContext(member.topics, member.owned, member.generation, member.instance_id, member.rack)
    with contextlib.suppress(AttributeError, InvalidAssignmentError):
        if hook == "assign":
            lead(strategy, group, COOPERATIVE)
        elif hook == "member_data":
            encode_member(strategy, context, held=True)
        else:
            getattr(strategy, hook)(lent(strategy, group))


@pytest.mark.parametrize("hook", ["assign", "member_data", "findings", "balance_scale"])
def test_a_hook_that_changes_what_it_is_handed_changes_nothing_of_the_group(
    hostile: Strategy, hook: str
) -> None:
    group = moving()
    before = copy.deepcopy(group)
    claims = copy.deepcopy(group.claims)
    call(hostile, hook, group)
    assert group == before
    assert group.claims == claims


def test_a_strategy_gets_a_group_that_equals_the_leaders() -> None:
    rng = random.Random(5)
    for group in (moving(), *(random_group(rng, SMALL) for _ in range(200))):
        assert group.detached() == group
        assert group.detached().claims == group.claims == replace(group).claims


def test_a_leader_whose_strategy_changes_the_group_judges_and_withholds_by_what_members_sent() -> None:
    group = moving()
    expected = lead(CooperativeSticky(), moving(), COOPERATIVE)
    for broken in (Ruining(), RuiningByInheritance()):
        with pytest.raises(InvalidAssignmentError):
            lead(broken, group, COOPERATIVE)
    later = RuiningLater()
    assert lead(later, group, COOPERATIVE) == expected
    led = lead(later, group, COOPERATIVE)
    later.findings(lent(later, group))
    assert led == expected
    assert lead(CooperativeSticky(), group, COOPERATIVE) == expected


def test_the_bytes_that_members_send_and_are_sent_are_those_of_a_strategy_that_changes_nothing() -> None:
    class Honest(CooperativeSticky):
        name = "hostile"

        def member_data(self, member: MemberContext) -> bytes:
            return b"hostile"

    def sent(strategy: Strategy) -> tuple[list[bytes], object]:
        last = messages.LastAssignment({"orders": [0, 1], "payments": [1]}, 4)
        lasts = (last, messages.NEVER_ASSIGNED)
        joins = [subscription_bytes(strategy, ["orders", "payments"], one, held=True) for one in lasts]
        assert last.partitions == {"orders": [0, 1], "payments": [1]}
        members = [messages.JoinedMember(f"m{place}", None, join) for place, join in enumerate(joins)]
        joined = messages.read_members(strategy, members)
        topics = [Topic("orders", 2), Topic("payments", 2)]
        answers = [messages.encode_assignments(strategy, joined, topics, 5).assignments for _ in range(2)]
        return joins, answers

    assert sent(RuiningLater()) == sent(Honest())


def test_a_hostile_strategy_does_not_change_the_results_of_the_others(hostile: Strategy) -> None:
    others = [("sticky", Sticky()), ("range", Range()), ("cooperative-sticky", CooperativeSticky())]
    expected = compare_strategies(moving(), others)
    found = compare_strategies(moving(), [("hostile", hostile), *others, ("again", hostile)])
    assert (found.now, found.least_moved) == (expected.now, expected.least_moved)
    assert found.results[1:-1] == expected.results
    for own in (found.results[0], found.results[-1]):
        assert (own.problem is None) == isinstance(hostile, RuiningLater)
        if own.problem is None:
            assert own.quality == expected.results[-1].quality


@dataclass(frozen=True)
class RuiningRule(Rule):
    """A rule for composed strategies that modifies the group of the problem."""

    kind: ClassVar[str] = "ruin"
    place: ClassVar[Place] = Place.RESTRICTION

    def restrict(self, problem: Problem) -> Problem:
        ruin(problem.group)
        return problem


def test_a_rule_that_is_not_ours_works_on_a_copy() -> None:
    group = moving()
    strategy = Composed("composed", (RuiningRule(), LevelPartitions()))
    strategy.findings(group)
    assert strategy.assign(group) == Assignment({})
    assert group == moving()


def test_assign_prints_the_assignment_that_it_checked_or_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "groups.jsonl"
    file.write_text(f"{json.dumps(group_to_json(moving()))}\n" * 2)
    answers = []
    for strategy in ("cooperative-sticky", "tests.hostile_strategy:RuiningLater"):
        assert main(["assign", str(file), "--strategy", strategy]) == 0
        lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
        answers.append([(one["assignment"], one["quality"]) for one in lines])
    assert answers[0] == answers[1]
    assert len(answers[0]) == 2
    assert main(["assign", str(file), "--strategy", "tests.hostile_strategy:Ruining"]) == 2
    assert "strategy 'hostile'" in capsys.readouterr().err
