"""Write the history of a synthetic fleet.

python -m spark_validation.fleet --groups 5000 --generations 1000000 --days 1 --seed 1 OUT
kafka-assignors replay OUT
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from kafka_assignors_cli.console import ProgressReport
from kafka_assignors_replay.result import ReplayError
from kafka_assignors_replay.spark.spark_session import spark_session, task_progress
from spark_validation.fleet.history import write
from spark_validation.fleet.profile import FleetOptions


def giant(text: str) -> tuple[int, int, int]:
    """Parse the argument of `--giant`; argparse reports errors."""
    members, partitions, generations = (int(part) for part in text.split("x"))
    if min(members, partitions, generations) < 1:
        raise ValueError(text)
    return members, partitions, generations


def main() -> int:
    defaults = FleetOptions()
    parser = argparse.ArgumentParser(
        prog="python -m spark_validation.fleet",
        description="Write the history of a synthetic fleet of consumer groups: OUT/raw and "
        "OUT/topics.parquet. The same options always give the same records.",
    )
    parser.add_argument("out", metavar="OUT", help="a new directory")
    parser.add_argument("--groups", type=int, default=defaults.groups)
    parser.add_argument("--generations", type=int, default=defaults.generations, help="of all groups, about")
    parser.add_argument("--days", type=float, default=defaults.days, help="how long the history lasts")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument(
        "--giant",
        metavar="MEMBERSxPARTITIONSxGENERATIONS",
        type=giant,
        help="make the first group one of this size, for example 500x20000x10000",
    )
    parser.add_argument("--master", default="local[*]", help="Spark's")
    given = parser.parse_args()
    options = FleetOptions(
        given.groups,
        given.generations,
        given.days,
        given.seed,
        giant=given.giant,
    )
    if options.groups < 1 or options.generations < 1 or options.duration_ms < 1000:
        parser.error("--groups and --generations are at least 1, --days at least a second")
    if "://" not in given.out and Path(given.out).exists():
        parser.error(f"{given.out} exists: give a new directory")

    started = time.monotonic()
    try:
        with ProgressReport("starting Spark") as progress, spark_session(given.master) as spark:
            with task_progress(spark, lambda done, total: progress.update("writing tasks", done, total)):
                write(spark, options, given.out)
            written = spark.read.parquet(f"{given.out}/raw").count()
    except ReplayError as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 1
    print(
        f"{given.out}: {written:,} records of {options.groups:,} groups, {time.monotonic() - started:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
