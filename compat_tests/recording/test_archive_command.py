"""The archiver as a process: its secrets, a second archiver on the same archive, and a full disk."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
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
from compat_tests.support.secured_cluster import PASSWORD, PLAIN_USER, STORE_PASSWORD, SecuredCluster
from compat_tests.support.token_endpoint import CLIENT_SECRET, OAUTHBEARER, TokenEndpoint
from kafka_assignors.wire import Subscription, encode_subscription
from spark_validation.recording.offsets_topic import read_group_records

_LARGEST_FILE = 64 * 1024
"""In bytes: more than the archiver's own files need, less than the file of one batch of `RECORDS`."""

RECORDS = 5000
GROUP = "billing"
ANOTHER = "another archiver writes to this archive: stop it first"
PROGRAM = (sys.executable, "-m", "kafka_assignors_cli")
PROCESSES = {"java", "pyspark.daemon", "archive", "replay", "groups"}
KEY_PASSWORD = "key-password"
SECRETS = (PASSWORD, STORE_PASSWORD, KEY_PASSWORD, CLIENT_SECRET)

pytestmark = pytest.mark.timeout(1500)


@dataclass
class Watch:
    """Looks for secrets where other users of the machine can see a command's processes and files."""

    seen: set[str] = field(default_factory=set)
    leaks: set[str] = field(default_factory=set)

    def look(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        """Check a command, its descendants, and all files in a folder."""
        for pid in family(process.pid):
            for kind in ("cmdline", "environ"):
                self._check(Path(f"/proc/{pid}/{kind}"), kind)
        for file in folder.rglob("*"):
            if file.is_file():
                self._check(file, str(file))

    def _check(self, file: Path, what: str) -> None:
        try:
            content = file.read_bytes()
        except OSError:  # The process or file is gone.
            return
        self.leaks |= {f"{secret} in {what}" for secret in SECRETS if secret.encode() in content}
        if what == "cmdline":
            self.seen |= {word for word in PROCESSES if word.encode() in content}


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredCluster]:
    with SecuredCluster(OAUTHBEARER) as secured:
        make_offsets_topic(secured.cluster)
        metadata = encode_subscription(Subscription(1, ("orders",)))
        with RawMember(secured.cluster.bootstrap, GROUP, metadata=metadata, client_id="a") as member:
            member.wait_until_assigned()
        # The traffic starts afterwards: a broker cannot load a partition with values that it cannot decode.
        with OffsetsTraffic(secured.cluster.bootstrap, 3, seed=1) as traffic:
            traffic.write(RECORDS)
        yield secured


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_no_secret_shows_while_commands_run(secured: SecuredCluster, tmp_path: Path, mechanism: str) -> None:
    """The file of properties also contains the passwords of the client's key."""
    # The temporary files of Java and Python are checked as well.
    config = tmp_path / "spark.properties"
    config.write_text(
        f"spark.local.dir {tmp_path}\nspark.driver.extraJavaOptions -Djava.io.tmpdir={tmp_path}\n"
    )
    spark = "--spark-config", str(config)
    watch = Watch()
    with TokenEndpoint(PLAIN_USER) as endpoint, Processes() as processes:
        tokens = endpoint.properties if mechanism == "OAUTHBEARER" else {}
        key = {"ssl__keystore__location": str(secured.keystore), "ssl__keystore__password": STORE_PASSWORD}
        who = secured.with_properties(
            secured.superuser("SCRAM-SHA-512"), **key, **tokens, ssl__key__password=KEY_PASSWORD
        )
        for name, command in {
            "groups": [*PROGRAM, "groups", *who.options],
            "archive": archive_command(secured.cluster, tmp_path / "archive", "--once", *who.options),
            "replay": [*PROGRAM, "replay", *who.options, "--strategy", "range", "--engine", "spark", *spark],
        }.items():
            log = tmp_path / f"{name}.log"
            process = processes.start(command, log)
            while process.poll() is None:
                watch.look(process, tmp_path)
                time.sleep(0.1)
            assert process.returncode == 0, log.read_text(errors="replace")
    assert watch.leaks == set()
    assert watch.seen == PROCESSES


def test_the_watch_finds_a_password_in_the_command_line_of_a_child(tmp_path: Path) -> None:
    child = f"[sys.executable, '-c', 'input()', '-'.join({PASSWORD.split('-')})]"
    parent = [sys.executable, "-c", f"import subprocess, sys; subprocess.run({child})"]
    watch, deadline = Watch(), time.monotonic() + HANG_S
    with Processes() as processes:
        process = processes.start(parent, tmp_path / "log", stdin=subprocess.PIPE)
        while not watch.leaks:
            assert time.monotonic() < deadline
            watch.look(process, tmp_path)
            time.sleep(0.02)
    assert watch.leaks == {f"{PASSWORD} in cmdline"}


def test_a_second_archiver_on_one_archive_is_refused_and_the_first_goes_on(
    secured: SecuredCluster, tmp_path: Path
) -> None:
    archive, log, second_log = tmp_path / "archive", tmp_path / "log", tmp_path / "second.log"
    command = archive_command(secured.cluster, archive, "--interval", "0")
    with Processes() as processes:
        archiver = processes.start(command, log)
        deadline = time.monotonic() + HANG_S
        while not list(archive.glob("raw/*/[0-9]*.parquet")):
            assert archiver.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        second = archive_command(secured.cluster, archive, "--once")
        assert processes.start(second, second_log).wait(HANG_S) == 2
        archiver.send_signal(signal.SIGTERM)
        assert archiver.wait(HANG_S) == 0, log.read_text()
    assert ANOTHER in second_log.read_text().strip().splitlines()[-1]
    assert_exact(secured, archive)


def test_an_archive_goes_on_after_a_full_disk(secured: SecuredCluster, tmp_path: Path) -> None:
    """Writes fail with EFBIG in the same way as with ENOSPC, but need no separate file system."""
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
