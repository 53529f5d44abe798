"""Replay a history by spark-submit on a master and two workers, and compare it with a local replay.

python -m spark_validation.standalone spark_validation/recorded
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from kafka_assignors_replay.schemas import TABLES
from spark_validation.standalone.comparison import compare


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m spark_validation.standalone",
        description="Replay HISTORY by spark-submit on a standalone cluster of two workers on loopback, with "
        "nothing of ours on it but the wheel, and compare its tables with those of a local replay. "
        "Exit code 1 if they differ.",
    )
    parser.add_argument("history", metavar="HISTORY", help="as for kafka-assignors replay")
    parser.add_argument("--strategy", metavar="NAME,…", default="range,cooperative-sticky")
    parser.add_argument(
        "--kill-a-worker", action="store_true", help="kill one worker while groups are folded"
    )
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=1800.0)
    given = parser.parse_args()
    history = given.history if "://" in given.history else str(Path(given.history).resolve())

    started = time.monotonic()

    def note(words: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {words}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        compared = compare(
            history, given.strategy, Path(folder), given.timeout, note, kill_a_worker=given.kill_a_worker
        )
    note("done")
    print(compared.printed)
    if given.kill_a_worker:
        print(f"{compared.tasks_run_again} tasks ran again: their work was lost with the worker")
    print(f"| table | rows by spark-submit on {compared.workers} workers | rows here | |")
    print("|---|---:|---:|---|")
    for name in TABLES:
        verdict = "differs" if name in compared.differing else "the same"
        print(f"| `{name}` | {len(compared.there[name]):,} | {len(compared.here[name]):,} | {verdict} |")
    return 1 if compared.differing else 0


if __name__ == "__main__":
    sys.exit(main())
