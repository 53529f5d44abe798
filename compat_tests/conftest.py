"""Real brokers for every test below. If no broker can start, a test that needs one fails and is not skipped.

In a tox environment, the run writes a result for `compat_tests.matrix`.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.matrix import Result
from compat_tests.support.jvm import kafka_version
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster

STARTED = pytest.StashKey[float]()


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


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = time.monotonic()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    folder, environment = os.environ.get("MATRIX_RESULTS"), os.environ.get("TOX_ENV_NAME")
    if not folder or not environment:
        return

    def reports(*kinds: str) -> list[Any]:
        return [report for kind in kinds for report in terminalreporter.stats.get(kind, ())]

    def count(*kinds: str) -> int:
        return len(reports(*kinds))

    Result(
        environment,
        platform.python_version(),
        client_of(environment),
        "a given cluster" if os.environ.get("KAFKA_BOOTSTRAP_SERVERS") else kafka_version(),
        count("passed"),
        count("failed", "error"),
        count("skipped", "xfailed", "xpassed"),
        count("deselected"),
        round(time.monotonic() - config.stash[STARTED], 1),
        int(exitstatus),
        may_fail=bool(os.environ.get("MATRIX_MAY_FAIL")),
        failures=tuple(f"{report.nodeid}: {reason_of(report)}" for report in reports("failed", "error")),
    ).write(Path(folder))


def reason_of(report: Any) -> str:
    """The first line of a failed test's message."""
    crash = getattr(report.longrepr, "reprcrash", None)
    said = report.longreprtext if crash is None else crash.message
    return next(iter(said.strip().splitlines()), "no reason given")[:200]


def client_of(environment: str) -> str:
    """Name and version of the client that the environment is named after; "" if there is none."""
    found = re.search(r"-(aiokafka|kafkapython)(\d|$)", environment)
    if found is None:
        return ""
    package = {"aiokafka": "aiokafka", "kafkapython": "kafka-python"}[found[1]]
    return f"{package} {importlib.metadata.version(package)}"
