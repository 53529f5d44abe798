"""The lag of the archiver behind a busy offsets topic.

    python -m benchmarks.archive
    python -m benchmarks.archive --per-minute 1000000 --minutes 10 --interval 10 --partitions 50

The benchmark writes a fixed number of raw records a minute into `__consumer_offsets` of its own broker,
evenly spread: offset commits, and among them generations of a group with ten members (`--group-records` is
their share; a busy cluster has one in thousands). Keys are of random groups, values are real bytes of the
wire format. Meanwhile the archiver runs continuously on local Spark, as its command does. Producer, broker
and Spark share one machine, so the archiver gets the CPU that the others leave.

Every ten seconds a line shows the records written, the records read, and the lag of the archiver. The
archiver keeps up if the lag stays near the interval; the summary compares the lag in the first and the second
half of the time. At the end the producer stops, the archiver catches up, and its archive is checked against
the number of generations written.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from compat_tests.recording.archive_kills import make_offsets_topic
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors.wire import ConsumerAssignment, Subscription, encode_assignment, encode_subscription
from kafka_assignors_replay.archive import ArchiveOptions, ArchiveProgress
from kafka_assignors_replay.archive.run import run_archive
from kafka_assignors_replay.folds.consumer_offsets import (
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
    encode_group_metadata,
    encode_key,
    group_partition,
)

TOPIC = "__consumer_offsets"
GROUPS = 500
MEMBERS = 10
LINE_SECONDS = 10.0
COMMIT_VALUE = b"\0\3" + bytes(8 + 4 + 2 + 8)
"""A committed offset, version 3: offset, leader epoch, no metadata, timestamp."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of the archiver after this number of seconds."""

    seconds: float
    written: int
    read: int
    lag_offsets: int
    lag_seconds: float


class Load:
    """A thread that writes records at a fixed rate until it is closed."""

    def __init__(self, bootstrap: str, partitions: int, per_minute: int, group_records: float) -> None:
        # A broker accepts records for its internal topics only from this client id.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "__admin_client",
                "linger.ms": 50,
                "compression.type": "none",
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        self._per_second = per_minute / 60
        self._every = round(1 / group_records)
        self._records = [_records(f"group-{number}", partitions) for number in range(GROUPS)]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.written = self.generations = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        while not self._end.is_set():
            due = int((time.monotonic() - started) * self._per_second)
            while self.written < due:
                partition, commit, generation = self._records[self.written % GROUPS]
                key, value = commit
                if self.written % self._every == 0:
                    key, value = generation
                    self.generations += 1
                try:
                    self._producer.produce(TOPIC, value, key, partition=partition)
                except BufferError:
                    self._producer.poll(0.1)
                    continue
                self.written += 1
            self._producer.poll(0)
            self._end.wait(0.02)
        self._producer.flush()


Record = tuple[bytes, bytes]


