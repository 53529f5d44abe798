"""The commands that look at a cluster of three brokers, one of which is down."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import KafkaCluster

GROUPS = tuple(f"group-{number}" for number in range(12))
"""Enough that each broker coordinates some."""


def run(cluster: KafkaCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_assignors_cli", *arguments, "--bootstrap-server"]
    return subprocess.run(
        [*command, cluster.bootstrap], capture_output=True, text=True, timeout=HANG_S, check=False
    )


@pytest.fixture(scope="module")
def two_of_three() -> Iterator[KafkaCluster]:
    """Groups with commits in a topic with three replicas, and broker 3 killed a moment ago."""
    with KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("orders", 3, replication_factor=3)
        for group in GROUPS:
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
            consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
            consumer.close()
        cluster.kill(3)
        yield cluster


def test_a_list_is_complete_or_says_that_it_is_not(two_of_three: KafkaCluster) -> None:
    deadline = time.monotonic() + HANG_S
    while True:
        done = run(two_of_three, "groups", "--json")
        assert "Traceback" not in done.stderr
        listed = {json.loads(line)["group"] for line in done.stdout.splitlines()}
        if done.returncode == 0 and "not all groups are listed" not in done.stderr:
            assert listed == set(GROUPS)
            return
        # Until the other two brokers coordinate the groups of the third.
        assert done.returncode in (0, 2)
        assert time.monotonic() < deadline, done.stderr


def test_a_group_is_described_with_its_lag(two_of_three: KafkaCluster) -> None:
    done = run(two_of_three, "groups", "describe", *GROUPS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("lag 0") == len(GROUPS)


def test_a_group_without_members_is_not_judged(two_of_three: KafkaCluster) -> None:
    done = run(two_of_three, "lint", "--group", GROUPS[0])
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr
    assert "it has no members now" in done.stdout + done.stderr
