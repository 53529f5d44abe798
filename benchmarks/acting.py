"""A real group spreads hot partitions while it consumes: the table in docs/load.md.

    python -m benchmarks.acting                          # four minutes; needs what `make test` needs
    python -m benchmarks.acting --client kafka-python

Four members, each a process with our cooperative consumer, take 8 ms for a record, so each can consume 125
records a second. A producer writes 320 records a second to 16 partitions: at first 20 to each; then 50 to
each of the four partitions of one member, and 10 to each of the others. That member then receives 200 records
a second, while the four members together can consume 500.

The exit code is 0, or 1 if a record was delivered twice or skipped.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Producer

from benchmarks.rolling import PROGRAMS
from compat_tests.scenarios.cooperative import CooperativeGroup, flat, owned
from compat_tests.support.group_of_members import Settled
from compat_tests.support.kafka_cluster import KafkaCluster
from compat_tests.support.member_reports import machine_time

PARTITIONS = 16
MEMBERS = ("a", "b", "c", "d")
RECORD_MS = 8.0
EVEN, HOT, COLD = 20, 50, 10
"""Records a second."""

EVEN_S, SHORT_S, LONG_S = 15.0, 12.0, 60.0
"""How long the load is even, and the two times after that at which the lag is read."""

_TICK_S = 0.05
_ASSIGNORS = {
    "`cooperative-sticky`": "cooperative-sticky",
    "`weighted`": "rates",
    "`weighted` with `LoadTrigger`": "rates:act",
}


class Writer:
    """A thread that writes to each partition of a topic at a rate that can be changed.

    Attributes:
        rates: records a second, by partition.
        written: records written so far, by partition.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.rates = dict.fromkeys(range(PARTITIONS), float(EVEN))
        self.written = Counter[int]()
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _write(self) -> None:
        due = dict.fromkeys(self.rates, 0.0)
        last = machine_time()
        while not self._stopped.wait(_TICK_S):
            now = machine_time()
            for partition, rate in self.rates.items():
                due[partition] += rate * (now - last)
                for _ in range(int(due[partition])):
                    self._producer.produce(self._topic, b"record", partition=partition)
                    self.written[partition] += 1
                due[partition] -= int(due[partition])
            self._producer.poll(0)
            last = now


@dataclass(frozen=True, slots=True)
class Lived:
    """The measurements of one group.

    `before` and `after` are the lags of the members at the two readings, in records. `pauses_s` has the
    longest pause of each partition that changed its owner after the load had become uneven.
    """

    before: Sequence[int]
    after: Sequence[int]
    acted: Sequence[str]
    pauses_s: Mapping[tuple[str, int], float]
    records: int
    twice: int
    skipped: int


@dataclass
class _Deliveries:
    """The time and the member of each delivery, by partition, in the order of the offsets."""

    at: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    by: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    count: Counter[tuple[str, int, int]] = field(default_factory=Counter)

    @classmethod
    def of(cls, group: CooperativeGroup) -> _Deliveries:
        found = cls()
        reports = sorted(
            (report["at"], name, report)
            for name, member in group.members.items()
            for report in member.reports("consumed")
        )
        for at, name, report in reports:
            partition = report["topic"], report["partition"]
            for offset in report["offsets"]:
                found.count[report["topic"], report["partition"], offset] += 1
                found.at.setdefault(partition, []).append(at)
                found.by.setdefault(partition, []).append(name)
        return found

    def pauses_s(self, since: float) -> dict[tuple[str, int], float]:
        """The longest pause of each moved partition: last record of an owner to first record of the next."""
        pauses: dict[tuple[str, int], float] = {}
        for partition, by in self.by.items():
            at = self.at[partition]
            for place in range(1, len(by)):
                if by[place] != by[place - 1] and at[place] >= since:
                    pause = at[place] - at[place - 1]
                    pauses[partition] = max(pauses.get(partition, 0.0), pause)
        return pauses

    def skipped(self) -> int:
        """Records that no member got, though a later record of their partition was delivered."""
        offsets: dict[tuple[str, int], set[int]] = {}
        for topic, number, offset in self.count:
            offsets.setdefault((topic, number), set()).add(offset)
        return sum(max(found) + 1 - len(found) for found in offsets.values())


def live(group: CooperativeGroup, assignor: str) -> Lived:
    """Run a group under one assignor, and measure it."""
    (topic,) = group.topics
    with Writer(group.kafka.bootstrap, topic) as writer:
        for name in MEMBERS:
            group.join(name, [assignor], auto_commit=True, record_ms=RECORD_MS, at_once=10)
        settled = _until_even(group)
        time.sleep(EVEN_S)
        hot = {number for _, number in owned(settled, "b")}
        began_at = machine_time()
        writer.rates = {number: float(HOT if number in hot else COLD) for number in range(PARTITIONS)}
        time.sleep(SHORT_S)
        before = _lags(group, topic, writer)
        time.sleep(LONG_S - SHORT_S)
        after = _lags(group, topic, writer)
    deliveries = _Deliveries.of(group)
    judged = [report for one in group.members.values() for report in one.reports("judged")]
    acted = [report["reason"] for report in judged if report["acts"]]
    return Lived(
        before,
        after,
        acted,
        deliveries.pauses_s(began_at),
        deliveries.count.total(),
        sum(times > 1 for times in deliveries.count.values()),
        deliveries.skipped(),
    )


def _until_even(group: CooperativeGroup) -> Settled:
    def find() -> Settled | None:
        settled = group.settle()
        shares = [len(owned(settled, name)) for name in MEMBERS]
        return settled if set(shares) == {PARTITIONS // len(MEMBERS)} else None

    found: Settled = group.wait_for("members to have the same number of partitions", find)
    return found


def _lags(group: CooperativeGroup, topic: str, writer: Writer) -> list[int]:
    """The records of each member's current partitions that are not delivered yet."""
    delivered = Counter((topic, number) for topic, number, _ in group.consumed())
    written = dict(writer.written)  # Read after the deliveries, so that it includes every delivered record.
    lags = []
    for name in MEMBERS:
        partitions = flat(group.members[name].reports("assigned")[-1]["partitions"])
        lags.append(sum(written[number] - delivered[topic, number] for _, number in partitions))
    return lags


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Hot partitions that are spread while a group consumes.")
    parser.add_argument("--client", choices=PROGRAMS, default="aiokafka")
    options = parser.parse_args(arguments)
    failed = False
    with KafkaCluster() as kafka:
        print(
            f"| strategy | lag of the members after {SHORT_S:g} s | after {LONG_S:g} s "
            "| rebalances asked for | moved | longest pause | records | twice | skipped |\n"
            "|---|---|---|--:|--:|--:|--:|--:|--:|"
        )
        for name, assignor in _ASSIGNORS.items():
            with CooperativeGroup(kafka, PROGRAMS[options.client], {"orders": PARTITIONS}) as group:
                lived = live(group, assignor)
            cells = (
                name,
                _numbers(lived.before),
                _numbers(lived.after),
                len(lived.acted),
                len(lived.pauses_s),
                f"{max(lived.pauses_s.values()):.2f} s" if lived.pauses_s else "–",
                lived.records,
                lived.twice,
                lived.skipped,
            )
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
            for reason in lived.acted:
                print(f"{name}: {reason}", file=sys.stderr, flush=True)
            failed |= bool(lived.twice or lived.skipped)
    return int(failed)


def _numbers(lags: Sequence[int]) -> str:
    return ", ".join(f"{lag:,}" for lag in sorted(lags))


if __name__ == "__main__":
    sys.exit(main())
