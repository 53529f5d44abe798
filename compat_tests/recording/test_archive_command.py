"""The secrets of commands that run: no other user of the machine can see them."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.hostile.raw_member import RawMember
from compat_tests.support.processes import Processes
from compat_tests.support.secured_cluster import PASSWORD, PLAIN_USER, STORE_PASSWORD, SecuredCluster
from compat_tests.support.token_endpoint import CLIENT_SECRET, OAUTHBEARER, TokenEndpoint
from kafka_assignors.wire import Subscription, encode_subscription

PROGRAM = (sys.executable, "-m", "kafka_assignors_cli")
PROCESSES = {"java", "pyspark.daemon", "archive", "replay", "groups"}
KEY_PASSWORD = "key-password"
SECRETS = (PASSWORD, STORE_PASSWORD, KEY_PASSWORD, CLIENT_SECRET)


@dataclass
class Watch:
    """Looks for secrets where other users of the machine can see a command's processes and files."""

    seen: set[str] = field(default_factory=set)
    leaks: set[str] = field(default_factory=set)

    def look(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        """Check a command, its descendants, and all files in a folder."""
        pids = [process.pid]
        for pid in pids:
            pids += _children(pid)
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


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, file.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_no_secret_shows_while_commands_run(tmp_path: Path) -> None:
    """The file of properties has the passwords of the user, of the client's key, and those of its tokens."""
    # The temporary files of Java and Python are checked as well.
    config = tmp_path / "spark.properties"
    config.write_text(
        f"spark.local.dir {tmp_path}\nspark.driver.extraJavaOptions -Djava.io.tmpdir={tmp_path}\n"
    )
    spark = "--engine", "spark", "--spark-config", str(config)
    watch = Watch()
    with (
        SecuredCluster(OAUTHBEARER) as secured,
        TokenEndpoint(PLAIN_USER) as endpoint,
        Processes() as processes,
    ):
        metadata = encode_subscription(Subscription(1, ("orders",)))
        with RawMember(secured.cluster.bootstrap, "billing", metadata=metadata, client_id="a") as member:
            member.wait_until_assigned()
        key = {"ssl__keystore__location": str(secured.keystore), "ssl__keystore__password": STORE_PASSWORD}
        who = secured.with_properties(
            secured.superuser("SCRAM-SHA-512"), **key, **endpoint.properties, ssl__key__password=KEY_PASSWORD
        )
        for name, arguments in {
            "groups": (),
            "archive": ("--to", str(tmp_path / "archive"), "--once"),
            "replay": ("--strategy", "range", *spark),
        }.items():
            log = tmp_path / f"{name}.log"
            process = processes.start([*PROGRAM, name, *who.options, "--timeout", "60", *arguments], log)
            while process.poll() is None:
                watch.look(process, tmp_path)
                time.sleep(0.1)
            assert process.returncode == 0, log.read_text(errors="replace")
    assert watch.leaks == set()
    assert watch.seen == PROCESSES
