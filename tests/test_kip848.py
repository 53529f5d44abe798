"""The broker's assignors as strategies: their assignments, and who refuses to run them.

`compat_tests/java/test_server_assignors.py` compares them with Kafka's own classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.quality import measure
from kafka_assignors.strategies import RebalanceProtocol, load_strategy
from kafka_assignors.strategies.range_roundrobin import Range
from kafka_assignors.strategies.sticky import Sticky
from kafka_assignors.strategy import Strategy, contract_problem
from kafka_assignors_cli import main
from kafka_assignors_ops.lint.members import InvalidSettingError, strategy_use
from kafka_assignors_ops.lint.rules import Client
from kafka_assignors_strategies import Kip848Range, Kip848Uniform

ORDERS = frozenset({"orders"})
NAMES = ["kip848-range", "kip848-uniform"]


def group_of(partitions: int, **owned: list[int] | None) -> Group:
    """Members that subscribe to orders, with the partitions that each owned; None for a new member."""
    members = [
        Member(id_, ORDERS, owned={"orders": had} if had else {}, generation=-1 if had is None else 3)
        for id_, had in owned.items()
    ]
    return Group.of([Topic("orders", partitions)], members)


def loads(assignment: Assignment) -> list[int]:
    return sorted(map(assignment.load, assignment.members))


@pytest.mark.parametrize("name", NAMES)
def test_the_target_is_the_assignment_and_nothing_waits(name: str) -> None:
    strategy = load_strategy(name)
    assert (strategy.name, strategy.protocols) == (name, (RebalanceProtocol.CONSUMER,))
    led = lead(strategy, group_of(4, a=[0, 1, 2, 3], b=None), RebalanceProtocol.CONSUMER)
    assert led.withheld == {}
    assert led.assignment == led.target
    assert loads(led.target) == [2, 2]


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_group_and_one_without_topics_get_nothing(name: str) -> None:
    strategy = load_strategy(name)
    assert strategy.assign(Group.of([Topic("orders", 3)], [])).members == {}
    idle = Group.of([], [Member("a", ORDERS), Member("b", frozenset())])
    assert strategy.assign(idle).members == {"a": {}, "b": {}}


def test_uniform_moves_no_more_than_it_has_to() -> None:
    group = group_of(10, a=[0, 2, 4, 6, 8], b=[1, 3, 5, 7, 9], c=None)
    target = Kip848Uniform().assign(group)
    assert loads(target) == [3, 3, 4]
    assert measure(group, target).moved == 3


@pytest.mark.parametrize("fullest", "abc")
def test_uniform_leaves_the_extra_partition_with_who_has_it(fullest: str) -> None:
    numbers = iter(range(4))
    group = group_of(4, **{id_: list(islice(numbers, 1 + (id_ == fullest))) for id_ in "abc"})
    assert measure(group, Kip848Uniform().assign(group)).moved == 0


def test_uniform_finds_no_chain_where_subscriptions_differ() -> None:
    """a, b and c end with 3, 2 and 1: each pair differs by one, and only a chain of two moves would help."""
    topics = [Topic("one", 4), Topic("two", 2)]
    members = [
        Member("a", frozenset({"one"}), owned={"one": [0, 1, 2]}, generation=1),
        Member("b", frozenset({"one", "two"}), owned={"one": [3], "two": [0, 1]}, generation=1),
        Member("c", frozenset({"two"}), generation=1),
    ]
    group = Group.of(topics, members)
    assert loads(Kip848Uniform().assign(group)) == [1, 2, 3]
    assert loads(Sticky().assign(group)) == [2, 2, 2]


def test_the_kip848_strategies_ignore_racks_and_range_without_racks_is_that_of_clients() -> None:
    racks = tuple(frozenset(rack) for rack in "abab")
    members = [Member("m1", ORDERS, rack="b"), Member("m2", ORDERS, rack="a")]
    racked = Group.of([Topic("orders", 4, racks)], members)
    bare = Group.of([Topic("orders", 4)], members)
    assert Kip848Range().assign(racked) == Kip848Range().assign(bare) == Range().assign(bare)
    assert Range().assign(racked) != Range().assign(bare)
    assert Kip848Uniform().assign(racked) == Kip848Uniform().assign(bare)


# ---- who refuses them


class PlainAssignor(Assignor):
    pass


@pytest.mark.parametrize("name", NAMES)
def test_no_client_runs_them(name: str) -> None:
    with pytest.raises(ValueError, match=rf"'{name}' stands for an assignor of the broker \(KIP-848\)"):
        PlainAssignor(load_strategy(name))


@pytest.mark.parametrize("name", NAMES)
def test_lint_refuses_them_in_a_list(name: str) -> None:
    with pytest.raises(InvalidSettingError, match="no client lists it"):
        strategy_use(Client.AIOKAFKA, None, name, load_strategy)


def test_a_strategy_of_both_sides_is_none() -> None:
    @dataclass(frozen=True)
    class Both(Strategy):
        name: str = "both"
        protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.CONSUMER, RebalanceProtocol.EAGER)

        def assign(self, group: Group) -> Assignment:
            return Kip848Range().assign(group)

    assert "of clients and of the broker" in (contract_problem(Both()) or "")


def test_assign_takes_their_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "group.json"
    file.write_text(
        '{"topics": {"orders": {"partitions": 2, "id": "R2u4n-z9TCu5VQ9YBJzYxg"}},'
        ' "members": [{"id": "a", "topics": ["orders"]}]}'
    )
    assert main(["assign", str(file), "--strategy", "kip848-uniform"]) == 0
    out = capsys.readouterr().out
    assert '"assignment": {"a": {"orders": [0, 1]}}' in out
    assert "withheld" not in out
    assert main(["assign", str(file), "--strategy", "kip848-uniform", "--protocol", "eager"]) == 2
    assert "does not run under eager, only under consumer" in capsys.readouterr().err
