"""How long retained partitions pause in a rebalance, printed next to the pause without one (`pytest -s`).

A starting process slows down all others, in any group, so a join of another group is measured separately.
"""

from __future__ import annotations

import collections
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from compat_tests.scenarios.cooperative import CooperativeGroup, owned
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka

pytestmark = pytest.mark.exhaustive

PROGRAM = "compat_tests.aiokafka.cooperative_member"
INTERVAL_S = 0.02


@contextmanager
def steady_records(group: CooperativeGroup) -> Iterator[None]:
    """Write a record to every partition every 20 ms."""
    stopping = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": group.kafka.bootstrap, "linger.ms": 0})
        while not stopping.wait(INTERVAL_S):
            for topic, partitions in group.topics.items():
                for partition in range(partitions):
                    producer.produce(topic, b"a record", partition=partition)
            producer.poll(0)
        producer.flush(HANG_S)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def longest_gaps(
    group: CooperativeGroup, name: str, partitions: set[tuple[str, int]], begin: float, end: float
) -> list[float]:
    """The longest time between two deliveries of each partition, in seconds."""
    times: dict[tuple[str, int], list[float]] = collections.defaultdict(lambda: [begin])
    for report in group.members[name].reports("consumed"):
        partition = (report["topic"], report["partition"])
        if partition in partitions and begin <= report["at"] <= end:
            times[partition].append(report["at"])
    return [
        max(later - earlier for earlier, later in zip(at, [*at[1:], end], strict=True))
        for at in (times[partition] for partition in sorted(partitions))
    ]


def delays(group: CooperativeGroup, name: str, since: float) -> list[float]:
    """The seconds from the revocation of each moved partition to its first record at this member."""
    first: dict[tuple[str, int], float] = {}
    for report in group.members[name].reports("consumed"):
        first.setdefault((report["topic"], report["partition"]), report["at"])
    return [
        first[topic, number] - report["at"]
        for member in group.members.values()
        for report in member.reports("revoked")
        if report["at"] > since
        for topic, numbers in report["partitions"].items()
        for number in numbers
    ]


def test_partitions_that_stay_are_delivered_all_through_a_join(kafka: Kafka) -> None:
    with (
        CooperativeGroup(kafka, PROGRAM, {"orders": 12}) as group,
        CooperativeGroup(kafka, PROGRAM, {"payments": 1}) as another,
    ):
        group.join("a")
        group.join("b")
        before = group.settle()
        with steady_records(group):
            group.wait_for("the first records", lambda: len(group.consumed()) > 240)
            quiet = time.monotonic()
            time.sleep(2)
            elsewhere = time.monotonic()
            another.join("c")
            another.settle()
            begin = time.monotonic()
            group.join("c")
            after = group.settle(after=before)
            end = time.monotonic()
            moved = owned(after, "c")
            group.wait_for(
                "records of what moved",
                lambda: (
                    moved <= {(r["topic"], r["partition"]) for r in group.members["c"].reports("consumed")}
                ),
            )
        stayed = {name: owned(before, name) & owned(after, name) for name in ("a", "b")}
        assert sum(map(len, stayed.values())) == 8
        for what, since, until in (
            ("no event", quiet, elsewhere),
            ("a join of another group", elsewhere, begin),
            ("a join", begin, end),
        ):
            gaps = [gap for name in stayed for gap in longest_gaps(group, name, stayed[name], since, until)]
            print(
                f"{what}: the longest gap of each of {len(gaps)} partitions that stay: "
                f"median {statistics.median(gaps) * 1000:.0f} ms, max {max(gaps) * 1000:.0f} ms "
                f"in {until - since:.1f} s"
            )
        moving = delays(group, "c", begin)
        print(
            f"a join: from revocation to delivery of each of {len(moving)} partitions that move: "
            f"median {statistics.median(moving) * 1000:.0f} ms, max {max(moving) * 1000:.0f} ms"
        )
        assert not any(group.reported(name, "revoked") & stayed[name] for name in stayed)