def _records(group: str, partitions: int) -> tuple[int, Record, Record]:
    """The partition of a group, an offset commit and a generation."""
    commit = encode_key(OffsetCommitKey(group, "orders", 7)), COMMIT_VALUE
    members = tuple(
        GroupMember(
            member_id=f"{group}-{number}-{os.urandom(16).hex()}",
            client_id="benchmark",
            client_host="/127.0.0.1",
            session_timeout_ms=45_000,
            subscription=encode_subscription(Subscription(3, ("orders",), b"", {}, -1)),
            assignment=encode_assignment(ConsumerAssignment(0, {"orders": [number]}, b"")),
            rebalance_timeout_ms=60_000,
            instance_id=None,
        )
        for number in range(MEMBERS)
    )
    value = GroupMetadata(
        version=3,
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=members[0].member_id,
        state_timestamp_ms=0,
        members=members,
    )
    generation = encode_key(GroupMetadataKey(group)), encode_group_metadata(value)
    return group_partition(group, partitions), commit, generation


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the benchmark, and return the figures."""
    settings = {"offsets.topic.num.partitions": options.partitions}
    samples: list[Sample] = []
    with KafkaCluster(settings=settings, heap="1g") as kafka, tempfile.TemporaryDirectory() as folder:
        make_offsets_topic(kafka)
        stop = threading.Event()
        archive = ArchiveOptions(
            str(Path(folder, "archive")),
            kafka.bootstrap,
            interval_seconds=options.interval,
            master=options.master,
            timeout_seconds=60,
        )
        load = Load(kafka.bootstrap, options.partitions, options.per_minute, options.group_records)
        observer = _Observer(load, samples)
        result: list[Any] = []
        archiver = threading.Thread(
            target=lambda: result.append(run_archive(archive, observer, _tell, stop)), name="archiver"
        )
        archiver.start()
        # The clock starts only when Spark runs.
        observer.wait_until_running(archiver)
        observer.begin()
        with load:
            time.sleep(options.minutes * 60)
        caught_up = observer.wait_for(load.written, archiver, timeout_s=options.minutes * 60 + 120)
        stop.set()
        archiver.join()
    archived = result[0].total.records if result else 0
    half = options.minutes * 30
    halves = [
        [sample.lag_seconds for sample in samples if (sample.seconds < half) is first]
        for first in (True, False)
    ]
    return {
        "per_minute_asked": options.per_minute,
        "per_minute_written": round(load.written / options.minutes),
        "partitions": options.partitions,
        "interval_seconds": options.interval,
        "cores": os.cpu_count(),
        "median_lag_seconds_by_half": [
            round(statistics.median(lags), 1) if lags else None for lags in halves
        ],
        "largest_lag_seconds": round(max((sample.lag_seconds for sample in samples), default=0.0), 1),
        "caught_up_seconds_after_the_end": caught_up,
        "generations_written": load.generations,
        "generations_archived": archived,
        "batches": result[0].batches if result else 0,
        "samples": [asdict(sample) for sample in samples],
    }


class _Observer:
    """Turns the archiver's progress into samples and lines; the archiver's thread calls it."""

    def __init__(self, load: Load, samples: list[Sample]) -> None:
        self._load, self._samples = load, samples
        self._started: float | None = None
        self._next_line = 0.0
        self._latest = ArchiveProgress("")

    def __call__(self, step: ArchiveProgress) -> None:
        self._latest = step
        if self._started is None or step.lag_offsets is None:
            return
        seconds = time.monotonic() - self._started
        if seconds < self._next_line:
            return
        self._next_line = seconds + LINE_SECONDS
        sample = Sample(
            round(seconds, 1),
            self._load.written,
            step.counts.offsets,
            step.lag_offsets,
            round(step.lag_seconds, 1),
        )
        self._samples.append(sample)
        _tell(
            f"{sample.seconds:6.0f} s: {sample.written:>10} written, {sample.read:>10} read, "
            f"{sample.lag_offsets:>8} offsets and {sample.lag_seconds:5.1f} s behind"
        )

    def begin(self) -> None:
        self._started = time.monotonic()

    def wait_until_running(self, archiver: threading.Thread) -> None:
        while self._latest.lag_offsets is None and archiver.is_alive():
            time.sleep(0.1)

    def wait_for(self, written: int, archiver: threading.Thread, timeout_s: float) -> float | None:
        """Seconds until the archiver has read all written records; None after the timeout."""
        started = time.monotonic()
        while archiver.is_alive() and time.monotonic() < started + timeout_s:
            if self._latest.counts.offsets >= written:
                return round(time.monotonic() - started, 1)
            time.sleep(0.1)
        return None


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How far the archiver is behind a busy offsets topic.")
    parser.add_argument("--per-minute", type=int, default=1_000_000, help="raw records (default: 1000000)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--interval", type=float, default=10.0, help="of the archiver, in s (default: 10)")
    parser.add_argument("--partitions", type=int, default=50, help="of the topic (default: 50)")
    parser.add_argument(
        "--group-records", type=float, default=0.01, help="share that is no offset commit (default: 0.01)"
    )
    parser.add_argument("--master", default="local[*]", help="Spark's (default: local[*])")
    options = parser.parse_args(arguments)
    result = measure(options)
    print(json.dumps(result, indent=1))
    exact = result["generations_written"] == result["generations_archived"]
    return 0 if exact and result["caught_up_seconds_after_the_end"] is not None else 1


if __name__ == "__main__":
    sys.exit(main())
