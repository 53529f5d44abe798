"""The replay of a synthetic fleet: its speed, its growth with the data, and its memory.

    python -m benchmarks.replay_fleet
    python -m benchmarks.replay_fleet --groups 5000 --generations 1000000 --doublings 0 --results fleets.json
    python -m benchmarks.replay_fleet --groups 5000 --generations 5000 --doublings 0 --alone 40

Each size is its own fleet, with twice as many groups and generations as the previous size. Each engine
replays it in its own process. An event is a record of the history. CPU time is that of all processes of a
replay; memory is the peak resident memory of the JVM, and of all Python processes together
(`benchmarks.process_tree`). With `--alone NAMES`, only the largest generation of each group is replayed,
under that many names: a fleet of groups that rebalanced once. The growth between two sizes is the exponent of
CPU time over events: 1 is linear. The start of the engine counts, so the growth begins below 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.process_tree import measured
from kafka_assignors_replay.schemas import RAW, record_batch
from spark_validation.fleet.profile import FleetOptions


@dataclass(frozen=True, slots=True)
class Run:
    """One size on one engine."""

    engine: str
    groups: int
    events: int
    bytes: int
    replay_s: float
    cpu_s: float
    jvm_mib: float
    python_mib: float

    @property
    def events_per_cpu_s(self) -> float:
        return self.events / self.cpu_s


def measure(
    options: FleetOptions, strategies: str, engines: Iterable[str], master: str, timeout_s: float, alone: int
) -> Iterator[Run]:
    """Make a fleet of this size, and replay it with each engine."""
    with tempfile.TemporaryDirectory() as folder:
        fleet, report = str(Path(folder, "fleet")), Path(folder, "report.json")
        made = [
            *(sys.executable, "-m", "spark_validation.fleet", fleet, "--master", master),
            *("--groups", str(options.groups), "--generations", str(options.generations)),
            *("--days", str(options.days), "--seed", str(options.seed)),
        ]
        subprocess.run(made, stdout=subprocess.DEVNULL, timeout=timeout_s, check=True)
        if alone:
            keep_largest_generations(Path(fleet, "raw"), alone)
        size = sum(path.stat().st_size for path in Path(fleet, "raw").rglob("*.parquet"))
        for engine in engines:
            replay = [
                *(sys.executable, "-m", "kafka_assignors_cli", "replay", fleet, "--json", str(report)),
                *("--strategy", strategies, "--engine", engine),
                *(("--master", master) if engine == "spark" else ()),
            ]
            cost = measured(replay, timeout_s)
            events = json.loads(report.read_text())["history"]["records"]
            yield Run(
                engine,
                options.groups * (alone or 1),
                events,
                size,
                cost.wall_s,
                cost.cpu_s,
                cost.jvm_mib,
                cost.python_mib,
            )


def keep_largest_generations(raw: Path, names: int) -> None:
    """Keep only the longest value of each classic group, under `names` names, in one partition."""
    largest: dict[bytes, tuple[Any, bytes]] = {}
    for path in sorted(raw.rglob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            key, value = row["key"], row["value"]
            if key[:2] == b"\0\2" and len(value or b"") > len(largest.get(key, (None, b""))[1]):
                largest[key] = row["timestamp"], value
    shutil.rmtree(raw)
    raw.mkdir()
    for number in range(names):
        rows: list[tuple[Any, ...]] = []
        for key, (timestamp, value) in sorted(largest.items()):
            group = key[4:] + b"-%d" % number
            renamed = key[:2] + len(group).to_bytes(2, "big") + group
            rows.append((0, number * len(largest) + len(rows), timestamp, renamed, value))
        table_of_rows = pa.Table.from_batches([record_batch(rows, RAW)])
        pq.write_table(table_of_rows, raw / f"part-{number}.parquet")


def table(runs: Iterable[Run]) -> Iterator[str]:
    """The lines of a Markdown table, engine by engine, the smallest fleet first."""
    yield (
        "| engine | groups | events | Parquet, MiB | wall, s | CPU, s | events by CPU s "
        "| JVM, MiB | Python, MiB | growth |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    before: Run | None = None
    for run in sorted(runs, key=lambda run: (run.engine, run.events)):
        growth = "" if before is None or before.engine != run.engine else f"{exponent(before, run):.2f}"
        before = run
        cells = (
            run.engine,
            f"{run.groups:,}",
            f"{run.events:,}",
            f"{run.bytes / 2**20:,.1f}",
            f"{run.replay_s:,.0f}",
            f"{run.cpu_s:,.0f}",
            f"{run.events_per_cpu_s:,.0f}",
            f"{run.jvm_mib:,.0f}",
            f"{run.python_mib:,.0f}",
            growth,
        )
        yield f"| {' | '.join(cells)} |"


def exponent(smaller: Run, larger: Run) -> float:
    """The exponent of the CPU time as a power of the events."""
    return math.log(larger.cpu_s / smaller.cpu_s) / math.log(larger.events / smaller.events)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay_fleet", description=__doc__)
    parser.add_argument("--groups", type=int, default=200, help="of the largest fleet")
    parser.add_argument("--generations", type=int, default=20_000, help="of the largest fleet")
    parser.add_argument("--doublings", type=int, default=2, help="how many smaller fleets come before it")
    parser.add_argument("--strategies", default="range,cooperative-sticky")
    parser.add_argument("--engines", default="spark,local")
    parser.add_argument("--master", default="local[2]", help="of Spark")
    parser.add_argument(
        "--results", metavar="FILE", type=Path, help="keep what is measured here; the table has all of it"
    )
    parser.add_argument(
        "--alone",
        metavar="NAMES",
        type=int,
        default=0,
        help="one generation of each group, under so many names",
    )
    parser.add_argument("--timeout", type=float, default=4 * 3600, help="of each step, in seconds")
    given = parser.parse_args()
    engines = given.engines.split(",")

    runs: list[Run] = []
    if given.results is not None and given.results.exists():
        runs = [Run(**each) for each in json.loads(given.results.read_text())]
    for halvings in range(given.doublings, -1, -1):
        options = FleetOptions(given.groups >> halvings, given.generations >> halvings)
        groups = options.groups * (given.alone or 1)
        runs = [run for run in runs if run.groups != groups or run.engine not in engines]
        for one in measure(options, given.strategies, engines, given.master, given.timeout, given.alone):
            runs.append(one)
            if given.results is not None:
                given.results.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")
    print(f"{os.cpu_count()} cores, {given.master}, {given.strategies}\n")
    print("\n".join(table(runs)))


if __name__ == "__main__":
    main()
