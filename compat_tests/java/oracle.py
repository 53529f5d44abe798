"""Kafka's own assignors as an oracle: Java's assignment of a group.

One JVM (`src/AssignorOracle.java`) answers for all groups, so asking about thousands of them takes seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.jvm import compile_java, java_command
from kafka_assignors.group import Group
from kafka_assignors_cli.group_form import group_to_json

__all__ = ["ASSIGNORS", "JavaAnswer", "JavaOracle", "LineProcess", "OracleError"]

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


class OracleError(RuntimeError):
    """The Java program ended or did not answer in time; the message carries the end of its standard error."""


@dataclass(frozen=True, slots=True)
class JavaAnswer:
    """The result of one of Kafka's assignors for a group.

    `assignment` is by member id and topic, with partitions ascending; for the cooperative assignor it is that
    of one round. `assign_ns` is the wall time of Java's call alone. If the assignor threw, `error` is the
    exception, and there is no assignment.
    """

    assignment: dict[str, dict[str, list[int]]] | None
    assign_ns: int | None
    error: str | None


class LineProcess:
    """A program that answers each line of JSON with a line of JSON; a context manager.

    The program never outlives its user: it ends when its standard input is closed. It is killed, by its own
    process id, if it does not end then, or if an answer takes longer than `timeout_s` seconds. `environment`
    is added to the variables of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout_s: float = HANG_S,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self._timeout_s = timeout_s
        self._environment = {**os.environ, **(environment or {})}

    def __enter__(self) -> LineProcess:
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=self._environment,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        finally:
            self._errors.close()

    def ask(self, question: object) -> Any:
        """The answer to `question`; both are values of `json`.

        Raises:
            OracleError: no answer within the time limit, or the program has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        overdue = threading.Event()

        def end() -> None:
            overdue.set()
            self._process.kill()

        # Killing the process ends both the write and the read below, if one of them hangs.
        timer = threading.Timer(self._timeout_s, end)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            why = f"no answer within {self._timeout_s:g} s" if overdue.is_set() else "it ended"
            self._errors.seek(0)
            tail = self._errors.read()[-2000:].decode(errors="replace")
            raise OracleError(f"{self._command[-1]}: {why}\n{tail}")
        return json.loads(line)


class JavaOracle:
    """Asks Kafka's assignors; a context manager around one JVM.

    >>> with JavaOracle("range") as java:
    ...     java.assign(group)["range"].assignment
    """

    def __init__(self, *assignors: str, timeout_s: float = HANG_S, heap: str = "1g") -> None:
        self._assignors = assignors or ASSIGNORS
        command = java_command("AssignorOracle", *self._assignors, heap=heap, classes=compile_java())
        self._java = LineProcess(command, timeout_s=timeout_s)

    def __enter__(self) -> JavaOracle:
        self._java.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._java.__exit__(kind, error, trace)

    def subscriptions(self, group: Group) -> dict[str, dict[str, bytes]]:
        """The metadata of Java members with this state, by the name of the assignor and by member id."""
        answers: dict[str, dict[str, str]] = self._java.ask({**group_to_json(group), "subscriptions": True})
        return {
            name: {member_id: bytes.fromhex(joined) for member_id, joined in members.items()}
            for name, members in answers.items()
        }

    def assign(self, group: Group, joined: Mapping[str, bytes] | None = None) -> dict[str, JavaAnswer]:
        """The answer of each assignor for the group, by its name.

        `joined` has the metadata of some members, by member id; the others join as Java's do.
        """
        question = group_to_json(group)
        for member in question["members"]:
            if joined is not None and member["id"] in joined:
                member["joined"] = joined[member["id"]].hex()
        answers: dict[str, dict[str, Any]] = self._java.ask(question)
        return {
            name: JavaAnswer(answer.get("assignment"), answer.get("assign_ns"), answer.get("error"))
            for name, answer in answers.items()
        }
