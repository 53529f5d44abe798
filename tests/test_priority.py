"""Balance by priority: each class is optimal, given the classes before it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.criteria import MOVES_THEN_RACKS, Scale
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies import CooperativeSticky
from kafka_assignors_strategies import Priority
from kafka_assignors_strategies.composed import Composed
from kafka_assignors_strategies.rules import FewestMoves, KeepTogether, LevelByPriority
from tests.exact_groups import random_group
from tests.exact_oracle import Oracle
from tests.exact_score import Partition, owners_of, plain, score

TOPICS = [Topic("alerts", 2), Topic("orders", 4)]
EVERYTHING = frozenset({"alerts", "orders"})


def owning(member_id: str, topics: frozenset[str] = EVERYTHING, **owned: list[int]) -> Member:
    return Member(member_id, topics, owned=owned, generation=3)


class TestClasses:
    SETTLED = (owning("a", alerts=[0, 1], orders=[0]), owning("b", orders=[1, 2, 3]))

    def test_priority_levels_alerts_where_cooperative_sticky_leaves_them_on_one_member(self) -> None:
        group = Group.of(TOPICS, self.SETTLED, 4)
        assert plain(CooperativeSticky().assign(group))["a"] == {"alerts": [0, 1], "orders": [0]}
        assert plain(Priority([["alerts"]]).assign(group)) == {
            "a": {"alerts": [0], "orders": [0, 3]},
            "b": {"alerts": [1], "orders": [1, 2]},
        }

    def test_without_classes_it_is_cooperative_sticky(self) -> None:
        for number in range(40):
            group = random_group(random.Random(f"without/{number}"))
            assert plain(Priority().assign(group)) == plain(CooperativeSticky().assign(group))


class TestFindings:
    @pytest.mark.parametrize(
        ("first", "finding"),
        [
            ([["alerts", ("orders", [0, 3])]], None),
            (
                [["alert"], ["orders"]],
                "topic 'alert' has a priority, and the group does not read it or it does not exist: mind the "
                "spelling",
            ),
            (
                [[("orders", [3, 4, 5])], [("none", range(1000))]],
                "partition 4 of topic 'orders' has a priority, and the group does not read it or it does not "
                "exist (3 such topics and partitions): mind the spelling",
            ),
        ],
    )
    def test_a_class_without_topics_in_the_group_is_a_finding(
        self, first: Iterable[Iterable[str]], finding: str | None
    ) -> None:
        found = Priority(first).findings(Group.of(TOPICS, [owning("a")], 4))
        assert list(found) == ([finding] if finding else [])


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("first", "message"),
        [
            ([["alerts"], ["alerts"]], "'alerts' has two priorities"),
            ([["alerts", "alerts"]], "'alerts' has two priorities"),
            ([[("orders", [1, 2])], [("orders", [2, 3])]], "'orders-2' has two priorities"),
            ([[]], "has nothing in it"),
        ],
    )
    def test_contradictions(self, first: Iterable[Iterable[str]], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            LevelByPriority(first)

    @pytest.mark.parametrize(
        "first",
        [
            "alerts",
            ["alerts"],
            3,
            [3],
            [[3]],
            [[("orders", [])]],
            [[("orders", [-1])]],
            [[("orders", [True])]],
            [[("orders", "12")]],
            [[["orders", [1], 2]]],
        ],
    )
    def test_classes_that_name_no_topics_are_refused(self, first: object) -> None:
        with pytest.raises(TypeError):
            LevelByPriority(first)  # type: ignore[arg-type]

    def test_the_same_classes_in_another_order_are_the_same_rules(self) -> None:
        one, other = Priority([["a", ("b", [2, 1])]]), Priority([[("b", (1, 2)), "a"]])
        assert one.digest() == other.digest()
        assert one.digest() != Priority([["a"], [("b", [1, 2])]]).digest()


@st.composite
def cases(draw: st.DrawFn) -> tuple[Group, Priority]:
    """Arbitrary groups, with some topics and partitions in up to three classes."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    group = random_group(rng)
    classes: list[list[str | tuple[str, list[int]]]] = [[] for _ in range(rng.randint(1, 3))]
    for name, topic in group.topics.items():
        if rng.random() < 0.5:
            rng.choice(classes).append(name)
        if rng.random() < 0.2 and topic.partitions:
            numbers = rng.sample(range(topic.partitions), rng.randint(1, topic.partitions))
            rng.choice(classes).append((name, numbers))
    return group, Priority([named for named in classes if named])


def class_of(strategy: Priority, partition: Partition) -> int:
    """The number of the partition's class, computed from the rule independently."""
    (rule,) = (rule for rule in strategy.rules if isinstance(rule, LevelByPriority))
    topic, number = partition
    for place, names in enumerate(rule.first):
        if any(not isinstance(one, str) and one[0] == topic and number in one[1] for one in names):
            return place
    return next((place for place, names in enumerate(rule.first) if topic in names), len(rule.first))


def only(group: Group, strategy: Priority, number: int) -> Group:
    """The group with the partitions of one class only, renumbered."""
    kept = {
        name: [p for p in range(topic.partitions) if class_of(strategy, (name, p)) == number]
        for name, topic in group.topics.items()
    }
    topics = {
        name: Topic(
            name,
            len(kept[name]),
            None if topic.replica_racks is None else tuple(topic.replica_racks[p] for p in kept[name]),
        )
        for name, topic in group.topics.items()
    }
    members = {
        id: replace(
            member,
            owned={
                name: [kept[name].index(p) for p in partitions if p in kept.get(name, ())]
                for name, partitions in member.owned.items()
            },
        )
        for id, member in group.members.items()
    }
    return Group(topics, members, group.generation)


class TestWhateverTheGroup:
    @given(cases())
    def test_each_class_is_the_best_there_is_given_those_before_it(
        self, case: tuple[Group, Priority]
    ) -> None:
        group, strategy = case
        owners = owners_of(group, strategy.assign(group))  # checks that it is valid
        already = dict.fromkeys(group.members, 0)
        (rule,) = (rule for rule in strategy.rules if isinstance(rule, LevelByPriority))
        for number in range(len(rule.first) + 1):
            part, scale = only(group, strategy, number), Scale(already=dict(already))
            numbers = dict.fromkeys(group.topics, 0)
            here: dict[Partition, str] = {}
            for (topic, partition), owner in sorted(owners.items()):
                if class_of(strategy, (topic, partition)) == number:
                    here[topic, numbers[topic]] = owner
                    numbers[topic] += 1
            oracle = Oracle(part, scale)
            ours = score(part, here, oracle.prior, scale)
            assert ours.by(MOVES_THEN_RACKS) == oracle.best(MOVES_THEN_RACKS).by(MOVES_THEN_RACKS)
            for owner in here.values():
                already[owner] += 1


def test_a_member_that_subscribes_to_what_a_rule_makes_gets_nothing_by_it() -> None:
    liar = owning("c", frozenset({"orders/priority 1", "orders/priority 2", "alerts/together"}))
    group = Group.of(TOPICS, [owning("a"), owning("b"), liar], 4)
    together = KeepTogether([["alerts", "orders"]])
    for rules in ((LevelByPriority([[("orders", [0, 1])]]),), (together, LevelByPriority([["alerts"]]))):
        assignment = Composed("mine", (*rules, FewestMoves())).assign(group)
        assert assignment.load("c") == 0
        owners_of(group, assignment)  # checks that it is valid
