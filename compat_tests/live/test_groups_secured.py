"""`kafka-assignors groups` where a broker wants a password or TLS, allows little, or is away for a while."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.hang_limit import HANG_S
from compat_tests.kafka_cluster import KafkaCluster, free_ports

COMMAND = [sys.executable, "-m", "kafka_assignors.cli", "groups"]
STORE_PASSWORD = "store-password"
PASSWORD = "right-password"


@dataclass(frozen=True, slots=True)
class Secured:
    """One broker with three doors: the plain one, one for passwords, one for TLS."""

    cluster: KafkaCluster
    password_port: int
    tls_port: int
    certificate: Path
    folder: Path

    def run(self, port: int, *arguments: str, **properties: str) -> subprocess.CompletedProcess[str]:
        """Run a command with these properties, `__` standing for a dot."""
        file = self.folder / "client.properties"
        file.write_text("".join(f"{name.replace('__', '.')}={value}\n" for name, value in properties.items()))
        return subprocess.run(
            [*COMMAND, *arguments, "--bootstrap-server", f"localhost:{port}", "--command-config", str(file)],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    def with_password(self, user: str, password: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(
            self.password_port,
            *arguments,
            security__protocol="SASL_PLAINTEXT",
            sasl__mechanism="PLAIN",
            sasl__username=user,
            sasl__password=password,
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    store, certificate = folder / "broker.p12", folder / "broker.pem"
    _make_certificate(store, certificate)
    plain, controller, password, tls = free_ports(4)
    doors = f"PLAINTEXT://127.0.0.1:{plain},PASSWORD://localhost:{password},TLS://localhost:{tls}"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": f"{doors},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": doors,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PASSWORD:SASL_PLAINTEXT,TLS:SSL"
        ),
        "listener.name.password.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.password.plain.sasl.jaas.config": (
            f'{login} user_reader="{PASSWORD}" user_stranger="{PASSWORD}";'
        ),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": store,
        "ssl.keystore.password": STORE_PASSWORD,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:reader",
    }
    with KafkaCluster(settings=settings, ports=lambda _: [plain, controller]) as cluster:
        cluster.create_topic("orders")
        _commit(cluster.bootstrap, "orders")
        yield Secured(cluster, password, tls, certificate, folder)


def _make_certificate(store: Path, certificate: Path) -> None:
    keytool = shutil.which("keytool")
    assert keytool, "keytool, which comes with Java, is needed on PATH"
    access = [
        "-keystore",
        str(store),
        "-storetype",
        "PKCS12",
        "-storepass",
        STORE_PASSWORD,
        "-alias",
        "broker",
    ]
    names = ["-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1"]
    algorithm = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2"]
    subprocess.run([keytool, "-genkeypair", *access, *names, *algorithm], check=True, capture_output=True)
    exported = [keytool, "-exportcert", "-rfc", *access, "-file", str(certificate)]
    subprocess.run(exported, check=True, capture_output=True)


def _commit(bootstrap: str, group: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(group, 0, 0)], asynchronous=False)
    consumer.close()


def assert_refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    error = done.stderr.splitlines()[-1]  # What comes before it is how far it had come.
    assert error.startswith("kafka-assignors: error: ")
    for part in parts:
        assert part in error


def test_the_right_password_opens(secured: Secured) -> None:
    done = secured.with_password("reader", PASSWORD)
    assert (done.returncode, done.stderr) == (0, "")
    assert "orders" in done.stdout


def test_a_wrong_password_is_one_line_that_does_not_repeat_it(secured: Secured) -> None:
    done = secured.with_password("reader", "wrong-password")
    assert_refused(done, "Authentication failed", "look at the user and the password")
    assert "wrong-password" not in done.stderr


def test_the_broker_s_certificate_opens(secured: Secured) -> None:
    done = secured.run(secured.tls_port, security__protocol="SSL", ssl__ca__location=str(secured.certificate))
    assert (done.returncode, done.stderr) == (0, "")
    assert "orders" in done.stdout


def test_a_certificate_that_nobody_vouches_for_is_refused(secured: Secured) -> None:
    done = secured.run(secured.tls_port, security__protocol="SSL")
    assert_refused(done, "certificate verify failed", "ssl.ca.location")


def test_no_tls_at_the_door_for_tls_is_no_answer(secured: Secured) -> None:
    done = secured.run(secured.tls_port, "--timeout", "1", security__protocol="PLAINTEXT")
    assert_refused(done, f"no answer from localhost:{secured.tls_port} within 1 s", "security.protocol")


def test_a_group_that_one_may_not_see_is_named(secured: Secured) -> None:
    listed = secured.with_password("stranger", PASSWORD)
    assert (listed.returncode, listed.stdout) == (0, "no groups\n")
    done = secured.with_password("stranger", PASSWORD, "describe", "orders")
    assert_refused(done, "cannot describe group 'orders'", "authorization failed")


def test_a_watch_survives_a_broker_that_is_away(secured: Secured, tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    arguments = ["--watch", "--interval", "0.2", "--timeout", "4", "--json"]
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        watch = subprocess.Popen(
            [*COMMAND, *arguments, "--bootstrap-server", secured.cluster.bootstrap],
            stdout=stdout,
            stderr=stderr,
        )
        try:
            _wait(lambda: out.read_bytes().count(b"\n") > 0)
            secured.cluster.kill(1)
            _wait(lambda: b"no answer from" in err.read_bytes())
            seen = out.read_bytes().count(b"\n")
            secured.cluster.start(1)
            _wait(lambda: out.read_bytes().count(b"\n") > seen)
            watch.send_signal(signal.SIGINT)
            assert watch.wait(HANG_S) == 0
        finally:
            watch.kill()
    said = err.read_text(encoding="utf-8").splitlines()
    assert [line for line in said if not line.endswith((" …", "; trying again"))] == []


def _wait(condition: Callable[[], bool], timeout_s: float = HANG_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
