"""An archiver that is killed again and again while its topic grows, and a check of its archive afterwards.

    python -m compat_tests.recording.archive_kills --kills 40 --seed 1

The broker's offsets topic constantly gets records of groups and offset commits. The archiver is the real
command. It is killed (SIGKILL) at each of `MOMENTS` in turn, which are states of the archive's folder, and
started again. At the end it runs until it finishes, and the archive is compared, record for record, with what
a plain consumer reads from the topic.

A moment lasts less than a millisecond. So the archiver is stopped (SIGSTOP) again and again, and the folder
is looked at while nothing changes in it. If it is not the moment, the archiver continues for a short time.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from compat_tests.support.group_records import encode_key
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster
from compat_tests.support.processes import Processes
from kafka_assignors_replay.history.consumer_offsets import GroupMetadataKey, OffsetCommitKey, group_partition
from spark_validation.recording.offsets_topic import read_group_records

__all__ = [
    "MOMENTS",
    "TOPIC",
    "OffsetsTraffic",
    "Outcome",
    "archive_command",
    "archive_under_kills",
    "differences",
    "family",
    "make_offsets_topic",
    "read_archive",
]

TOPIC = "__consumer_offsets"
_START_TIMEOUT_S = 600.0
_SLICE_S = 0.0002
"""How long the archiver runs between two looks: less than it takes to write a file."""

_KINDS = "commit", "commit", "commit", "generation", "tombstone"
_MOST_STARTS = 20
_SMALL_BATCHES = "--interval", "0", "--max-offsets", "100"
"""One batch follows the other without a pause, so that the archiver is hardly ever between two batches."""

Row = tuple[int, int, int, bytes, "bytes | None"]


@dataclass(frozen=True, slots=True)
class Moment:
    """A state of an archive's folder that this run of the archiver has caused.

    In the pattern, `done` is the number of batches in the archive.

    Attributes:
        name: what has happened, and what has not.
        there: a file or folder that this run has made.
        absent: files that do not exist yet.
    """

    name: str
    there: str
    absent: tuple[str, ...] = ()

    def holds(self, archive: Path, before: Mapping[Path, int]) -> bool:
        """Whether the archive is in this state; `before` are the files at the start of the archiver."""
        done = _batches(archive)
        there, *absent = (pattern.format(done=done) for pattern in (self.there, *self.absent))
        made = (path for path in archive.glob(there) if before.get(path) != _changed(path))
        return any(made) and not any(next(archive.glob(pattern), None) for pattern in absent)


_BATCH = "raw/date=*/[0-9]*.parquet"
_BEGUN = Moment("the archive is begun", "archive.json")
MOMENTS = (
    Moment("a file of a batch is being written", "raw/date=*/.[0-9]*.parquet"),
    Moment("a file of a batch has its name", "raw/date=*/{done:010d}-*.parquet", ("raw/date=*/.*",)),
)
"""States of a batch, not in the order of time, so that one batch is killed more than once."""


class OffsetsTraffic:
    """A thread that writes group records and offset commits into the offsets topic until it is closed.

    A broker accepts records for its internal topics only from this client id, that of its own tools.
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
        """Write `records` records at once."""
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
    """Make the broker create the topic by looking up the coordinator of a group."""
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
    """The kills, and the comparison of the archive with the topic.

    Attributes:
        kills: number of kills, by the name of their moment.
        batches: that the archiver needed.
        records: group records in the topic.
        missing, doubled, foreign: records that the archive lacks, has more than once, or should not have.
    """

    kills: Mapping[str, int]
    batches: int
    records: int
    missing: int
    doubled: int
    foreign: int

    @property
    def exact(self) -> bool:
        return not self.missing and not self.doubled and not self.foreign


def archive_under_kills(kafka: Kafka, archive: Path, log: Path, kills: int, seed: int) -> Outcome:
    """Kill the archiver `kills` times: when it has begun the archive, and then at `MOMENTS`, one by one.

    Before each kill at one of `MOMENTS` the archiver completes up to two batches, at random.
    """
    spared = random.Random(seed)
    moments = [_BEGUN, *itertools.islice(itertools.cycle(MOMENTS), kills - 1)]
    with Processes() as processes, OffsetsTraffic(kafka.bootstrap, _partitions(kafka), seed):
        command = archive_command(kafka, archive, *_SMALL_BATCHES)
        for moment in moments:
            least = _batches(archive) + (0 if moment is _BEGUN else spared.randrange(3))
            starts = range(_MOST_STARTS)
            if not any(_killed(processes, command, archive, log, moment, least) for _ in starts):
                raise RuntimeError(f"no kill of {_MOST_STARTS} is at the moment when {moment.name}")
    _finish(archive_command(kafka, archive, "--once"), log)
    expected = Counter(read_group_records(kafka.bootstrap).rows)
    missing, doubled, foreign = differences(expected, Counter(read_archive(archive)))
    names = Counter(moment.name for moment in moments)
    return Outcome(names, _batches(archive), sum(expected.values()), missing, doubled, foreign)


def _finish(command: Sequence[str], log: Path) -> None:
    with Processes() as processes:
        if processes.start(command, log).wait(_START_TIMEOUT_S):
            raise RuntimeError(f"the last run fails:\n{log.read_text(errors='replace')[-2000:]}")


def read_archive(archive: Path) -> Iterator[Row]:
    """The records in an archive, in any order."""
    for row in pq.read_table(archive / "raw").to_pylist():
        micros = round(row["timestamp"].timestamp() * 1000) * 1000
        yield row["partition"], row["offset"], micros, row["key"], row["value"]


def differences(expected: Counter[Row], found: Counter[Row]) -> tuple[int, int, int]:
    """The numbers of missing, doubled and foreign records."""
    missing = sum((expected - found).values())
    doubled = sum(count - 1 for row, count in found.items() if row in expected)
    foreign = sum(count for row, count in found.items() if row not in expected)
    return missing, doubled, foreign


def _partitions(kafka: Kafka) -> int:
    return kafka.describe_topics([TOPIC])[0].partitions


def archive_command(kafka: Kafka, archive: Path, *options: str) -> list[str]:
    """The command line of an archiver; `options` take precedence over the defaults here."""
    where = ["--bootstrap-server", kafka.bootstrap, "--to", str(archive), "--timeout", "60"]
    return [sys.executable, "-m", "kafka_assignors_cli", "archive", *where, *options]


def _batches(archive: Path) -> int:
    return max((int(file.stem.partition("-")[0]) for file in archive.glob(_BATCH)), default=0)


def _killed(
    processes: Processes, command: Sequence[str], archive: Path, log: Path, at: Moment, least: int
) -> bool:
    """Start an archiver, and kill it at a moment, once it has at least `least` batches.

    Returns False if the moment had passed when the kill took effect.
    """
    before = {path: _changed(path) for path in archive.rglob("*")}
    archiver, deadline = processes.start(command, log), time.monotonic() + _START_TIMEOUT_S

    def now() -> bool:
        with suppress(FileNotFoundError):  # The archiver has removed a folder while it was read.
            return _batches(archive) >= least and at.holds(archive, before)
        return False

    while True:
        ended = archiver.poll() is not None
        if ended or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"it is never so that {at.name}:\n{said}")
        archiver.send_signal(signal.SIGSTOP)
        if now():
            archiver.kill()
            processes.stop(archiver)
            return now()
        archiver.send_signal(signal.SIGCONT)
        time.sleep(_SLICE_S)


def _changed(path: Path) -> int:
    """The modification time of a file in ns; 0 if it is gone."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def family(pid: int) -> list[int]:
    """The ids of a process and all its descendants."""
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
