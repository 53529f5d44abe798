"""The broker's assignors as strategies: their assignments, and who refuses to run them.

`compat_tests/java/test_server_assignors.py` shows that they equal those of Kafka's own classes.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pytest

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.lint.members import InvalidSettingError, strategy_use
from kafka_assignors.lint.rules import Client
from kafka_assignors.quality import measure
from kafka_assignors.strategies import Kip848Range, Kip848Uniform, RebalanceProtocol, load_strategy
from kafka_assignors.strategies.kip848 import collection_capacity, in_hash_order, uuid_hash
from kafka_assignors.strategies.range_roundrobin import Range
from kafka_assignors.strategies.sticky import Sticky
from kafka_assignors.strategy import Strategy, contract_problem
from kafka_assignors.wire.consumer_offsets import string_hash
from kafka_assignors_cli import main

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


def test_an_id_of_a_topic_decides_which_partitions_go_where_and_not_how_many() -> None:
    topics = [Topic(name, 5) for name in "wxyz"]
    members = [Member(f"m{number}", frozenset("wxyz")) for number in range(3)]
    seen = set()
    for number in range(8):
        rng = random.Random(number)
        known = [
            replace(topic, id=base64.urlsafe_b64encode(rng.randbytes(16)).decode()[:22]) for topic in topics
        ]
        target = Kip848Uniform().assign(Group.of(known, members))
        assert loads(target) == [6, 7, 7]
        seen.add(repr(target))
    assert len(seen) > 1
    # An invalid topic id has no effect.
    unknown = [replace(topic, id=f"id of {topic.name}") for topic in topics]
    assert Kip848Uniform().assign(Group.of(unknown, members)) == Kip848Uniform().assign(
        Group.of(topics, members)
    )


# ---- hash tables


def test_hash_codes_are_those_of_java() -> None:
    # The values are jshell's for "hello".hashCode(), "😀".hashCode() and new Uuid(1, 2).hashCode().
    assert string_hash("hello") == 99162322
    assert string_hash("😀") == 1772899
    assert uuid_hash((1).to_bytes(8, "big") + (2).to_bytes(8, "big")) == 3


def test_a_table_is_walked_through_bucket_by_bucket() -> None:
    entries = [(number, number) for number in (33, 17, 2, 16, 1)]
    assert in_hash_order(entries) == [16, 33, 17, 1, 2]
    assert in_hash_order(entries, 32) == [33, 1, 2, 16, 17]


def test_a_table_grows_when_it_is_full_or_one_bucket_is() -> None:
    assert in_hash_order([(number, number) for number in range(24, 11, -1)]) == list(range(12, 25))
    # Nine entries in one of 16 buckets: the table grows to 32.
    assert in_hash_order([(16 * n, n) for n in range(9)]) == [0, 2, 4, 6, 8, 1, 3, 5, 7]
    assert in_hash_order([(16 * n, n) for n in range(8)]) == list(range(8))


def test_a_set_made_from_twelve_is_larger_before_java_19() -> None:
    assert [collection_capacity(size, 17) for size in (1, 11, 12, 13, 24)] == [16, 16, 32, 32, 64]
    assert [collection_capacity(size, 21) for size in (1, 11, 12, 13, 24)] == [16, 16, 16, 32, 32]


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
        version: int = 0
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
