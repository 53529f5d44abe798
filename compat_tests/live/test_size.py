"""`kafka-assignors size --group` with a group that consumes, and a broker that goes down."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster

COMMAND = [sys.executable, "-m", "kafka_assignors_cli", "size"]
MEMBER = "compat_tests.support.librdkafka_member"


class SizeProcess:
    """The command as a process; its messages go to a file."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._said = folder / "said.txt"
        with self._said.open("w") as stderr, (folder / "out.txt").open("w") as stdout:
            self.process = subprocess.Popen([*COMMAND, *options], stdout=stdout, stderr=stderr)

    def said(self) -> str:
        return self._said.read_text(encoding="utf-8")

    def status(self) -> tuple[int, dict[str, Any]]:
        """The status and body of a request to /size; 0 before the port is open."""
        found = re.search(r"the recommendation is on (http://\S+/size)", self.said())
        if found is None:
            return 0, {}
        try:
            with urllib.request.urlopen(found[1], timeout=HANG_S) as answer:
                return int(answer.status), json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def wait_for(self, condition: Callable[[int, dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a status that meets the condition, and return it."""
        deadline = time.monotonic() + HANG_S
        while True:
            code, status = self.status()
            if condition(code, status):
                return status
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, (code, status, self.said())
            time.sleep(0.1)

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(HANG_S)


@pytest.fixture
def group(kafka: Kafka) -> Iterator[GroupOfMembers]:
    with GroupOfMembers(kafka, MEMBER, {"orders": 6}) as group:
        group.start("one", ["range"])
        group.wait_for_report("one", "assigned", "orders")
        yield group


def test_the_rates_of_a_running_group_are_measured(group: GroupOfMembers, tmp_path: Path) -> None:
    out = tmp_path / "size.json"
    options = ("--group", group.id, "--bootstrap-server", group.kafka.bootstrap, "--over", "3")
    process = subprocess.Popen([*COMMAND, *options, "--capacity", "1000000", "--json", str(out)])
    written, deadline = 0, time.monotonic() + HANG_S
    while process.poll() is None:  # Some of these records are written between the two measurements.
        group.produce(10)
        written += 60
        assert time.monotonic() < deadline
    assert process.returncode == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["members"], found["partitions"], found["unknown_costs"]) == (1, 6, 0)
    assert 0 < found["total"] <= written / 3
    assert found["now"]["members"] == 1


def test_a_recommendation_survives_a_broker_that_goes_away(tmp_path: Path) -> None:
    with KafkaCluster() as kafka, GroupOfMembers(kafka, MEMBER, {"orders": 6}) as group:
        group.start("one", ["range"])
        group.wait_for_report("one", "assigned", "orders")
        size = SizeProcess(
            tmp_path,
            *("--group", group.id, "--bootstrap-server", kafka.bootstrap, "--timeout", "2"),
            *("--capacity", "1000000", "--over", "0.5", "--every", "0.5"),
            *("--serve", "127.0.0.1:0", "--stale-after", "3600", "--min", "3"),
        )
        try:
            assert size.wait_for(lambda code, _: code == 200)["members"] == 3
            kafka.kill(1)
            status = size.wait_for(lambda _, status: status.get("failed_looks", 0) > 1)
            assert (status["members"], status["stale"]) == (3, False)
            assert "no answer from" in status["problem"]
            assert size.end() == 0
        finally:
            size.process.kill()
            size.process.wait(HANG_S)


def test_without_a_broker_nothing_is_recommended_and_it_keeps_trying(tmp_path: Path) -> None:
    size = SizeProcess(
        tmp_path,
        *("--group", "g", "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.5", "--capacity", "1"),
        *("--over", "0.1", "--every", "0.1", "--serve", "127.0.0.1:0"),
    )
    try:
        status = size.wait_for(lambda _, status: status.get("failed_looks", 0) > 1)
        assert (size.status()[0], status["members"], status["stale"]) == (503, None, False)
        assert size.end() == 0
    finally:
        size.process.kill()
        size.process.wait(HANG_S)


def test_a_group_that_does_not_exist_is_named_with_a_near_one(group: GroupOfMembers) -> None:
    done = subprocess.run(
        [*COMMAND, "--group", f"{group.id}x", "--bootstrap-server", group.kafka.bootstrap, "--capacity", "1"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 2
    assert f"did you mean {group.id!r}?" in done.stderr
