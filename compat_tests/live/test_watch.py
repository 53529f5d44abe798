"""`kafka-assignors watch` with groups that join, rebalance and die on a real broker."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster
from compat_tests.support.secured_cluster import Right, SecuredCluster
from compat_tests.support.watch_process import WatchProcess
from kafka_assignors_ops.watch.watcher import RecordReader, Watcher, WatchOptions

MEMBER = "compat_tests.support.librdkafka_member"
OFFSETS = "__consumer_offsets"


@pytest.fixture(autouse=True, scope="module")
def offsets_topic(kafka: Kafka) -> None:
    """Create the offsets topic, which exists only after the first group; the tests need it from the start."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "first"})
    deadline = time.monotonic() + HANG_S
    with closing(consumer):
        while True:
            try:
                consumer.committed([TopicPartition("none", 0)], timeout=HANG_S)
                return
            except KafkaException:  # While the topic is being created, its partitions have no coordinator.
                assert time.monotonic() < deadline
                time.sleep(0.2)


@pytest.fixture
def group(kafka: Kafka) -> Iterator[GroupOfMembers]:
    with GroupOfMembers(kafka, MEMBER, {"orders": 6}) as group:
        yield group


def test_a_group_that_joins_rebalances_and_dies_is_seen(group: GroupOfMembers) -> None:
    name, assignors = group.id, ["cooperative-sticky"]
    with WatchProcess("--bootstrap-server", group.kafka.bootstrap, "--matching", name) as watch:
        watch.wait_for("catching up", lambda: watch.watch("caught_up") == 1)
        group.start("one", assignors)
        watch.wait_for("a member", lambda: watch.group(name).get("members") == 1)
        group.start("two", assignors, session_timeout_ms=8000)
        watch.wait_for(
            "two members with three partitions each",
            lambda: (watch.group(name).get("members"), watch.group(name).get("imbalance_ratio")) == (2, 1),
        )
        seen = watch.group(name)
        assert seen["assigned_partitions"] == 6
        assert (seen["state stable"], seen["idle_members"]) == (1, 0)
        assert seen["generation_causes_total join"] == 2
        assert seen["moved_partitions_total"] == seen["least_moved_partitions_total"] == 3
        assert seen["rebalances_total"] == 2
        # A group begins with an empty generation, and the second rebalance takes two generations.
        assert seen["generation_causes_total created"] == 1
        assert seen["generations_total"] == 4
        group.kill("two")
        watch.wait_for("the departure", lambda: watch.group(name)["generation_causes_total departure"] == 1)
        watch.wait_for("one member", lambda: watch.group(name)["members"] == 1)
        group.stop("one")
        watch.wait_for("no member", lambda: watch.group(name).get("members") == 0)
        group.kafka.delete_group(name)  # A clean-up of the broker may come first.
        watch.wait_for("the end of the group", lambda: watch.group(name).get("state dead") == 1)
        assert watch.end() == 0
        assert watch.said("ended: 1 group, ") == 1


def test_a_broker_that_is_away_is_waited_for_and_so_is_one_that_goes() -> None:
    with KafkaCluster() as cluster:
        group = f"g-{uuid.uuid4().hex}"
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
        with closing(consumer):
            cluster.create_topic("orders", 2)
            consumer.subscribe(["orders"])
            with WatchProcess("--bootstrap-server", cluster.bootstrap, "--timeout", "2") as watch:
                watch.wait_for("catching up", lambda: watch.watch("caught_up") == 1)

                def joined() -> bool:
                    consumer.poll(0.1)
                    return watch.group(group).get("assigned_partitions") == 2

                watch.wait_for("the group", joined)
                cluster.stop(1)
                watch.wait_for("its absence", lambda: watch.watch("up") == 0)
                assert "group" in watch.scrape()  # The counts are still shown.
                with WatchProcess("--bootstrap-server", cluster.bootstrap, "--timeout", "2") as early:
                    early.wait_for("a word", lambda: early.said("trying again until it succeeds") > 0)
                    early.wait_for("a second attempt", lambda: (early.watch("read_errors_total") or 0) > 1)
                    assert early.said("trying again") == 1
                    assert (early.watch("up"), early.watch("caught_up")) == (0, 0)
                    cluster.start(1)
                    early.wait_for("the broker", lambda: early.watch("caught_up") == 1)
                    early.wait_for("the group", lambda: group in early.scrape())
                watch.wait_for("its return", lambda: watch.watch("up") == 1)
                assert watch.said("again") > 0


