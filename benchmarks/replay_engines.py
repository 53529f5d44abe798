"""CPU time and memory of the replay, without Spark and on it, of all processes with the JVM and its workers.

    python -m benchmarks.replay_engines                       the recorded history, and 12 copies of it
    python -m benchmarks.replay_engines copies:5 copies:10 single:200000 giant:10000
    python -m benchmarks.replay_engines --beside ../before    beside another checkout, by its .dev/bin/python

The recorded history is replayed under five strategies, histories of any size (`spark_validation.fleet`) under
two. In each round both engines, and both checkouts, replay every history once, one after the other. Medians
of the rounds; the last column has the CPU time as a multiple of that of the other checkout.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.process_tree import Usage, usage_of

HERE = Path(__file__).resolve().parents[1]
FIVE = "range,roundrobin,sticky,cooperative-sticky,rack-aware-sticky"
TWO = "range,cooperative-sticky"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay_engines", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("histories", nargs="*", default=["recorded", "copies:12"], metavar="SHAPE:COUNT")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--beside", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    pythons = [sys.executable] if given.beside is None else [sys.executable, given.beside / ".dev/bin/python"]
    print("history         engine  groups  generations  CPU s  generations/CPU s    s    MiB", flush=True)
    for name in given.histories:
        with tempfile.TemporaryDirectory() as folder:
            history, strategies = str(HERE / "spark_validation" / "recorded"), FIVE
            if name != "recorded":
                history, strategies = f"{folder}/{name}", TWO
                write = [sys.executable, "-m", "spark_validation.fleet", *name.split(":"), history]
                subprocess.run(write, check=True, cwd=HERE)
            report = Path(folder, "report.json")
            runs: dict[tuple[str, int], list[Usage]] = {}
            for _ in range(given.rounds):
                for engine in ("local", "spark"):
                    for place, python in enumerate(pythons):
                        replay = [str(python), "-m", "kafka_assignors_cli", "replay", history]
                        replay += ["--engine", engine, "--strategy", strategies, "--json", str(report)]
                        runs.setdefault((engine, place), []).append(usage_of(replay))
            found = json.loads(report.read_text())
            generations = sum(group["generations"] for group in found["groups"])
            for engine in ("local", "spark"):
                cpu_s, *others = (_median(runs[engine, place], 0) for place in range(len(pythons)))
                passed_s, peak_mib = (_median(runs[engine, 0], field) for field in (1, 2))
                ratio = "".join(f"  {cpu_s / other:.2f}" for other in others)
                print(
                    f"{name:15} {engine:6} {len(found['groups']):7,} {generations:12,} {cpu_s:6.1f} "
                    f"{generations / cpu_s:18,.0f} {passed_s:4.0f} {peak_mib:6,.0f}{ratio}",
                    flush=True,
                )


def _median(runs: list[Usage], field: int) -> float:
    return statistics.median(run[field] for run in runs)


if __name__ == "__main__":
    main()
