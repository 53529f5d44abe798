"""The replay on Spark and without it: wall time and CPU time.

    python -m benchmarks.replay_engines
    python -m benchmarks.replay_engines --groups 300 --generations 40000 --rounds 3

The histories are the recorded one, with five strategies, and a synthetic fleet, with two. In each round both
engines replay every history once, so that other load on the machine affects both. The output shows the
medians. CPU time is that of the whole process tree, including the JVM and its Python
workers (`benchmarks.process_tree`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.process_tree import ProcessTree, measured

ROOT = Path(__file__).resolve().parents[1]
FIVE = "range,roundrobin,sticky,cooperative-sticky,rack-aware-sticky"
TWO = "range,cooperative-sticky"


def make_fleet(folder: Path, groups: int, generations: int) -> None:
    command = [sys.executable, "-m", "spark_validation.fleet", str(folder)]
    command += ["--groups", str(groups), "--generations", str(generations)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)


def replay(engine: str, history: Path, strategies: str, report: Path) -> ProcessTree:
    command = [sys.executable, "-m", "kafka_assignors_cli", "replay", str(history), "--strategy", strategies]
    return measured([*command, "--json", str(report), "--engine", engine], timeout_s=3600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--groups", type=int, default=100, help="of the fleet")
    parser.add_argument("--generations", type=int, default=10_000, help="of the fleet")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    runs: dict[tuple[str, int, str], list[ProcessTree]] = {}
    with tempfile.TemporaryDirectory() as folder:
        fleet, report = Path(folder, "fleet"), Path(folder, "report.json")
        make_fleet(fleet, given.groups, given.generations)
        for _ in range(given.rounds):
            for name, path, strategies in (
                ("recorded", ROOT / "spark_validation" / "recorded", FIVE),
                ("fleet", fleet, TWO),
            ):
                for engine in ("spark", "local"):
                    taken = replay(engine, path, strategies, report)
                    records = json.loads(report.read_text(encoding="utf-8"))["history"]["records"]
                    runs.setdefault((name, records, engine), []).append(taken)
    print(f"{os.cpu_count()} cores, {given.rounds} rounds\n")
    print("| history | records | engine | wall, s | CPU, s |\n|---|---:|---|---:|---:|")
    for (name, records, engine), trees in runs.items():
        wall_s, cpu_s = (
            statistics.median(getattr(tree, what) for tree in trees) for what in ("wall_s", "cpu_s")
        )
        print(f"| {name} | {records:,} | {engine} | {wall_s:.1f} | {cpu_s:.1f} |")


if __name__ == "__main__":
    main()
