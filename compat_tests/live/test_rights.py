"""The rights that each command needs: with exactly these it works; without one, it names that right."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from compat_tests.support.commands import run_command
from compat_tests.support.secured_cluster import CLUSTER, Principal, Right, SecuredCluster
from tests.test_cli import without_progress

GROUP, TOPIC, OFFSETS = "billing", "orders", "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class Command:
    """A command line and its rights. Without an `optional` right it prints less, and names the right."""

    arguments: tuple[str, ...]
    needed: tuple[Right, ...]
    optional: tuple[Right, ...] = ()

    @property
    def all(self) -> set[Right]:
        return {*self.needed, *self.optional}


COMMANDS = {
    "groups": Command(
        ("groups",),
        needed=(),
        optional=(Right("Describe", "Cluster", CLUSTER), Right("Describe", "Group", GROUP)),
    ),
    "groups describe": Command(
        ("groups", "describe", GROUP),
        (Right("Describe", "Group", GROUP),),
        (Right("Describe", "Topic", TOPIC),),
    ),
    "groups describe --json": Command(
        ("groups", "describe", GROUP, "--json", "-"),
        (Right("Describe", "Group", GROUP), Right("Describe", "Topic", TOPIC)),
    ),
    "lint --group": Command(("lint", "--group", GROUP), (Right("Describe", "Group", GROUP),)),
    "watch": Command(
        ("watch", "--once", "--matching", GROUP),
        (Right("Read", "Topic", OFFSETS),),
        (Right("Describe", "Topic", TOPIC),),
    ),
}


def run(arguments: Sequence[str], who: Principal) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, *who.options)


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredCluster]:
    with SecuredCluster() as secured:
        secured.cluster.create_topic(TOPIC, 4)
        secured.cluster.create_topic("hidden", 4)
        secured.cluster.produce({(topic, 0): 1 for topic in (TOPIC, "hidden")})
        with member(secured, GROUP, TOPIC):
            yield secured


@contextmanager
def member(secured: SecuredCluster, group: str, *topics: str) -> Iterator[None]:
    """A group of one member that has committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": secured.cluster.bootstrap,
            "group.id": group,
            "client.id": "rdkafka",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # It is not polled while the commands run, which may take minutes; a day is librdkafka's maximum.
            "max.poll.interval.ms": 86_400_000,
        }
    )
    consumer.subscribe(list(topics))
    try:
        seen = 0
        while seen < len(topics):
            if (message := consumer.poll(1.0)) is not None and message.error() is None:
                consumer.commit(message=message, asynchronous=False)
                seen += 1
        yield
    finally:
        consumer.close()


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_with_exactly_these_rights_a_command_tells_all(secured: SecuredCluster, command: Command) -> None:
    who = secured.principal(*command.all)
    done = run(command.arguments, who)
    assert done.returncode == 0, done.stderr
    assert "not reading now" not in done.stdout
    everything = run(command.arguments, secured.superuser())
    assert (done.stdout, said(done)) == (everything.stdout, said(everything))


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The messages of a command without its progress, which depends on the speed of the machine."""
    return without_progress(done.stderr).splitlines()


def without_each(kind: str) -> pytest.MarkDecorator:
    """Each command without each of its rights of one kind: `needed` or `optional`."""
    return pytest.mark.parametrize(
        ("command", "missing"),
        [
            pytest.param(command, right, id=f"{name} without {right}")
            for name, command in COMMANDS.items()
            for right in getattr(command, kind)
        ],
    )


@without_each("needed")
def test_without_a_right_that_it_needs_a_command_names_it(
    secured: SecuredCluster, command: Command, missing: Right
) -> None:
    done = run(command.arguments, secured.principal(*command.all - {missing}))
    assert done.returncode == 2
    assert str(missing) in done.stderr.splitlines()[-1]


@without_each("optional")
def test_without_another_right_a_command_says_less_and_names_it(
    secured: SecuredCluster, command: Command, missing: Right
) -> None:
    done = run(command.arguments, secured.principal(*command.all - {missing}))
    assert done.returncode == 0, done.stderr
    assert str(missing) in " ".join((done.stdout + done.stderr).split())


def test_the_page_has_every_command_with_its_rights() -> None:
    page = (Path(__file__).parents[2] / "docs" / "production.md").read_text(encoding="utf-8")
    for name, command in COMMANDS.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        _, _, needed, optional, _ = row.split("|")
        for rights, cell in ((command.needed, needed), (command.optional, optional)):
            assert all(f"{right.operation} on {right.resource}" in cell for right in rights)


def test_no_rights_are_no_empty_cluster(secured: SecuredCluster) -> None:
    for arguments in (("groups",), ("groups", "--json", "-")):
        done = run(arguments, secured.principal())
        assert (done.returncode, done.stdout) == (2, "")
        assert f"Describe on Cluster {CLUSTER!r}" in done.stderr


def test_nothing_is_judged_while_a_topic_is_hidden(secured: SecuredCluster) -> None:
    who = secured.principal(Right("Describe", "Group", "both"), Right("Describe", "Topic", TOPIC))
    with member(secured, "both", TOPIC, "hidden"):
        shown, as_json, listed = (
            run(("groups", *arguments), who)
            for arguments in (("describe", "both"), ("describe", "both", "--json", "-"), ("--json", "-"))
        )
    assert shown.returncode == 0
    assert "8 partitions" in shown.stdout
    assert "best balance" not in shown.stdout
    assert "Describe on Topic 'hidden'" in " ".join(shown.stdout.split())
    assert (as_json.returncode, as_json.stdout) == (2, "")
    (summary,) = map(json.loads, listed.stdout.splitlines())
    assert (summary["group"], summary["partitions"]) == ("both", 8)


# ---- how to log in


def through_tls(secured: SecuredCluster, *arguments: str, **properties: str) -> list[str]:
    """The command `groups` on the TLS listener without passwords; `__` in a property stands for a dot."""
    file = secured.folder / "tls.properties"
    file.write_text("".join(f"{name.replace('__', '.')}={value}\n" for name, value in properties.items()))
    server = f"localhost:{secured.tls_port}"
    return ["groups", *arguments, "--bootstrap-server", server, "--command-config", str(file)]


def refused(*arguments: str) -> str:
    """The error of a command that is refused."""
    done = run_command(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    error = done.stderr.splitlines()[-1]  # The lines before it are progress.
    assert error.startswith("kafka-assignors: error: ")
    return error


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_right_password_opens_and_a_wrong_one_is_not_shown(
    secured: SecuredCluster, mechanism: str
) -> None:
    who = secured.superuser(mechanism)
    done = run(("groups",), who)
    assert (done.returncode, said(done)) == (0, [])
    assert GROUP in done.stdout
    wrong = secured.with_properties(who, sasl__password="wrong-password")
    error = refused("groups", *wrong.options)
    assert "Authentication failed" in error
    assert "look at the user and the password" in error
    assert "wrong-password" not in error
    assert "do not accept each other" in refused("watch", "--once", *wrong.options)


def test_the_certificate_of_the_broker_opens_and_is_asked_for(secured: SecuredCluster) -> None:
    known = {"security__protocol": "SSL", "ssl__ca__location": str(secured.certificate)}
    done = run_command(*through_tls(secured, **known))
    assert (done.returncode, said(done)) == (0, [])
    assert GROUP in done.stdout
    unknown = refused(*through_tls(secured, security__protocol="SSL"))
    assert "certificate verify failed" in unknown
    assert "ssl.ca.location" in unknown
    silent = refused(*through_tls(secured, "--timeout", "1", security__protocol="PLAINTEXT"))
    assert f"no answer from localhost:{secured.tls_port} within 1 s" in silent
    assert "security.protocol" in silent
