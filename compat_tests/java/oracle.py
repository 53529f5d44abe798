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
from typing import Any, TypeVar

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.jvm import compile_java, java_command
from kafka_assignors.group import Assignment, Group
from kafka_assignors_cli.group_form import group_to_json


class OracleError(RuntimeError):
    """The Java program ended or did not answer in time; the message carries the end of its standard error."""


_Self = TypeVar("_Self", bound="LineProcess")


class LineProcess:
    """A program that answers each line of JSON with a line of JSON; a context manager.

    The program never outlives its user: it ends when its standard input is closed. It is killed, by its own
    process id, if it does not end then, or if an answer takes too long. It gets these variables too.
    """

    def __init__(self, command: Sequence[str], **environment: str) -> None:
        self._command = list(command)
        self._environment = os.environ | environment

    def __enter__(self: _Self) -> _Self:
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

    def __exit__(self, *_: object) -> None:
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
        timer = threading.Timer(HANG_S, end)
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
            why = f"no answer within {HANG_S:g} s" if overdue.is_set() else "it ended"
            self._errors.seek(0)
            tail = self._errors.read()[-2000:].decode(errors="replace")
            raise OracleError(f"{self._command[-1]}: {why}\n{tail}")
        return json.loads(line)


class JavaOracle(LineProcess):
    """Asks Kafka's assignors; a context manager around one JVM.

    >>> with JavaOracle("range") as java:
    ...     java.assign(group)["range"].members
    """

    def __init__(self, *assignors: str) -> None:
        super().__init__(java_command("AssignorOracle", *assignors, heap="1g", classes=compile_java()))

    def subscriptions(self, group: Group) -> dict[str, dict[str, bytes]]:
        """The metadata of Java members with this state, by the name of the assignor and by member id."""
        answers: dict[str, dict[str, str]] = self.ask({**group_to_json(group), "subscriptions": True})
        return {
            name: {member_id: bytes.fromhex(joined) for member_id, joined in members.items()}
            for name, members in answers.items()
        }

    def assign(self, group: Group, joined: Mapping[str, bytes] | None = None) -> dict[str, Assignment]:
        """The answer of each assignor for the group, by its name; for the cooperative one, of one round.

        `joined` has the metadata of some members, by member id; the others join as Java's do.
        """
        question = group_to_json(group)
        for member in question["members"]:
            if joined is not None and member["id"] in joined:
                member["joined"] = joined[member["id"]].hex()
        answers: dict[str, dict[str, Any]] = self.ask(question)
        for name, answer in answers.items():
            assert "error" not in answer, f"Java's {name} threw {answer['error']} for {json.dumps(question)}"
        return {name: Assignment(answer["assignment"]) for name, answer in answers.items()}
