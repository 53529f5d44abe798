"""Three brokers behind a proxy for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.chaos.run import chaos_brokers
from compat_tests.support.kafka_cluster import KafkaCluster


@pytest.fixture(scope="session")
def brokers() -> Iterator[KafkaCluster]:
    with chaos_brokers() as cluster:
        yield cluster
