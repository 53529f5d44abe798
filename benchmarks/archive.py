"""The CPU time of `archive --once`, for a topic of a given number of offsets.

    python -m benchmarks.archive
    python -m benchmarks.archive --offsets 400000 --group-records 0.1

The benchmark fills `__consumer_offsets` of its own broker with offset commits and, among them, generations of
groups with ten members (`--group-records` is their share; a busy cluster has one in thousands). Then it runs
the command with a new folder, and prints its CPU seconds, the wall time, and the peak memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer

from compat_tests.recording.archive_kills import TOPIC, make_offsets_topic
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors.wire import ConsumerAssignment, Subscription, encode_assignment, encode_subscription
from kafka_assignors_replay.folds.consumer_offsets import (
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
    encode_group_metadata,
    encode_key,
    group_partition,
)

GROUPS = 500
MEMBERS = 10
COMMIT_VALUE = b"\0\3" + bytes(8 + 4 + 2 + 8)
"""A committed offset, version 3: offset, leader epoch, no metadata, timestamp."""

Record = tuple[bytes, bytes]


def _records(group: str) -> tuple[Record, Record]:
    """An offset commit and a generation of a group."""
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
    return commit, (encode_key(GroupMetadataKey(group)), encode_group_metadata(value))


def fill(bootstrap: str, partitions: int, offsets: int, group_records: float) -> int:
    """Write this many records; returns how many of them are generations."""
    # A broker accepts records for its internal topics only from this client id.
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client", "linger.ms": 50})
    groups = [f"group-{number}" for number in range(GROUPS)]
    records = [(group_partition(group, partitions), *_records(group)) for group in groups]
    every, generations = round(1 / group_records), 0
    for number in range(offsets):
        partition, commit, generation = records[number % GROUPS]
        key, value = commit if number % every else generation
        generations += not number % every
        while True:
            try:
                producer.produce(TOPIC, value, key, partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return generations


def archive(bootstrap: str, folder: Path) -> str:
    """Run the command; returns its figures."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "kafka_assignors_cli", "archive", "--once", "--to", str(folder)]
    subprocess.run([*command, "--bootstrap-server", bootstrap], check=True)
    after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - started
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{cpu_s:.1f} CPU s, {wall_s:.1f} s, at most {after.ru_maxrss >> 10} MiB"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The CPU time of archive --once.")
    parser.add_argument("--offsets", type=int, default=400_000)
    parser.add_argument("--group-records", type=float, default=0.1, help="their share (default: 0.1)")
    parser.add_argument("--partitions", type=int, default=50, help="of the offsets topic (default: 50)")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    settings = {"offsets.topic.num.partitions": options.partitions}
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(settings=settings, heap="1g") as kafka:
        make_offsets_topic(kafka)
        generations = fill(kafka.bootstrap, options.partitions, options.offsets, options.group_records)
        for run in range(options.runs):
            place = Path(folder, str(run))
            print(f"{options.offsets} offsets: {archive(kafka.bootstrap, place)}", flush=True)
            rows = pq.read_table(place / "raw", columns=["offset"]).num_rows
            assert rows >= generations, (rows, generations)


if __name__ == "__main__":
    main()
