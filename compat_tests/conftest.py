"""Real brokers for every test below. A test that needs one fails, and does not skip, when none can start."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from compat_tests.kafka_cluster import Kafka, KafkaCluster


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """One broker of our own, or the cluster that KAFKA_BOOTSTRAP_SERVERS names."""
    existing = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if existing:
        cluster = Kafka(existing)
        cluster.check()
        yield cluster
    else:
        with KafkaCluster() as own:
            yield own


@pytest.fixture(scope="module")
def kafka3() -> Iterator[KafkaCluster]:
    """Three brokers of our own in racks a, b, c; a test that stops one starts it again."""
    with KafkaCluster(brokers=3) as cluster:
        yield cluster
