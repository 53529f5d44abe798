"""The replay of this and an earlier commit, on Spark and without it: wall time and CPU time.

    python -m benchmarks.replay_engines --before ../checkout
    python -m benchmarks.replay_engines --before ../checkout --copies 30 --rounds 3

The histories are the recorded one, with five strategies, and a fleet of copies of it, with two. In each round
every contestant replays every history once, one after the other, so that other load on the machine affects
all of them equally. The output shows the medians. Ratios are those of the CPU time to that of the earlier
commit on the same engine. CPU time is that of the whole process tree, including the JVM and its Python
workers (`benchmarks.process_tree`).

`--before` is a checkout of another commit, which runs with the packages of this environment.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process_tree import ProcessTree, measured

HERE = Path(__file__).resolve().parents[1]
FIVE = "range,roundrobin,sticky,cooperative-sticky,rack-aware-sticky"
TWO = "range,cooperative-sticky"


@dataclass(frozen=True, slots=True)
class Contestant:
    """A checkout, and the options that choose its engine."""

    name: str
    checkout: Path
    engine: str


def replay(
    contestant: Contestant, history: str, strategies: str, report: Path, timeout_s: float
) -> ProcessTree:
    roots = (contestant.checkout / each for each in ("src", "plugins", "spark_validation"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots))}
    command = [
        *(sys.executable, "-m", "kafka_assignors_cli", "replay", history, "--strategy", strategies),
        *("--json", str(report), "--engine", contestant.engine),
    ]
    return measured(command, timeout_s, environment)


def table(
    contestants: Sequence[Contestant],
    histories: Mapping[str, int],
    runs: Mapping[tuple[str, str], list[ProcessTree]],
) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield "| history | records | engine | wall, s | CPU, s | CPU, ratio |"
    yield "|---|---:|---|---:|---:|---:|"
    for history, records in histories.items():
        before: dict[str, float] = {}
        for contestant in contestants:
            of_one = runs[history, contestant.name]
            wall_s = statistics.median(run.wall_s for run in of_one)
            cpu_s = statistics.median(run.cpu_s for run in of_one)
            ratio = f"{cpu_s / before.setdefault(contestant.engine, cpu_s):.2f}"
            yield f"| {history} | {records:,} | {contestant.name} | {wall_s:.1f} | {cpu_s:.1f} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay_engines", description=__doc__)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="of the commit to compare with")
    parser.add_argument("--fleet", metavar="DIR", help="a fleet that is there, in place of a new one")
    parser.add_argument("--copies", type=int, default=12, help="of each recorded group, in the fleet")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=3600, help="of each replay, in seconds")
    given = parser.parse_args()
    checkouts = [("", HERE)] if given.before is None else [("before, ", given.before.resolve()), ("", HERE)]
    contestants = [
        Contestant(f"{when}{engine}", checkout, engine)
        for engine in ("spark", "local")
        for when, checkout in checkouts
    ]
    runs: dict[tuple[str, str], list[ProcessTree]] = {}
    histories: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        fleet = given.fleet or str(Path(folder, "fleet"))
        if given.fleet is None:
            write = [sys.executable, "-m", "spark_validation.fleet", fleet, "--copies", str(given.copies)]
            subprocess.run(write, check=True, cwd=HERE)
        report = Path(folder, "report.json")
        of_history = {
            "recorded": (str(HERE / "spark_validation" / "recorded"), FIVE),
            "fleet": (str(Path(fleet).resolve()), TWO),
        }
        for _ in range(given.rounds):
            for name, (path, strategies) in of_history.items():
                for contestant in contestants:
                    taken = replay(contestant, path, strategies, report, given.timeout)
                    runs.setdefault((name, contestant.name), []).append(taken)
                    print(
                        f"{name}, {contestant.name}: {taken.wall_s:.1f} s, CPU {taken.cpu_s:.1f} s",
                        file=sys.stderr,
                    )
                histories[name] = json.loads(report.read_text())["history"]["records"]
    print(f"{os.cpu_count()} cores, {given.rounds} rounds\n")
    print("\n".join(table(contestants, histories, runs)))


if __name__ == "__main__":
    main()