def test_a_broker_that_goes_is_noticed_though_librdkafka_does_not_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It tells once, and a record that came before may follow, after which all seems well."""
    monkeypatch.setattr(RecordReader, "_hear", lambda self, error: None)
    with KafkaCluster() as cluster:
        cluster.create_topic(OFFSETS, 1)
        said: list[str] = []
        watch = Watcher(WatchOptions(cluster.bootstrap, timeout_s=2, look_s=0.2), said.append)
        stop = threading.Event()
        running = threading.Thread(target=watch.run, args=(stop,))
        running.start()
        try:
            wait_until(lambda: watch.status().up, said)
            cluster.stop(1)
            wait_until(lambda: not watch.status().up, said)
            cluster.start(1)
            wait_until(lambda: watch.status().up, said)
        finally:
            stop.set()
            running.join(HANG_S)


@pytest.fixture(scope="module")
def billing() -> Iterator[SecuredCluster]:
    """A cluster with ACLs, in which the group "billing" owns both partitions of "orders"."""
    with SecuredCluster() as secured:
        secured.cluster.create_topic("orders", 2)
        consumer = Consumer({"bootstrap.servers": secured.cluster.bootstrap, "group.id": "billing"})
        with closing(consumer):
            consumer.subscribe(["orders"])
            while not consumer.assignment():
                consumer.poll(0.2)
            yield secured


def test_a_missing_right_is_named_once_and_all_is_well_when_it_is_given(billing: SecuredCluster) -> None:
    read = Right("Read", "Topic", OFFSETS)
    who = billing.principal(Right("Describe", "Topic", "orders"))
    with WatchProcess(*who.options) as watch:
        watch.wait_for("the missing right", lambda: watch.said(str(read)) > 0)
        watch.wait_for("more attempts", lambda: (watch.watch("read_errors_total") or 0) >= 3)
        assert watch.watch("up") == 0
        billing.allow(who, read)
        watch.wait_for("the group", lambda: watch.group("billing").get("assigned_partitions") == 2)
        assert watch.said(str(read)) == 1
        counted_before = watch.group("billing")["generations_total"]
        billing.take_away(who, read)
        watch.wait_for("the second loss", lambda: watch.said(str(read)) == 2)
        watch.wait_for("more attempts", lambda: (watch.watch("read_errors_total") or 0) >= 6)
        assert watch.watch("up") == 0
        assert watch.group("billing")["generations_total"] == counted_before  # The counts are still served.
        billing.allow(who, read)
        watch.wait_for("its return", lambda: watch.watch("up") == 1)
        assert watch.said(str(read)) == 2
        # No record was counted twice.
        assert watch.group("billing")["generations_total"] == counted_before
        # The first line has the address of the metrics.
        assert len(watch.lines) == 5, watch.lines


def test_a_topic_that_is_hidden_is_named_once_each_time_it_becomes_so(billing: SecuredCluster) -> None:
    describe = Right("Describe", "Topic", "orders")
    who = billing.principal(Right("Read", "Topic", OFFSETS))
    said: list[str] = []
    watch = Watcher(WatchOptions(who.bootstrap, who.properties, look_s=0.2), said.append)
    stop = threading.Event()
    running = threading.Thread(target=watch.run, args=(stop,))
    running.start()
    try:
        for times in (1, 2):

            def has_said(times: int = times) -> bool:
                return len(said) >= times

            wait_until(has_said, said)
            for _ in range(3):

                def has_looked(before: float = watch._next_look) -> bool:
                    return watch._next_look > before

                wait_until(has_looked, said)
            assert len(said) == times, said
            billing.allow(who, describe)
            wait_until(lambda: "orders" not in watch._hidden, said)
            billing.take_away(who, describe)
        wait_until(lambda: len(said) == 3, said)
    finally:
        stop.set()
        running.join(HANG_S)
    assert all(str(describe) in line for line in said)


def wait_until(condition: Callable[[], bool], said: list[str]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline, said
        time.sleep(0.1)


def test_on_a_terminal_the_table_is_redrawn_until_it_is_told_to_end(kafka: Kafka) -> None:
    group = f"live-{uuid.uuid4().hex[:6]}"
    topic = f"orders-{uuid.uuid4().hex}"
    kafka.create_topic(topic, 2)
    terminal, inside = pty.openpty()
    watch = subprocess.Popen(
        [
            *(sys.executable, "-m", "kafka_assignors_cli", "watch", "--interval", "0.2"),
            *("--bootstrap-server", kafka.bootstrap, "--matching", "live-*"),
        ],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "40"},
    )
    os.close(inside)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    try:
        with closing(consumer):
            consumer.subscribe([topic])
            seen = ""
            deadline = time.monotonic() + HANG_S
            while not re.search(rf"{group} +stable +\d", seen):
                assert time.monotonic() < deadline, seen
                consumer.poll(0.05)
                if select.select([terminal], [], [], 0.05)[0]:
                    seen += os.read(terminal, 65536).decode(errors="replace")
        watch.send_signal(signal.SIGTERM)
        while select.select([terminal], [], [], HANG_S)[0]:
            try:
                seen += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # The other side has closed the terminal.
                break
        assert watch.wait(HANG_S) == 0
    finally:
        watch.kill()
        os.close(terminal)
    assert "Ctrl-C ends it" in seen
    rows = re.findall(rf"{group} +stable[^\r\n\x1b]*", seen)
    assert max(map(len, rows)) <= 80
    assert re.search(r"kafka-assignors: ended: \d+ groups?, \d+ generations? counted", seen)
    assert "Traceback" not in seen
