"""A Java consumer in its own process (`src/SmallMember.java`), for groups of Java and Python members.

with JavaMember(kafka.bootstrap, "group", ["orders"], assignors="cooperative-sticky", rack="a") as member:
    member.wait_until(lambda: member.owned == {"orders": [0, 1]})
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.jvm import compile_java, java_command

__all__ = ["JavaMember", "JavaMemberError"]

_LEAVE_TIMEOUT_S = HANG_S


class JavaMemberError(RuntimeError):
    """The member ended early, or a condition did not come true; quotes its last events and its log."""


class JavaMember:
    """A member from the start of its process to its end; a context manager that ends it.

    `options` are arguments of the program, such as `assignors`, `protocol`, `instance`, `rack`, `seconds`;
    `config` has further properties of the consumer.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        *,
        config: Mapping[str, object] | None = None,
        **options: object,
    ) -> None:
        arguments = {"bootstrap": bootstrap, "group": group, "topics": ",".join(topics), **options}
        pairs = [f"{key}={value}" for key, value in {**arguments, **(config or {})}.items()]
        self._command = java_command("SmallMember", *pairs, classes=compile_java())
        self._events: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    def __enter__(self) -> JavaMember:
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._process.poll() is None:
                self.leave()
        finally:
            self.kill()
            self._log.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._events.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events of the member so far, in order; see the program for their kinds."""
        with self._changed:
            return list(self._events)

    @property
    def owned(self) -> dict[str, list[int]]:
        """Its partitions by topic, according to the last event that contains them."""
        owned: dict[str, list[int]] = {}
        for event in self.events:
            owned = event.get("owned", owned)
        return owned

    def metrics(self) -> dict[str, Any]:
        """The present metrics of its coordinator by name; "NaN" for a metric without a value."""
        assert self._process.stdin is not None
        told = len(self.events)
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        self.wait_until(lambda: any(event["event"] == "metrics" for event in self.events[told:]))
        values: dict[str, Any] = next(
            event["values"] for event in self.events[told:] if event["event"] == "metrics"
        )
        return values

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = HANG_S) -> None:
        """Wait until the condition holds; it is checked after each event of the member.

        Raises:
            JavaMemberError: it did not hold within `timeout_s` seconds, or the process ended before.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._error(f"not within {timeout_s:g} s")
            if not self._reader.is_alive():
                raise self._error("the member has ended")
            with self._changed:
                self._changed.wait(min(left, 0.2))

    def leave(self) -> None:
        """Close its standard input, so that it leaves the group, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._end()

    def kill(self) -> None:
        """Send SIGKILL: the group notices when the session expires. Does nothing if the process has ended."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _end(self) -> None:
        try:
            self._process.wait(_LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            error = self._error(f"the member has not left within {_LEAVE_TIMEOUT_S:g} s")
            self.kill()
            raise error from None
        self._reader.join()

    def _error(self, why: str) -> JavaMemberError:
        self._log.seek(0)
        log = self._log.read()[-3000:].decode(errors="replace")
        events = "\n".join(map(json.dumps, self.events[-10:]))
        return JavaMemberError(f"{why}\nlast events:\n{events}\nlog:\n{log}")
