"""`kafka-assignors watch` as a process, with its output and its metrics.

with WatchProcess("--bootstrap-server", "127.0.0.1:9092") as watch:
    watch.wait_for("two members", lambda: watch.group("orders").get("members") == 2)
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from types import TracebackType

from prometheus_client.parser import text_string_to_metric_families

from compat_tests.support.hang_limit import HANG_S

__all__ = ["WatchProcess"]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

_PREFIX = "kafka_assignors_"


class WatchProcess:
    """The command with these options, serving metrics on a free port. Leaving the block kills it."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "kafka_assignors_cli", "watch", "--prometheus", "127.0.0.1:0"]
        self._process = subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        """Its lines on stderr."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> WatchProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print("---- watch", *self.lines, sep="\n", file=sys.stderr)
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()
        self._process.wait(HANG_S)
        self._reader.join(HANG_S)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal, wait for the end, and return the exit code."""
        self._process.send_signal(number)
        code = self._process.wait(HANG_S)
        self._reader.join(HANG_S)
        return code

    def said(self, part: str) -> int:
        """The number of lines that contain this text."""
        return sum(part in line for line in [*self.lines])

    def scrape(self) -> str:
        """The text of a scrape; empty before the port is open."""
        for line in [*self.lines]:
            if found := re.search(r"metrics are on (http://\S+)", line):
                with urllib.request.urlopen(found[1], timeout=HANG_S) as response:
                    return str(response.read().decode())
        return ""

    def samples(self) -> Samples:
        """Every sample of a scrape, by its name without the prefix and its labels."""
        return {
            (sample.name.removeprefix(_PREFIX), frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.scrape())
            for sample in family.samples
        }

    def watch(self, name: str, **labels: str) -> float | None:
        """A metric of the watch itself."""
        return self.samples().get((f"watch_{name}", frozenset(labels.items())))

    def group(self, group: str) -> dict[str, float]:
        """The metrics of a group, by name and the value of their other label, such as `state Stable`."""
        found: dict[str, float] = {}
        for (name, labels), value in self.samples().items():
            given = dict(labels)
            if given.pop("group", None) == group and name != "group_info":
                found[" ".join((name.removeprefix("group_"), *given.values()))] = value
        return found

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + HANG_S
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                if condition():
                    return
            assert self._process.poll() is None, f"the watch has ended: {self.lines}"
            assert time.monotonic() < deadline, f"no {what} within {HANG_S:g} s; the watch said {self.lines}"
            time.sleep(0.3)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line.rstrip("\n"))
