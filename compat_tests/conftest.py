"""Real brokers for every test below. Without one, a test that needs a broker fails and is not skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from compat_tests.support.kafka_cluster import Kafka, KafkaCluster


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """One broker of our own, or the cluster in KAFKA_BOOTSTRAP_SERVERS."""
    existing = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if existing:
        cluster = Kafka(existing)
        cluster.check()
        yield cluster
    else:
        with KafkaCluster() as own:
            yield own


@pytest.fixture(scope="session")
def kafka3() -> Iterator[KafkaCluster]:
    """Three brokers of our own in racks a, b, c; a test that stops a broker starts it again."""
    with KafkaCluster(brokers=3) as cluster:
        yield cluster
