"""`make see` for a few seconds instead of a minute, and `make broker`."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from pathlib import Path

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka, free_ports

ROOT = Path(__file__).resolve().parent.parent.parent


def start(module: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)


def see(kafka: Kafka, *arguments: str) -> subprocess.Popen[str]:
    return start("benchmarks.see", "--bootstrap-server", kafka.bootstrap, *arguments)


def test_make_see_shows_both_groups_and_the_cooperative_one_revokes_less(kafka: Kafka) -> None:
    running = see(kafka, "--seconds", "7", "--every", "2")
    output, _ = running.communicate(timeout=HANG_S)
    assert running.returncode == 0, output
    assert re.search(r"d1 joins both groups", output), output
    assert re.search(r"d1 leaves both groups", output), output
    found = re.search(r"partitions revoked\W+(\d+)\W+(\d+)", output)
    assert found is not None, output
    eager, ours = map(int, found.groups())
    assert eager >= 12 > ours, output
    records = re.search(r"records delivered\W+(\d+)\W+(\d+)", output)
    assert records is not None, output
    assert all(int(count) > 0 for count in records.groups())


def test_an_interrupt_ends_all_processes(kafka: Kafka) -> None:
    running = see(kafka, "--seconds", "60")
    assert running.stdout is not None
    said = ""
    for line in running.stdout:
        said += line
        if "three members in each group" in line:
            break
    assert members(kafka), said
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=HANG_S)
    assert running.returncode == 130, said + output
    assert "stopped" in output
    assert "Traceback" not in output
    assert not members(kafka)


def test_unreachable_broker_gives_an_error_without_a_traceback() -> None:
    unused = f"127.0.0.1:{free_ports(1)[0]}"
    running = see(Kafka(unused))
    output, _ = running.communicate(timeout=HANG_S)
    assert running.returncode == 1, output
    assert unused in output
    assert "Traceback" not in output


def members(kafka: Kafka) -> list[str]:
    """The command lines of the member processes that consume from this broker."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_text()
            if "benchmarks.pause.members" in command and kafka.bootstrap in command:
                found.append(command)
    return found


def test_make_broker_serves_a_topic_until_it_is_ended() -> None:
    [port] = free_ports(1)
    running = start("tools.broker", "--port", str(port), "--partitions", "3")
    assert running.stdout is not None
    said = [running.stdout.readline() for _ in range(2)]
    assert said[1].startswith(f"broker 127.0.0.1:{port} in rack a, topic orders with 3 partitions"), said
    assert Kafka(f"127.0.0.1:{port}").leaders("orders") == [1, 1, 1]
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=HANG_S)
    assert (running.returncode, output) == (0, "stopped\n")
