"""The disk space of committed offsets in an archive.

    python -m benchmarks.committed_offsets
    python -m benchmarks.committed_offsets --minutes 5 --groups 4 --members 2 --partitions 60

Real members read one topic on a broker that the benchmark starts, and commit every second. Each partition has
its own rate of records. Then the same `__consumer_offsets` is archived without committed offsets, and with
one for each partition every 60, 10 and 1 seconds. The table has the rows and bytes of each archive, and the
CPU time to decode and thin a commit.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer

from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors_replay.archive import ArchiveOptions
from kafka_assignors_replay.archive.run import run_archive
from kafka_assignors_replay.folds.consumer_offsets import (
    OffsetCommit,
    OffsetCommitKey,
    encode_key,
    encode_offset_commit,
)
from kafka_assignors_replay.folds.rates import CommitThinner

TOPIC = "orders"
INTERVALS_S = (None, 60, 10, 1)


@dataclass(frozen=True, slots=True)
class Archived:
    """One archive: commits read and kept, and the bytes of its folders."""

    interval_s: int | None
    commits: int
    kept: int
    committed_bytes: int
    raw_bytes: int


def produce(bootstrap: str, partitions: int, end: threading.Event) -> None:
    """Write records to each partition at its own rate, drawn once, of up to 20 a second."""
    draw = random.Random(1)
    rates = [draw.paretovariate(1.5) for _ in range(partitions)]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    begun, written = time.monotonic(), [0] * partitions
    while not end.wait(0.2):
        passed = time.monotonic() - begun
        for partition, rate in enumerate(rates):
            while written[partition] < int(passed * min(rate, 20.0)):
                producer.produce(TOPIC, b"x", partition=partition)
                written[partition] += 1
        producer.poll(0)
    producer.flush(30)


def consume(bootstrap: str, groups: int, members: int, seconds: float) -> None:
    """Run members that poll and commit automatically every second, until the time is over."""
    consumers = []
    for number in range(groups):
        for _ in range(members):
            settings = {"group.id": f"group-{number}", "auto.commit.interval.ms": 1_000}
            consumers.append(
                Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", **settings})
            )
            consumers[-1].subscribe([TOPIC])
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for consumer in consumers:
            consumer.consume(1_000, timeout=0.02)
    for consumer in consumers:
        consumer.close()


def archived(bootstrap: str, folder: Path, interval_s: int | None) -> Archived:
    options = ArchiveOptions(str(folder), bootstrap, once=True, committed_offsets_s=interval_s)
    result = run_archive(options, lambda _: None, print, threading.Event())
    counts = result.counts
    sizes = [
        sum(file.stat().st_size for file in folder.glob(f"{name}/*/*.parquet"))
        for name in ("committed", "raw")
    ]
    return Archived(interval_s, counts.offset_commits, counts.commits_kept, *sizes)


def thinning_s(commits: int = 100_000) -> float:
    """The CPU time to decode and thin a commit, in seconds."""
    records = [
        (
            encode_key(OffsetCommitKey(f"group-{number % 50}", TOPIC, number % 60)),
            encode_offset_commit(OffsetCommit(3, number, "", number)),
        )
        for number in range(commits)
    ]
    thinner = CommitThinner(60)
    begun = time.process_time()
    for offset, (key, value) in enumerate(records):
        thinner.add(offset, offset * 1_000, key, value)
    thinner.take()
    return (time.process_time() - begun) / commits


def lines(found: Iterable[Archived]) -> Iterable[str]:
    """The table."""
    yield "| an offset every | commits read | kept | `committed/`, KiB | bytes a kept commit | `raw/`, KiB |"
    yield "|---|--:|--:|--:|--:|--:|"
    for each in found:
        every = "– (without)" if each.interval_s is None else f"{each.interval_s} s"
        one = f"{each.committed_bytes / each.kept:.1f}" if each.kept else "–"
        sizes = f"{each.committed_bytes / 1024:.1f} | {one} | {each.raw_bytes / 1024:.1f}"
        yield f"| {every} | {each.commits:,} | {each.kept:,} | {sizes} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=60)
    given = parser.parse_args(arguments)
    with KafkaCluster(brokers=1) as kafka, tempfile.TemporaryDirectory() as folder:
        kafka.create_topic(TOPIC, partitions=given.partitions)
        end = threading.Event()
        producing = threading.Thread(target=produce, args=(kafka.bootstrap, given.partitions, end))
        producing.start()
        try:
            consume(kafka.bootstrap, given.groups, given.members, 60 * given.minutes)
        finally:
            end.set()
            producing.join()
        found = [archived(kafka.bootstrap, Path(folder, str(each)), each) for each in INTERVALS_S]
    print(*lines(found), sep="\n")
    print(f"\nDecoding and thinning a commit: {1e6 * thinning_s():.1f} us of CPU time")


if __name__ == "__main__":
    main()
