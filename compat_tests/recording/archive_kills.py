"""An archiver that is killed again and again while its topic grows, and what its archive is worth afterwards.

    python -m compat_tests.recording.archive_kills --kills 40 --seed 1

A broker of our own holds the offsets topic, into which records of groups and offset commits go all the time.
The archiver is the command, in processes of its own: Python, the JVM, Spark's Python workers. At a random
moment all of them are killed (SIGKILL), and it is started again. In the end it may finish, and the archive is
compared, record for record, with what a plain consumer reads from the topic. The archive is read with pyarrow
and not with Spark, as any other tool would read it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from compat_tests.support.kafka_cluster import Kafka, KafkaCluster
from compat_tests.support.processes import Processes
from kafka_assignors.wire import GroupMetadataKey, OffsetCommitKey, encode_key, group_partition
from spark_validation.recording.offsets_topic import read_group_records

__all__ = [
    "TOPIC",
    "OffsetsTraffic",
    "Outcome",
    "archive_command",
    "archive_under_kills",
    "differences",
    "family",
    "make_offsets_topic",
    "read_archive",
    "writes_a_batch",
]

TOPIC = "__consumer_offsets"
_START_TIMEOUT_S = 600.0
_KINDS = "commit", "commit", "commit", "generation", "tombstone"
_SMALL_BATCHES = "--interval", "0", "--max-offsets", "100"
"""One batch after the other, so that hardly a moment is between two."""

_WORKER_IS_LATE = "Python worker failed to connect back."
"""Spark gives the worker of a streaming source ten seconds to start, on a busy machine too."""

Row = tuple[int, int, int, bytes, "bytes | None"]


class OffsetsTraffic:
    """Writes group records among offset commits into the offsets topic, from a thread, until it is closed.

    A broker takes records for its internal topics from a client with this id alone: the one of its own tools.
    """

    def __init__(self, bootstrap: str, partitions: int, seed: int, per_second: float = 100.0) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client"})
        self._partitions, self._random, self._per_second = partitions, random.Random(seed), per_second
        self._errors: list[KafkaError] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offsets-traffic", daemon=True)

    def __enter__(self) -> OffsetsTraffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        if self._errors:
            raise RuntimeError(f"the broker did not take a record: {self._errors[0].str()}")

    def write(self, records: int) -> None:
        """So many records at once."""
        for number in range(records):
            group = f"group-{self._random.randrange(50)}"
            kind = self._random.choice(_KINDS)
            commit = OffsetCommitKey(group, "orders", number % 8)
            key = encode_key(commit if kind == "commit" else GroupMetadataKey(group))
            value = None if kind == "tombstone" else self._random.randbytes(self._random.randrange(20, 200))
            partition = group_partition(group, self._partitions)
            self._producer.produce(TOPIC, value, key, partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush()

    def _run(self) -> None:
        while not self._end.is_set():
            self.write(self._random.randrange(1, int(self._per_second / 2)))
            self._end.wait(0.25)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._errors.append(error)


def make_offsets_topic(kafka: Kafka) -> None:
    """Brokers make the topic when a client looks for the coordinator of a group for the first time."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "first", "log_level": 0})
    deadline = time.monotonic() + _START_TIMEOUT_S
    try:
        while True:
            try:
                consumer.committed([TopicPartition("orders", 0)], timeout=10.0)
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
    finally:
        consumer.close()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Attributes:
    batches: that the archiver needed.
    caught: kills that left a batch half written behind.
    records: group records in the topic.
    missing, doubled, foreign: records that the archive has not, has more than once, has and should not.
    """

    kills: int
    caught: int
    batches: int
    records: int
    missing: int
    doubled: int
    foreign: int

    @property
    def exact(self) -> bool:
        return not self.missing and not self.doubled and not self.foreign


def archive_under_kills(
    kafka: Kafka, archive: Path, log: Path, kills: int, seed: int, wait_s: float = 3.0
) -> Outcome:
    """Kill the archiver so many times, each at most `wait_s` seconds after it has begun to write."""
    moments = random.Random(seed)
    caught = 0
    with Processes() as processes, OffsetsTraffic(kafka.bootstrap, _partitions(kafka), seed):
        for number in range(kills):
            archiver = processes.start(archive_command(kafka, archive, *_SMALL_BATCHES), log)
            # Some do not get as far as their first batch: what they begin with is killed, too.
            while number % 4 != 3 and not writes_a_batch(archive, archiver, log):
                archiver = processes.start(archive_command(kafka, archive, *_SMALL_BATCHES), log)
            time.sleep(moments.uniform(0, wait_s))
            _kill_family(archiver)
            processes.stop(archiver)
            caught += any(archive.glob("_archive/staging/*/*"))
    _finish(archive_command(kafka, archive, "--once"), log)
    expected = Counter(read_group_records(kafka.bootstrap).rows)
    missing, doubled, foreign = differences(expected, Counter(read_archive(archive)))
    return Outcome(kills, caught, _batches(archive), sum(expected.values()), missing, doubled, foreign)


def _finish(command: Sequence[str], log: Path) -> None:
    """Run the archiver to its end; again if Spark has given up a worker of its own, as a supervisor would."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    with Processes() as processes:
        while processes.start(command, log).wait(_START_TIMEOUT_S):
            said = log.read_text(errors="replace")[-2000:]
            if not said.rstrip().endswith(_WORKER_IS_LATE) or time.monotonic() > deadline:
                raise RuntimeError(f"the last run fails:\n{said}")


