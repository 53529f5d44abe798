"""`kafka-assignors groups` with a broker that requires a password or TLS, grants few rights, or is down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.secured_cluster import SecuredCluster
from tests.test_cli import without_progress

COMMAND = [sys.executable, "-m", "kafka_assignors_cli", "groups"]


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredCluster]:
    with SecuredCluster() as secured:
        secured.cluster.create_topic("orders")
        _commit(secured.cluster.bootstrap, "orders")
        yield secured


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=HANG_S, check=False)


def through_tls(
    secured: SecuredCluster, *arguments: str, **properties: str
) -> subprocess.CompletedProcess[str]:
    """Run on the TLS listener without passwords; `__` in the name of a property stands for a dot."""
    file = secured.folder / "tls.properties"
    file.write_text("".join(f"{name.replace('__', '.')}={value}\n" for name, value in properties.items()))
    server = f"localhost:{secured.tls_port}"
    return run(*arguments, "--bootstrap-server", server, "--command-config", str(file))


def _commit(bootstrap: str, group: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(group, 0, 0)], asynchronous=False)
    consumer.close()


def assert_refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    error = done.stderr.splitlines()[-1]  # The lines before it are progress.
    assert error.startswith("kafka-assignors: error: ")
    for part in parts:
        assert part in error


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_right_password_opens(secured: SecuredCluster, mechanism: str) -> None:
    done = run(*secured.superuser(mechanism).options)
    assert (done.returncode, without_progress(done.stderr)) == (0, "")
    assert "orders" in done.stdout


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_wrong_password_gives_one_line_without_the_password(secured: SecuredCluster, mechanism: str) -> None:
    who = secured.with_properties(secured.superuser(mechanism), sasl__password="wrong-password")
    done = run(*who.options)
    assert_refused(done, "Authentication failed", "look at the user and the password")
    assert "wrong-password" not in done.stderr


def test_the_broker_s_certificate_opens(secured: SecuredCluster) -> None:
    done = through_tls(secured, security__protocol="SSL", ssl__ca__location=str(secured.certificate))
    assert (done.returncode, without_progress(done.stderr)) == (0, "")
    assert "orders" in done.stdout


def test_an_unknown_certificate_is_refused(secured: SecuredCluster) -> None:
    done = through_tls(secured, security__protocol="SSL")
    assert_refused(done, "certificate verify failed", "ssl.ca.location")


def test_no_tls_at_the_door_for_tls_is_no_answer(secured: SecuredCluster) -> None:
    done = through_tls(secured, "--timeout", "1", security__protocol="PLAINTEXT")
    assert_refused(done, f"no answer from localhost:{secured.tls_port} within 1 s", "security.protocol")
