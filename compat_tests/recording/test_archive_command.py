"""The archiver as a process of its own: its secrets, a second one beside it, and a disk that is full."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compat_tests.hostile.raw_member import RawMember
from compat_tests.recording.archive_kills import (
    OffsetsTraffic,
    archive_command,
    differences,
    family,
    make_offsets_topic,
    read_archive,
)
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.processes import Processes
from compat_tests.support.secured_cluster import PASSWORD, SecuredCluster
from kafka_assignors.wire import Subscription, encode_subscription
from spark_validation.recording.offsets_topic import read_group_records

_LARGEST_FILE = 64 * 1024
"""Bytes: more than the archiver needs beside its records, less than the file of one batch of `RECORDS`."""

RECORDS = 5000
GROUP = "billing"
PROCESSES = {"java", "pyspark.daemon", "archive", "replay"}
ANOTHER = "another archiver writes to this archive: stop it first"

pytestmark = pytest.mark.timeout(1500)


@dataclass
class Watch:
    """What of the processes and files of a command can be seen by others on its machine."""

    samples: int = 0
    seen: set[str] = field(default_factory=set)
    leaks: set[str] = field(default_factory=set)

    def look(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.samples += 1
        for pid in family(process.pid):
            for kind in ("cmdline", "environ"):
                self._check(Path(f"/proc/{pid}/{kind}"), kind)
        for file in folder.rglob("*"):
            if file.is_file():
                self._check(file, str(file))

    def _check(self, file: Path, what: str) -> None:
        try:
            content = file.read_bytes()
        except OSError:  # it is gone by now
            return
        if PASSWORD.encode() in content:
            self.leaks.add(what)
        if what == "cmdline":
            self.seen |= {word for word in PROCESSES if word.encode() in content}


@dataclass
class Run:
    """A guarded archiver, another that was started beside it, and a replay."""

    archive: Path
    watch: Watch = field(default_factory=Watch)
    codes: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredCluster]:
    with SecuredCluster() as secured:
        make_offsets_topic(secured.cluster)
        metadata = encode_subscription(Subscription(1, ("orders",)))
        with RawMember(secured.cluster.bootstrap, GROUP, metadata=metadata, client_id="a") as member:
            member.wait_until_assigned(HANG_S)
        # Only then: a broker does not load a partition with values that it cannot decode.
        with OffsetsTraffic(secured.cluster.bootstrap, 3, seed=1) as traffic:
            traffic.write(RECORDS)
        yield secured


@pytest.fixture(scope="module")
def guarded(secured: SecuredCluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Everything with a password, and watched from the start of each process to its end."""
    folder = tmp_path_factory.mktemp("guarded")
    run = Run(folder / "archive")
    options = secured.superuser("SCRAM-SHA-512").options
    program = [sys.executable, "-m", "kafka_assignors_cli"]
    first = archive_command(secured.cluster, run.archive, "--interval", "0", *options)
    replay = [*program, "replay", *options, "--strategy", "range", "--json", str(folder / "report.json")]
    # Java's and Python's temporary files are watched, too.
    config = folder / "spark.properties"
    config.write_text(f"spark.local.dir {folder}\nspark.driver.extraJavaOptions -Djava.io.tmpdir={folder}\n")
    with Processes() as processes:

        def start(name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
            return processes.start([*command, "--spark-config", str(config)], folder / f"{name}.log")

        def watch_to_the_end(name: str, process: subprocess.Popen[bytes]) -> None:
            while process.poll() is None:
                run.watch.look(process, folder)
                time.sleep(0.02)
            run.codes[name] = process.returncode
            run.said[name] = (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

        archiver = start("archive", first)
        while not list(run.archive.glob("_archive/ledger/0*1.json")):
            assert archiver.poll() is None, (folder / "archive.log").read_text()
            run.watch.look(archiver, folder)
            time.sleep(0.02)
        watch_to_the_end("second", start("second", [*first, "--once"]))
        archiver.send_signal(signal.SIGTERM)
        watch_to_the_end("archive", archiver)
        watch_to_the_end("replay", start("replay", replay))
    return run


def test_no_password_shows_while_an_archive_and_a_replay_run(guarded: Run) -> None:
    assert guarded.codes["archive"] == 0, guarded.said["archive"]
    assert guarded.codes["replay"] == 0, guarded.said["replay"]
    assert guarded.watch.seen == PROCESSES
    assert guarded.watch.samples > 100
    assert guarded.watch.leaks == set()


def test_a_second_archiver_on_one_archive_is_refused_and_the_first_goes_on(
    secured: SecuredCluster, guarded: Run
) -> None:
    assert guarded.codes["second"] == 2
    assert ANOTHER in guarded.said["second"].strip().splitlines()[-1]
    assert guarded.codes["archive"] == 0
    assert_exact(secured, guarded.archive)


def test_an_archive_goes_on_after_a_full_disk(secured: SecuredCluster, tmp_path: Path) -> None:
    """Writes fail with EFBIG, as they fail with ENOSPC; that needs no file system of its own."""
    archive, log = tmp_path / "archive", tmp_path / "log"
    command = archive_command(secured.cluster, archive, "--once")
    limited = ["sh", "-c", f'ulimit -S -f {_LARGEST_FILE // 512} && exec "$@"', "sh", *command]
    with Processes() as processes:
        assert processes.start(limited, log).wait(HANG_S) == 2
        last = log.read_text().strip().splitlines()[-1]
        assert last.startswith("kafka-assignors: error: ")
        assert "File too large" in last
        assert str(archive) in last
        assert not list(archive.glob("raw/*/*.parquet"))
        assert processes.start(command, log).wait(HANG_S) == 0
    assert_exact(secured, archive)


def assert_exact(secured: SecuredCluster, archive: Path) -> None:
    expected = Counter(read_group_records(secured.cluster.bootstrap).rows)
    assert expected
    assert differences(expected, Counter(read_archive(archive))) == (0, 0, 0)
