"""The comparison on a real broker at small scale, with the same number of consumers for each strategy.

    python -m benchmarks.autoscaling.broker              # ten minutes; needs what `make test` needs
    python -m benchmarks.autoscaling.broker --small      # a minute: does it run?

The stream is one of the papers, slowed down: 12 partitions, a `delta` of 20, twelve measurements 15 seconds
apart, C at 25 records a second and a consumer that carries 33 (`member`). A record contains the time at which
it was made; its lateness is the time until the member has processed it.

At each measurement the driver writes the speeds into the file of weights and counts the fewest consumers for
loads within C. It starts consumers, or asks some to leave: under `weighted` the least loaded ones, under
`cooperative-sticky` the last that joined. Then one member joins again, so that the leader reads the weights.
Both strategies have the same number of consumers at each measurement. After the last one the group runs until
every record is processed.

The exit code is 0, or 1 if a record was missing or processed twice.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.autoscaling.ours import fewest
from benchmarks.autoscaling.traces import CAPACITY, CONSUMER_CAPACITY, Trace, random_walk
from benchmarks.pause.figures import percentile
from benchmarks.pause.group import Group, GroupError, Settings
from benchmarks.pause.journal import Kind
from benchmarks.pause.members.spec import MemberSpec
from benchmarks.pause.peers import Peer
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster

UNIT = 0.25
"""Records a second for a hundredth of C."""

_DRAINED_WITHIN_S = 600.0
_SETTLED_WITHIN_S = 120.0
_REST_S = 6.0
_TICK_S = 0.01


@dataclass(frozen=True, slots=True)
class Paced(Peer):
    """Members of `benchmarks.autoscaling.member`; `weighted` has the program's last arguments."""

    weighted: tuple[str, ...] = ()

    def command(self, spec: MemberSpec, python: str = sys.executable) -> list[str]:
        rate = str(CONSUMER_CAPACITY * UNIT)
        return [python, "-m", "benchmarks.autoscaling.member", spec.to_json(), rate, *self.weighted]


class Writing:
    """A thread that writes to each partition at its speed. `count` is the number of records written."""

    def __init__(self, kafka: Kafka, topic: str, speeds: Sequence[int]) -> None:
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, "acks": 1})
        self._topic = topic
        self.speeds = speeds
        self.count = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _write(self) -> None:
        # Random starts, so that the partitions do not all get their records at the same moment.
        rng = random.Random(0)
        owed = [rng.random() for _ in self.speeds]
        before_s = time.monotonic()
        while not self._ending.wait(_TICK_S):
            now_s = time.monotonic()
            for partition, speed in enumerate(self.speeds):
                owed[partition] += speed * UNIT * (now_s - before_s)
                while owed[partition] >= 1:
                    owed[partition] -= 1
                    value = time.monotonic_ns().to_bytes(8, "little")
                    self._producer.produce(self._topic, value, partition=partition)
                    self.count += 1
            before_s = now_s
            self._producer.poll(0)
        self._producer.flush(30)


@dataclass(slots=True)
class Measured:
    """The figures of one group; `late_ms` has the lateness of each record."""

    consumers: list[int] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)
    moved: int = 0
    twice: int = 0
    missing: int = 0


def measure(
    kafka: Kafka,
    peer: Peer,
    trace: Trace,
    interval_s: float,
    weights: Path,
    leaving: Callable[[Group, Sequence[int]], str],
) -> Measured:
    """Run one group through the trace. `weights` is a file, `leaving` picks the member that leaves."""
    counts = [fewest(speeds) for speeds in trace.speeds]
    names = [f"m{number:02}" for number in range(_starts(counts))]
    settings = Settings(
        partitions=len(trace.speeds[0]),
        interval_ms=1000,
        fetch_wait_ms=50,
        session_timeout_ms=30_000,
        max_poll_interval_ms=60_000,
    )
    found = Measured(consumers=counts)
    with Group(kafka, peer, settings) as group:
        _weigh(weights, group.topic, trace.speeds[0])
        group.stand_by(names)
        fresh = iter(names)
        for _ in range(counts[0]):
            group.join(next(fresh))
        _rest(group, settings.partitions)
        began_ns = time.monotonic_ns()
        with Writing(kafka, group.topic, trace.speeds[0]) as writing:
            for speeds, count in zip(trace.speeds, counts, strict=True):
                _weigh(weights, group.topic, speeds)
                writing.speeds = speeds
                while len(group.live) > count:
                    group.ask_to_leave(leaving(group, speeds))
                while len(group.live) < count:
                    group.join(next(fresh))
                group.signal(group.live[0], signal.SIGUSR1)
                time.sleep(interval_s)
                group.check()
        _wait(group, lambda: delivered(group) >= writing.count, _DRAINED_WITHIN_S)
        _count(group, began_ns, writing.count, found)
    return found


