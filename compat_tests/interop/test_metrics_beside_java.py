"""The metrics of our consumers compared with those of a Java member in the same group, on a real broker."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from compat_tests.java.member import JavaMember
from compat_tests.scripted.test_kafka_python_metrics import OF_WARM_UPS
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S, stand_by
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.rebalance.events import Partitions
from kafka_assignors.rebalance.observer import RebalanceObserver, RebalanceOutcome
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

GROUP = "consumer-coordinator-metrics"
PARTITIONS = 6
COUNTS = ("join-total", "sync-total", "rebalance-total", "failed-rebalance-total", "assigned-partitions")

_QUIET_S = 1.5
"""Five heartbeat intervals: enough for every member to request another generation."""


class Peer(ABC):
    """One member of the group, which polls all the time."""

    def __init__(self, kafka: Kafka, group: str, topic: str) -> None:
        self.settings = {
            "bootstrap_servers": kafka.bootstrap,
            "group_id": group,
            "heartbeat_interval_ms": 300,
            "session_timeout_ms": 30_000,
            "enable_auto_commit": False,
        }
        self.topic = topic

    @contextmanager
    @abstractmethod
    def running(self) -> Iterator[None]:
        """Run the member during the block; at the end it leaves the group."""

    @abstractmethod
    def metrics(self) -> Mapping[str, Any]:
        """The present metrics of the member, by Java's names."""

    def counts(self) -> dict[str, int]:
        metrics = self.metrics()
        return {name: int(metrics[name]) for name in COUNTS}


