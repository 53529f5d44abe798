"""The commands that read from a cluster of three brokers, one of which is down."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors_confluent.connection import Connection
from kafka_assignors_confluent.topic_metadata import describe_topics
from tests.test_cli import without_progress

GROUPS = tuple(f"group-{number}" for number in range(12))
"""Enough groups that each broker coordinates some."""


@dataclass
class TwoOfThree:
    """A cluster whose broker 3 is down, and connections for which broker 3 is the controller."""

    cluster: KafkaCluster
    connections: list[Connection]

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap


def run(cluster: TwoOfThree, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_assignors_cli", *arguments, "--bootstrap-server"]
    return subprocess.run(
        [*command, cluster.bootstrap], capture_output=True, text=True, timeout=HANG_S, check=False
    )


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
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
            consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
            consumer.close()
        connections = connections_to_controller(cluster, 3)
        cluster.kill(3)
        yield TwoOfThree(cluster, connections)


def test_connections_find_another_controller(two_of_three: TwoOfThree) -> None:
    for connection in two_of_three.connections:
        assert set(describe_topics(connection, ["orders"]).found) == {"orders"}


def test_a_list_is_complete_or_says_that_it_is_not(two_of_three: TwoOfThree) -> None:
    deadline = time.monotonic() + HANG_S
    while True:
        done = run(two_of_three, "groups", "--json", "-")
        assert "Traceback" not in done.stderr
        listed = {json.loads(line)["group"] for line in done.stdout.splitlines()}
        if done.returncode == 0 and "not all groups are listed" not in done.stderr:
            assert listed == set(GROUPS)
            return
        # The other two brokers may not coordinate the groups of the third one yet.
        assert done.returncode in (0, 2)
        assert time.monotonic() < deadline, done.stderr


def test_a_group_is_described(two_of_three: TwoOfThree) -> None:
    done = run(two_of_three, "groups", "describe", *GROUPS)
    assert (done.returncode, without_progress(done.stderr)) == (0, "")
    assert done.stdout.count("classic, Empty") == len(GROUPS)


def test_a_group_without_members_is_not_judged(two_of_three: TwoOfThree) -> None:
    done = run(two_of_three, "lint", "--group", GROUPS[0])
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr
    assert "it has no members now" in done.stdout + done.stderr
