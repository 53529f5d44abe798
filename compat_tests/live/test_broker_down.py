"""The commands that read from a cluster of three brokers, one of which is down."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from compat_tests.support.commands import run_command
from compat_tests.support.hang_limit import HANG_S, wait_for
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors_confluent.connection import Connection
from kafka_assignors_confluent.topic_metadata import LiveTopic, describe_topics, live_topics
from tests.test_cli import without_progress

GROUPS = tuple(f"group-{number}" for number in range(12))
"""Enough groups that each broker coordinates some."""


@dataclass
class TwoOfThree:
    """A cluster whose broker 3 is down, and what connections were told of topics while it was killed."""

    cluster: KafkaCluster
    answers: list[set[str]]


def run(brokers: TwoOfThree, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, "--bootstrap-server", brokers.cluster.bootstrap)


def connections_to_controller(cluster: KafkaCluster, broker: int) -> list[Connection]:
    """Connections whose metadata name this broker as the controller: brokers name any live broker.

    Some connections find another controller when the broker closes the socket, and some do not. Therefore
    there are several.
    """
    connections: list[Connection] = []
    for _ in range(200):
        connection = Connection(cluster.bootstrap, {}, HANG_S)
        if connection.admin.list_topics(timeout=HANG_S).controller_id == broker:
            connections.append(connection)
        if len(connections) == 6:
            return connections
    raise AssertionError(f"no metadata names broker {broker} as the controller")


@pytest.fixture(scope="module")
def two_of_three() -> Iterator[TwoOfThree]:
    """A topic with three replicas, groups with commits in it, and broker 3 just killed."""
    with KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("orders", 3, replication_factor=3)
        for group in GROUPS:
            cluster.commit(group, {("orders", 0): 0})
        connections, killed = connections_to_controller(cluster, 3), threading.Event()
        with ThreadPoolExecutor(len(connections)) as pool:
            asked = [pool.submit(ask_until, connection, killed) for connection in connections]
            cluster.kill(3)
            killed.set()
        yield TwoOfThree(cluster, [answer for each in asked for answer in each.result()])


def ask_until(connection: Connection, killed: threading.Event) -> list[set[str]]:
    """What the connection is told of topics before, while and after the controller is killed."""
    during = [set(describe_topics(connection, ["orders"]).found) for _ in iter(killed.is_set, True)]
    return [*during, set(describe_topics(connection, ["orders"]).found)]


def test_connections_find_another_controller(two_of_three: TwoOfThree) -> None:
    assert two_of_three.answers == [{"orders"}] * len(two_of_three.answers)


def test_a_list_is_complete_when_the_groups_have_other_coordinators(two_of_three: TwoOfThree) -> None:
    def listed() -> subprocess.CompletedProcess[str] | None:
        done = run(two_of_three, "groups", "--json", "-")
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 2)
        is_complete = {json.loads(line)["group"] for line in done.stdout.splitlines()} == set(GROUPS)
        return done if is_complete else None

    assert wait_for("a complete list", listed).returncode == 0


def test_a_group_is_described(two_of_three: TwoOfThree) -> None:
    done = run(two_of_three, "groups", "describe", *GROUPS)
    assert (done.returncode, without_progress(done.stderr)) == (0, "")
    assert done.stdout.count("classic, Empty") == len(GROUPS)


def test_the_racks_of_a_topic_are_not_complete(two_of_three: TwoOfThree) -> None:
    def orders() -> LiveTopic | None:
        connection = Connection(two_of_three.cluster.bootstrap, {}, HANG_S)
        (found,) = (each for each in live_topics(connection) if each.topic.name == "orders")
        return None if found.complete else found

    assert wait_for("metadata without broker 3", orders).topic.replica_racks == (frozenset("ab"),) * 3
