"""The replay on a standalone Spark cluster: how the time falls with the number of cores.

    python -m benchmarks.replay_cluster
    python -m benchmarks.replay_cluster --groups 200 --generations 20000 --workers 1,2,4 --rounds 3

A master and workers of one core each run on loopback; the replay is submitted with the wheel alone. In each
round every number of workers has its turn, so that other load on the machine affects all of them equally. The
output shows the medians. Wall time is that of `spark-submit`; CPU time is that of all processes, including
the cluster's own. More workers than free cores do not shorten the time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.process_tree import ProcessTree
from benchmarks.replay_engines import HERE, TWO
from spark_validation.standalone.cluster import StandaloneCluster
from spark_validation.standalone.comparison import PROGRAM
from spark_validation.standalone.wheel import bare_python, py_files


def submit(
    history: Path, workers: int, python: Path, packages: Path, folder: Path, timeout_s: float
) -> tuple[float, float]:
    """Replay the history on a new cluster: wall seconds of `spark-submit`, CPU seconds of all processes."""
    program = folder / "replay.py"
    program.write_text(PROGRAM)
    with ProcessTree() as tree, StandaloneCluster(python, workers) as cluster:
        started = time.monotonic()
        arguments = ["replay", str(history), "--strategy", TWO]
        done = cluster.submit(program, arguments, py_files=packages, timeout_s=timeout_s)
        wall_s = time.monotonic() - started
        if done.returncode:
            raise SystemExit(f"spark-submit ended with {done.returncode}: {done.stderr[-2000:]}")
        if (worked := cluster.executors()) != workers:
            raise SystemExit(f"{worked} of {workers} workers had an executor")
    return wall_s, tree.cpu_s


def fleet(folder: Path, groups: int, generations: int) -> Path:
    """Write a fleet of this size."""
    made = folder / f"fleet-{groups}"
    command = [
        *(sys.executable, "-m", "spark_validation.fleet", str(made)),
        *("--groups", str(groups), "--generations", str(generations)),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=HERE)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay_cluster", description=__doc__)
    parser.add_argument("--history", type=Path, metavar="DIR", help="in place of a new fleet")
    parser.add_argument("--groups", type=int, default=100, help="of the fleet")
    parser.add_argument("--generations", type=int, default=10_000, help="of the fleet")
    parser.add_argument("--workers", default="1,2", help="numbers of workers")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=3600, help="of each replay, in seconds")
    given = parser.parse_args()
    numbers = [int(each) for each in given.workers.split(",")]
    runs: dict[int, list[tuple[float, float]]] = {workers: [] for workers in numbers}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        history = given.history or fleet(folder, given.groups, given.generations)
        packages, python = py_files(folder), bare_python(folder / "python")
        for _ in range(given.rounds):
            for workers, of_one in runs.items():
                run = submit(history.resolve(), workers, python, packages, folder, given.timeout)
                of_one.append(run)
                said = f"{run[0]:.1f} s, CPU {run[1]:.1f} s, load {os.getloadavg()[0]:.1f}"
                print(f"{workers} workers: {said}", file=sys.stderr)
    print(f"{os.cpu_count()} cores, {given.rounds} rounds, {given.history or given.groups}\n")
    print("| workers | wall, s | CPU, s |\n|---:|---:|---:|")
    for workers, of_one in runs.items():
        wall_s, cpu_s = map(statistics.median, zip(*of_one, strict=True))
        print(f"| {workers} | {wall_s:.1f} | {cpu_s:.1f} |")


if __name__ == "__main__":
    main()
