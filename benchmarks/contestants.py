"""The contestants, and the processes in which they run.

Each contestant reads one group file and then answers questions on its standard input with CPU times
(`python_contestant.py`, `compat_tests/java/src/AssignBenchmark.java`, `franzgo/main.go`). The tools that it
needs are looked up at its first use: Maven and a JDK for Java, Go for franz-go.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.process_tree import process_stat
from compat_tests.support.jvm import compile_java, java_command

__all__ = ["CONTESTANTS", "Contestant", "Runner", "TooSlowError", "running"]

ROOT = Path(__file__).resolve().parent.parent
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Contestant:
    """`largest` limits members times partitions: larger groups would take too long for the contestant."""

    name: str
    command: Callable[[Path], list[str]]
    warm_up_s: float = 0.0
    largest: int | None = None


def _python(name: str) -> Callable[[Path], list[str]]:
    return lambda file: [sys.executable, "-m", "benchmarks.python_contestant", name, str(file)]


def _java(assignor: str) -> Callable[[Path], list[str]]:
    # The default options of `java_command` suit short programs; this one needs the full JIT compiler.
    options = ["-XX:TieredStopAtLevel=4", "-Xms1g"]
    return lambda file: java_command(
        "AssignBenchmark", assignor, file, heap="4g", classes=compile_java(), options=options
    )


@functools.cache
def _franz_go_program() -> str:
    if shutil.which("go") is None:
        raise RuntimeError("no go in the PATH: install Go 1.26 or later, or leave franz-go out (--peers)")
    target = ROOT / ".cache" / "franzgo"
    subprocess.run(["go", "build", "-o", target, "."], cwd=ROOT / "benchmarks" / "franzgo", check=True)
    return str(target)


def _franz_go(file: Path) -> list[str]:
    return [_franz_go_program(), str(file)]


_JIT_S = 2.0
_SLOW = 2_000_000

CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("ours", _python("ours")),
        Contestant("franz-go", _franz_go, warm_up_s=0.3),
        Contestant("java cooperative-sticky", _java("cooperative-sticky"), warm_up_s=_JIT_S),
        Contestant("kafka-python", _python("kafka-python"), largest=_SLOW),
        Contestant("aiokafka", _python("aiokafka"), largest=_SLOW),
    )
}


class TooSlowError(Exception):
    """The contestant needed more CPU time than its limit, and was killed."""


@contextlib.contextmanager
def running(contestant: Contestant, file: Path, limit_s: float) -> Iterator[Runner]:
    """One contestant with one group file.

    The process ends with the context, or is killed when a question takes more CPU time than `limit_s`.
    """
    command = contestant.command(file)
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, cwd=ROOT)
        try:
            yield Runner(process, errors, limit_s)
        finally:
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


class Runner:
    """A contestant that answers questions."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[bytes], limit_s: float) -> None:
        self._process, self._errors, self._limit_s = process, errors, limit_s

    def cpu_ms(self, what: str, calls: int = 1) -> float:
        """The CPU time of one call in milliseconds, averaged over `calls` calls in a row."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answered = threading.Event()
        too_slow = threading.Event()

        def watch() -> None:
            allowed = _cpu_s(self._process.pid) + self._limit_s
            while not answered.wait(_POLL_S):
                if _cpu_s(self._process.pid) > allowed:
                    too_slow.set()
                    self._process.kill()
                    return

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            self._process.stdin.write(json.dumps({"do": what, "calls": calls}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            answered.set()
            watching.join()
        if not line:
            if too_slow.is_set():
                raise TooSlowError(self._process.args)
            self._errors.seek(0)
            raise RuntimeError(
                f"{self._process.args!r} ended: {self._errors.read()[-2000:].decode(errors='replace')}"
            )
        return float(json.loads(line)["cpu_ns"]) / calls / 1e6


def _cpu_s(pid: int) -> float:
    """User and system time of a process so far; 0 if it has ended."""
    try:
        return process_stat(pid).cpu_s
    except FileNotFoundError:
        return 0.0
