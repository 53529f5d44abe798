"""The brokers of the tests and the recorder start, fail loudly, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.support.hang_limit import wait_for
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.processes import state_of

ROOT = Path(__file__).resolve().parents[2]

ENDED = ("", "Z")

OWNER = """
import sys, time
from compat_tests.support.kafka_cluster import KafkaCluster

with KafkaCluster() as cluster:
    print(*cluster.pids.values(), *cluster.folders, flush=True)
    time.sleep(600)
"""


def test_the_shared_cluster_serves(kafka: Kafka) -> None:
    topic = f"shared-{os.getpid()}"
    kafka.create_topic(topic, 4)
    assert kafka.describe_topics([topic])[0].partitions == 4
    kafka.delete_topic(topic)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_brokers_end_with_a_killed_owner(number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    with owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert state_of(int(pid)) not in ENDED
        owner.send_signal(number)
    wait_for("the end of the broker", lambda: state_of(int(pid)) in ENDED)
    wait_for("the end of its folder", lambda: not Path(folder.decode()).exists())


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot describe the cluster at 127.0.0.1:1"),
        ({"KAFKA_BOOTSTRAP_SERVERS": "", "JAVA_HOME": "/nowhere"}, "no java in JAVA_HOME (/nowhere)"),
    ],
)
def test_a_test_without_a_broker_fails_and_is_not_skipped(environment: dict[str, str], reason: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", __file__, "-k", "test_the_shared_cluster_serves"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "1 error" in done.stdout
    assert reason in done.stdout