def read_archive(archive: Path) -> Iterator[Row]:
    """The records in an archive, in any order."""
    for row in pq.read_table(archive / "raw").to_pylist():
        micros = round(row["timestamp"].timestamp() * 1000) * 1000
        yield row["partition"], row["offset"], micros, row["key"], row["value"]


def differences(expected: Counter[Row], found: Counter[Row]) -> tuple[int, int, int]:
    """How many records are missing, there more than once, and there although they should not be."""
    missing = sum((expected - found).values())
    doubled = sum(count - 1 for row, count in found.items() if row in expected)
    foreign = sum(count for row, count in found.items() if row not in expected)
    return missing, doubled, foreign


def _partitions(kafka: Kafka) -> int:
    return kafka.describe_topics([TOPIC])[0].partitions


def archive_command(kafka: Kafka, archive: Path, *options: str) -> list[str]:
    """The command line of an archiver; an option given here counts in the place of one of ours."""
    where = ["--bootstrap-server", kafka.bootstrap, "--to", str(archive), "--timeout", "60"]
    return [sys.executable, "-m", "kafka_assignors_cli", "archive", *where, "--master", "local[1]", *options]


def _batches(archive: Path) -> int:
    return max((int(file.stem) for file in archive.glob("_archive/ledger/[0-9]*.json")), default=0)


def writes_a_batch(archive: Path, archiver: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait until this archiver has written, too; False if it has ended because Spark gave up a worker."""
    before, deadline = _batches(archive), time.monotonic() + _START_TIMEOUT_S
    while _batches(archive) == before:
        ended = archiver.poll() is not None
        if ended or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-2000:]
            if ended and said.rstrip().endswith(_WORKER_IS_LATE):
                return False
            raise RuntimeError(f"the archiver writes nothing:\n{said}")
        time.sleep(0.02)
    return True


def _kill_family(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for a process and for all that it has started, directly or not."""
    for pid in family(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def family(pid: int) -> list[int]:
    """The ids of a process and of all that it has started, directly or not."""
    pids = [pid]
    for parent in pids:
        pids += _children(parent)
    return pids


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, file.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Kill the archiver again and again, and check its archive.")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with KafkaCluster() as kafka, tempfile.TemporaryDirectory() as folder:
        make_offsets_topic(kafka)
        outcome = archive_under_kills(
            kafka, Path(folder, "archive"), Path(folder, "log"), options.kills, options.seed
        )
    print(outcome)
    return 0 if outcome.exact else 1


if __name__ == "__main__":
    sys.exit(main())