def _weigh(file: Path, topic: str, speeds: Sequence[int]) -> None:
    """Publish the speeds atomically: a reader finds either the old or the new ones."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"format": 1, "topics": {topic: list(speeds)}}))
    new.replace(file)


def _rest(group: Group, partitions: int) -> None:
    """Wait until every partition has had the same owner for a while."""
    before: list[set[int]] = []
    since_s = time.monotonic()

    def rests() -> bool:
        nonlocal before, since_s
        now = [owned(group, name) for name in group.live]
        if now != before or sum(map(len, now)) != partitions:
            before, since_s = now, time.monotonic()
        return time.monotonic() - since_s > _REST_S

    _wait(group, rests, _SETTLED_WITHIN_S)


def _starts(counts: Sequence[int]) -> int:
    """The number of processes that join in total."""
    grown = sum(max(0, after - before) for before, after in pairwise(counts))
    return counts[0] + grown


def _wait(group: Group, until: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        if time.monotonic() > deadline:
            raise GroupError(f"group {group.id} has not come so far in {seconds:g} s:\n{group.log('m00')}")
        group.check()
        time.sleep(0.5)


def owned(group: Group, name: str) -> set[int]:
    """The partitions of a member, according to its journal."""
    group.read()
    partitions: set[int] = set()
    for row in group.rows[name]:
        if row.kind == Kind.ASSIGNED:
            partitions.add(row.partition)
        elif row.kind == Kind.REVOKED:
            partitions.discard(row.partition)
    return partitions


def delivered(group: Group) -> int:
    """The number of deliveries; a record that is processed twice counts twice."""
    group.read()
    return sum(row.kind == Kind.DELIVERED for rows in group.rows.values() for row in rows)


def _count(group: Group, began_ns: int, written: int, found: Measured) -> None:
    seen: set[tuple[int, int]] = set()
    for rows in group.rows.values():
        for row in rows:
            if row.kind == Kind.DELIVERED:
                found.twice += (row.partition, row.offset) in seen
                seen.add((row.partition, row.offset))
                if row.produced_ns >= began_ns:
                    found.late_ms.append((row.at_ns - row.produced_ns) / 1e6)
            elif row.kind == Kind.REVOKED and row.at_ns >= began_ns:
                found.moved += 1
    found.missing = written - len(seen)


def least_loaded(group: Group, speeds: Sequence[int]) -> str:
    return min(group.live, key=lambda name: (sum(speeds[each] for each in owned(group, name)), name))


def last_come(group: Group, _: Sequence[int]) -> str:
    return group.live[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A real group that is scaled by what is written.")
    parser.add_argument("--small", action="store_true", help="four partitions, three measurements")
    options = parser.parse_args(arguments)
    small, interval_s = options.small, 5.0 if options.small else 15.0
    trace = random_walk(
        "broker", partitions=4 if small else 12, measurements=3 if small else 12, delta=20, start=None, seed=2
    )
    wrong = 0
    with KafkaCluster() as kafka, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "weights.json"
        print("| strategy | consumers | records | p50, s | p99, s | moved | twice | missing |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
        for name, weighted, leaving in (
            ("`weighted` within C", (str(file), str(CAPACITY)), least_loaded),
            ("`weighted` within 1.33 C", (str(file), str(CONSUMER_CAPACITY)), least_loaded),
            ("`cooperative-sticky`", (), last_come),
        ):
            peer = Paced("aiokafka", "", name, weighted=weighted)
            found = measure(kafka, peer, trace, interval_s, file, leaving)
            print(_line(name, found), flush=True)
            wrong += found.twice + found.missing
    return 1 if wrong else 0


def _line(name: str, found: Measured) -> str:
    cells = (
        name,
        f"{statistics.mean(found.consumers):.1f}",
        len(found.late_ms),
        f"{percentile(found.late_ms, 0.5) / 1000:.2f}",
        f"{percentile(found.late_ms, 0.99) / 1000:.2f}",
        found.moved,
        found.twice,
        found.missing,
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
