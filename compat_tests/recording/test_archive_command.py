"""The secrets of commands that run: no other user of the machine can see them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from compat_tests.hostile.raw_member import RawMember
from compat_tests.support.processes import Processes
from compat_tests.support.secured_cluster import PASSWORD, PLAIN_USER, STORE_PASSWORD, SecuredCluster
from kafka_assignors.wire import Subscription, encode_subscription

PROGRAM = (sys.executable, "-m", "kafka_assignors_cli")
PROCESSES = {"java", "pyspark.daemon", "archive", "replay", "groups"}
KEY_PASSWORD = "key-password"
CLIENT_SECRET = "client-secret-of-oauth"

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTHBEARER: Mapping[str, object] = {
    "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.secured.oauthbearer.sasl.jaas.config": (
        f'{LOGIN} required unsecuredLoginStringClaim_sub="broker";'
    ),
}
"""Broker settings for a `SecuredCluster`."""

LIFETIME_S = 3600
SECRETS = (PASSWORD, STORE_PASSWORD, KEY_PASSWORD, CLIENT_SECRET)


@dataclass
class Watch:
    """Looks for secrets where other users of the machine can see a command's processes and files."""

    seen: set[str] = field(default_factory=set)
    leaks: set[str] = field(default_factory=set)

    def look(self, processes: Iterable[subprocess.Popen[bytes]], folder: Path) -> None:
        """Check commands, their descendants, and all files in a folder."""
        pids = [process.pid for process in processes]
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


@contextmanager
def token_endpoint(user: str) -> Iterator[Mapping[str, str]]:
    """Issue tokens for `user`, who has these properties; a request with another secret gets status 401.

    The tokens are not signed (RFC 7519, section 6); Kafka's brokers accept such tokens for tests.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            basic = self.headers.get("Authorization", "").removeprefix("Basic ")
            known = base64.b64decode(basic).decode() == f"{user}:{CLIENT_SECRET}"
            body = json.dumps({"access_token": token(user), "expires_in": LIFETIME_S}).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body) if known else 0))
            self.end_headers()
            self.wfile.write(body if known else b"")

        def log_message(self, format: str, *args: object) -> None:
            """A test needs no log line for each request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="tokens", daemon=True)
        thread.start()
        try:
            yield {
                "sasl__mechanism": "OAUTHBEARER",
                "sasl__oauthbearer__method": "oidc",
                "sasl__oauthbearer__client__id": user,
                "sasl__oauthbearer__client__secret": CLIENT_SECRET,
                "sasl__oauthbearer__token__endpoint__url": f"http://127.0.0.1:{server.server_port}/token",
            }
        finally:
            server.shutdown()
            thread.join()


def token(user: str) -> str:
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": user, "iat": now, "exp": now + LIFETIME_S}
    header, payload = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return f"{header.decode()}.{payload.decode()}."


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
        token_endpoint(PLAIN_USER) as of_tokens,
        Processes() as processes,
    ):
        metadata = encode_subscription(Subscription(1, ("orders",)))
        with RawMember(secured.cluster.bootstrap, "billing", metadata=metadata, client_id="a") as member:
            member.wait_until_assigned()
        key = {"ssl__keystore__location": str(secured.keystore), "ssl__keystore__password": STORE_PASSWORD}
        who = secured.with_properties(
            secured.superuser("SCRAM-SHA-512"), **key, **of_tokens, ssl__key__password=KEY_PASSWORD
        )
        running = {
            tmp_path / f"{name}.log": processes.start(
                [*PROGRAM, name, *who.options, "--timeout", "60", *arguments], tmp_path / f"{name}.log"
            )
            for name, arguments in {
                "groups": (),
                "archive": ("--to", str(tmp_path / "archive"), "--once"),
                "replay": ("--strategy", "range", *spark),
            }.items()
        }
        while any(process.poll() is None for process in running.values()):
            watch.look(running.values(), tmp_path)
            time.sleep(0.1)
        for log, process in running.items():
            assert process.returncode == 0, log.read_text(errors="replace")
    assert watch.leaks == set()
    assert watch.seen == PROCESSES
