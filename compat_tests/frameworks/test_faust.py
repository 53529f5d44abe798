"""Faust's assignor and ours: the placement alone, and groups of Faust workers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import faust
import pytest
from faust.assignor.client_assignment import CopartitionedAssignment
from faust.assignor.copartitioned_assignor import CopartitionedAssignor
from faust.assignor.partition_assignor import PartitionAssignor

from compat_tests.frameworks.faust_steps import Members, cost
from compat_tests.frameworks.framework_scenarios import FrameworkScenarios
from kafka_assignors_aiokafka.faust import LeastMovesAssignor, LeastMovesPlacement


class Metadata:
    """The part of the client's metadata that the assignor uses."""

    def __init__(self, partitions: dict[str, int]) -> None:
        self._partitions = partitions

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(self._partitions.get(topic, 0)))


def test_loads_are_even_and_less_moves_than_with_the_assignor_of_faust() -> None:
    stock, ours = cost(CopartitionedAssignor, 200), cost(LeastMovesPlacement, 200)
    assert ours["uneven"] == 0 < stock["uneven"]
    assert ours["moved"] < stock["moved"]
    assert ours["restored"] < stock["restored"]


def test_a_member_that_is_lost_is_replaced_by_its_standby() -> None:
    members: Members = {
        "a": CopartitionedAssignment({0, 1}, {2, 3}, {"orders"}),
        "b": CopartitionedAssignment({2, 3}, {4, 5}, {"orders"}),
        "c": CopartitionedAssignment({4, 5}, {0, 1}, {"orders"}),
    }
    del members["b"]
    after = LeastMovesPlacement(["orders"], members, 6, 1).get_assignment()
    assert {id: sorted(one.actives) for id, one in after.items()} in (
        {"a": [0, 1, 2], "c": [3, 4, 5]},
        {"a": [0, 1, 3], "c": [2, 4, 5]},
    )


class Worker:
    """An app with a table and a global table, and its assignor."""

    def __init__(self, assignor: type[PartitionAssignor], url: str) -> None:
        self.app = faust.App(
            "orders-app",
            broker="kafka://127.0.0.1:1",
            PartitionAssignor=assignor,
            web_port=6066,
            store="memory://",
        )
        self.app.conf.canonical_url = url
        self.app.Table("totals", partitions=4)
        self.app.GlobalTable("prices", partitions=2)
        self.assignor: Any = self.app.assignor
        self.assignor.replicas = 1
        self.topics = {"orders", *self.app.tables.changelog_topics}


@pytest.mark.parametrize("leader", [PartitionAssignor, LeastMovesAssignor])
def test_members_with_either_assignor_understand_the_assignment_of_the_other(
    leader: type[PartitionAssignor],
) -> None:
    workers = {
        "a": Worker(PartitionAssignor, "http://a:6066"),
        "b": Worker(LeastMovesAssignor, "http://b:6066"),
        "c": Worker(PartitionAssignor, "http://c:6066"),
    }
    partitions = {name: 2 if "prices" in name else 4 for name in workers["a"].topics}
    leading = Worker(leader, "http://a:6066").assignor
    for _ in range(3):
        metadata = {id: worker.assignor.metadata(worker.topics) for id, worker in workers.items()}
        answer = leading.assign(Metadata(partitions), metadata)
        for id, worker in workers.items():
            worker.assignor.on_assignment(answer[id])
        actives = Counter(
            tp
            for worker in workers.values()
            for tp in worker.assignor.assigned_actives()
            if "prices" not in tp.topic
        )
        assert set(actives.values()) == {1}
        assert len(actives) == sum(n for name, n in partitions.items() if "prices" not in name)
        (changelog,) = (name for name in partitions if "totals" in name)
        standbys = Counter(
            tp.partition
            for worker in workers.values()
            for tp in worker.assignor.assigned_standbys()
            if tp.topic == changelog
        )
        assert standbys == Counter(range(4))
        for worker in workers.values():
            # A member gets the same partitions of co-partitioned topics, and all of a global table.
            mine = worker.assignor.assigned_actives()
            assert {tp.partition for tp in mine if tp.topic == "orders"} == {
                tp.partition for tp in mine if tp.topic == changelog
            }
            assert {tp.partition for tp in mine if "prices" in tp.topic} == {0, 1}


class TestWorkers(FrameworkScenarios):
    program = "compat_tests.frameworks.faust_member"
    strategies = ("least-moves",)
    delivers_once = False
    """Faust commits at an interval, and delivers again what a member has not committed when it stops."""