@contextmanager
def in_thread(poll: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `poll` in its own thread during the block."""
    stopping = threading.Event()
    thread = threading.Thread(target=poll, args=(stopping,))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(HANG_S)


class Java(Peer):
    @contextmanager
    def running(self) -> Iterator[None]:
        config: dict[str, object] = {"heartbeat.interval.ms": 300, "session.timeout.ms": 30_000}
        with JavaMember(
            self.settings["bootstrap_servers"],  # type: ignore[arg-type]
            self.settings["group_id"],  # type: ignore[arg-type]
            [self.topic],
            config=config,
            assignors="cooperative-sticky",
        ) as self._member:
            yield

    def metrics(self) -> Mapping[str, Any]:
        return self._member.metrics()


class KafkaPython(Peer):
    @contextmanager
    def running(self) -> Iterator[None]:
        consumer = self._consumer = CooperativeKafkaConsumer(self.topic, **self.settings)  # type: ignore[arg-type]

        def poll(stopping: threading.Event) -> None:
            while not stopping.is_set():
                consumer.poll(timeout_ms=100)
            consumer.close()

        with in_thread(poll):
            yield

    def metrics(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._consumer.metrics()[GROUP]
        return found

    def names(self) -> set[str]:
        """The names of all metrics, also of those that have no value yet."""
        return {metric.name for metric in self._consumer.metrics(raw=True) if metric.group == GROUP}


class Counting(RebalanceObserver):
    """Counts events under Java's names."""

    def __init__(self) -> None:
        self.values: Counter[str] = Counter()

    def joined(self, **_: Any) -> None:
        self.values["join-total"] += 1

    def synced(self, **_: Any) -> None:
        self.values["sync-total"] += 1

    def rebalance_ended(self, *, outcome: RebalanceOutcome, **_: Any) -> None:
        succeeded = outcome is RebalanceOutcome.ASSIGNED
        self.values["rebalance-total" if succeeded else "failed-rebalance-total"] += 1

    def assigned(self, *, partitions: Partitions, **_: Any) -> None:
        self.values["assigned-partitions"] += len(partitions)

    def revoked(self, *, partitions: Partitions, **_: Any) -> None:
        self.values["assigned-partitions"] -= len(partitions)

    lost = revoked


class Aiokafka(Peer):
    @contextmanager
    def running(self) -> Iterator[None]:
        self._counting = Counting()

        async def poll(stopping: threading.Event) -> None:
            consumer = CooperativeAIOKafkaConsumer(
                self.topic,
                observer=self._counting,
                **self.settings,  # type: ignore[arg-type]
            )
            async with consumer:
                while not stopping.is_set():
                    await consumer.getmany(timeout_ms=100)

        with in_thread(lambda stopping: asyncio.run(poll(stopping))):
            yield

    def metrics(self) -> Mapping[str, Any]:
        return self._counting.values


OURS = (Aiokafka, KafkaPython)


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def settle(*shares: tuple[Peer, int]) -> None:
    """Wait until these members have these numbers of partitions, and no member joins any more."""
    wait_for("the shares", lambda: all(peer.counts()["assigned-partitions"] == most for peer, most in shares))

    def all_counts() -> list[dict[str, int]]:
        return [peer.counts() for peer, _ in shares]

    before: list[dict[str, int]] = []
    while before != (now := all_counts()):
        before = now
        stand_by(_QUIET_S)


def since(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in COUNTS}


@pytest.fixture
def group(kafka: Kafka) -> Iterator[GroupOfMembers]:
    with GroupOfMembers(kafka, "metrics", {"orders": PARTITIONS}) as made:
        yield made


@pytest.mark.parametrize(
    ("first", "second"),
    [(Java, Aiokafka), (Java, KafkaPython), (Aiokafka, Java), (KafkaPython, Java)],
    ids=lambda kind: kind.__name__.lower(),
)
def test_members_count_what_a_java_member_of_the_same_group_counts(
    kafka: Kafka,
    group: GroupOfMembers,
    first: type[Peer],
    second: type[Peer],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (topic,) = group.topics
    one, two = first(kafka, group.id, topic), second(kafka, group.id, topic)
    with ExitStack() as stack:
        stack.enter_context(one.running())
        settle((one, PARTITIONS))
        alone = one.counts()
        # The first attempt only brings the member id; others fail while a new coordinator loads its groups.
        assert {**alone, "failed-rebalance-total": 1} == dict(
            zip(COUNTS, (1, 1, 1, 1, PARTITIONS), strict=True)
        )
        assert alone["failed-rebalance-total"] >= 1
        with two.running():
            settle((one, 3), (two, 3))
            of_first, of_second = since(alone, one.counts()), two.counts()
            together = one.counts()
        settle((one, PARTITIONS))
        left = since(together, one.counts())
    with capsys.disabled():
        print()
        for label, counts in (("alone", alone), ("joined by", of_first), ("left by", left)):
            print(f"{first.__name__:12} {label:10} {counts}")
        print(f"{second.__name__:12} {'joins':10} {of_second}")
    # Both were members of each generation from the second on; the new member also had to get its member id.
    assert of_first["join-total"] == of_second["join-total"] >= 2
    assert attempts(of_first) == attempts(of_second) - 1
    for counts in (of_first, of_second):
        assert counts["rebalance-total"] == counts["sync-total"] >= 1
    # If a SyncGroup meets the next rebalance, the member counts a failed rebalance instead of a good one.
    assert of_first["failed-rebalance-total"] == attempts(of_first) - of_first["rebalance-total"]
    assert left == dict(zip(COUNTS, (1, 1, 1, 0, 3), strict=True))


def attempts(counts: Mapping[str, int]) -> int:
    return counts["rebalance-total"] + counts["failed-rebalance-total"]


def test_every_metric_of_javas_coordinator_has_its_name_in_kafka_pythons_registry(
    kafka: Kafka, group: GroupOfMembers
) -> None:
    (topic,) = group.topics
    java, ours = Java(kafka, group.id, topic), KafkaPython(kafka, group.id, topic)
    with java.running(), ours.running():
        settle((java, 3), (ours, 3))
        assert ours.names() - OF_WARM_UPS == java.metrics().keys()
