"""CPU time of the replay on Spark and without it, of all processes with the JVM and its Python workers.

    python -m benchmarks.replay_engines --copies 12 --rounds 2

The histories are the recorded one, with five strategies, and a fleet of copies of it, with two. In each round
both engines replay every history once, one after the other. The output shows the medians in seconds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.process_tree import cpu_s_of

HERE = Path(__file__).resolve().parents[1]
FIVE = "range,roundrobin,sticky,cooperative-sticky,rack-aware-sticky"
TWO = "range,cooperative-sticky"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay_engines", description=__doc__)
    parser.add_argument("--copies", type=int, default=12, help="of each recorded group, in the fleet")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    runs: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        fleet = str(Path(folder, "fleet"))
        write = [sys.executable, "-m", "spark_validation.fleet", fleet, "--copies", str(given.copies)]
        subprocess.run(write, check=True, stdout=subprocess.DEVNULL, cwd=HERE)
        histories = {str(HERE / "spark_validation" / "recorded"): FIVE, fleet: TWO}
        for _ in range(given.rounds):
            for history, strategies in histories.items():
                for engine in ("spark", "local"):
                    options = (
                        "--strategy",
                        strategies,
                        "--engine",
                        engine,
                        "--json",
                        f"{folder}/report.json",
                    )
                    replay = [sys.executable, "-m", "kafka_assignors_cli", "replay", history, *options]
                    runs.setdefault((Path(history).name, engine), []).append(cpu_s_of(replay))
    for (history, engine), taken in runs.items():
        print(f"{history}, {engine}: {statistics.median(taken):.1f}")


if __name__ == "__main__":
    main()
