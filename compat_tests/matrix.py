"""Which pairs of a Python and a client were tested, as their own test runs report it.

    python -m compat_tests.matrix run FOLDER COMMAND...    run, then print what ran; the command's exit code

Every pytest run of `compat_tests` in an environment of tox leaves one result in the folder (see `conftest`).
A pair without a result was not run, or did not get as far as its end, and is never shown as passed.
Standard library only: it runs before any environment exists.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The result of one test run.

    Attributes:
        environment: its name in tox.ini.
        client: name and exact version; "" if several clients are tested together.
        kafka: the release of the brokers, or "a given cluster" if the user named a cluster.
        deselected: tests that the environment leaves out, for reasons stated in tox.ini.
        exit_code: pytest's.
        may_fail: the client is a pre-release; a failure is shown, but does not fail the run.
        failures: the id of each failed test, and the first line of its message.
    """

    environment: str
    python: str
    client: str
    kafka: str
    passed: int
    failed: int
    skipped: int
    deselected: int
    seconds: float
    exit_code: int
    may_fail: bool = False
    failures: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and self.failed == 0 and self.passed > 0

    def write(self, folder: Path) -> None:
        """Write the result to a folder atomically."""
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{self.environment}.json"
        unfinished = target.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")
        unfinished.replace(target)

    def counts(self) -> str:
        others = {"failed": self.failed, "skipped": self.skipped, "left out": self.deselected}
        return ", ".join([f"{self.passed} passed", *(f"{n} {what}" for what, n in others.items() if n)])


def read_results(folder: Path) -> list[Result]:
    """All results in a folder, sorted by environment."""
    decoded = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    return [Result(**{**one, "failures": tuple(one.get("failures", ()))}) for one in decoded]


def summary(results: Sequence[Result]) -> str:
    """A line for each environment that ran tests against real brokers, and for each failed test."""
    if not results:
        return "no environment of compat_tests has finished its tests"
    rows = [
        (
            "ok" if one.ok else "failed, as it may" if one.may_fail else "FAILED",
            one.environment,
            f"Python {one.python}",
            one.client or "all clients",
            f"Kafka {one.kafka}" if one.kafka[:1].isdigit() else one.kafka,
            one.counts(),
            f"{one.seconds:.0f} s",
        )
        for one in results
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines += [f"{one.environment}: {failure}" for one in results for failure in one.failures]
    good = sum(one.ok for one in results)
    return "\n".join([*lines, f"{good} of {len(results)} environments that finished their tests passed"])


def run(folder: Path, command: Sequence[str]) -> int:
    """Run a command that writes its results to an emptied folder, print them, and return its exit code."""
    for old in folder.glob("*.json"):
        old.unlink()
    # Ctrl-C reaches the whole foreground process group; tox ends its environments, and this process waits.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(command)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, previous)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print(f"\n{summary(read_results(folder))}", flush=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", folder, *command] if command:
            sys.exit(run(Path(folder), command))
    sys.exit(__doc__)
