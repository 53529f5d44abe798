"""Asks the assignors of other clients for their assignment of a group.

Each client is a program that answers in lines of JSON (`compat_tests.java.oracle.LineProcess`). It is started
with its first question, and again after it crashed or took too long.
"""

from __future__ import annotations

import functools
import importlib.metadata
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compat_tests.java.oracle import LineProcess, OracleError
from compat_tests.support.jvm import compile_java, java_command, kafka_version
from kafka_assignors.group import Assignment, Group
from kafka_assignors_cli.group_form import group_to_json


@dataclass(frozen=True, slots=True)
class Peer:
    """One assignor of one client."""

    client: str
    assignor: str

    def __str__(self) -> str:
        return f"{self.client} {self.assignor}"

    @property
    def cooperative(self) -> bool:
        """Whether its answer is that of one round, without partitions that a member must still revoke."""
        return self.assignor == "cooperative-sticky"


PEERS = (
    Peer("Java", "sticky"),
    Peer("Java", "cooperative-sticky"),
    Peer("Java", "range"),
    Peer("Java", "roundrobin"),
    Peer("kafka-python", "sticky"),
    Peer("kafka-python", "cooperative-sticky"),
    Peer("aiokafka", "sticky"),
    Peer("franz-go", "sticky"),
    Peer("franz-go", "cooperative-sticky"),
)


ROOT = Path(__file__).parents[2]

CLIENTS = tuple(dict.fromkeys(peer.client for peer in PEERS))


@dataclass(frozen=True, slots=True)
class Answer:
    """An assignment, valid or not, or the reason why there is none."""

    assignment: Assignment | None
    error: str | None


def _java(assignors: list[str]) -> list[str]:
    return java_command("AssignorOracle", *assignors, heap="512m", classes=compile_java())


def _python(client: str) -> Callable[[list[str]], list[str]]:
    program = str(Path(__file__).with_name("python_assignors.py"))
    return lambda assignors: [sys.executable, program, client, *assignors]


@functools.cache
def _go_program() -> str:
    source = Path(__file__).parent / "franzgo"
    target = ROOT / ".cache" / "franz-go-assignors"
    subprocess.run(["go", "build", "-o", target, "."], cwd=source, check=True)
    return str(target)


_PROGRAMS = {
    "Java": _java,
    "franz-go": lambda assignors: [_go_program(), *assignors],
    "kafka-python": _python("kafka-python"),
    "aiokafka": _python("aiokafka"),
}


class Peers:
    """Asks peers; a context manager around one process for each assignor. Some had endless loops."""

    def __init__(self) -> None:
        self._running: dict[Peer, LineProcess] = {}

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.__exit__()
        self._running.clear()

    def assign(self, peer: Peer, group: Group) -> Answer:
        """One assignor's answer for the group in one round."""
        process = self._running.get(peer)
        if process is None:
            command = _PROGRAMS[peer.client]([peer.assignor])
            # The assignors of kafka-python and aiokafka depend on it: their answers differ from run to run.
            process = self._running[peer] = LineProcess(command, PYTHONHASHSEED="0").__enter__()
        try:
            answer: dict[str, Any] = process.ask(group_to_json(group))[peer.assignor]
        except OracleError as error:
            process.__exit__()
            del self._running[peer]
            return Answer(None, str(error).partition("\n")[0])
        if "error" in answer:
            return Answer(None, answer["error"])
        return Answer(Assignment(answer["assignment"]), None)


def available_clients() -> tuple[str, ...]:
    """The clients that this machine can run: franz-go needs Go."""
    return tuple(client for client in CLIENTS if client != "franz-go" or shutil.which("go"))


def version_of(client: str) -> str:
    """The release of a client."""
    if client == "Java":
        return kafka_version()
    if client == "franz-go":
        modules = (Path(__file__).parent / "franzgo" / "go.mod").read_text(encoding="utf-8")
        return modules.partition("github.com/twmb/franz-go v")[2].split()[0]
    return importlib.metadata.version(client)
