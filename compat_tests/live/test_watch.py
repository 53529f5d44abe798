"""`kafka-assignors watch` with groups that join, rebalance and die on a real broker."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Consumer
from prometheus_client.parser import text_string_to_metric_families

from compat_tests.differential.holder import committed
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S, wait_for
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster
from compat_tests.support.secured_cluster import Right, SecuredCluster
from kafka_assignors_ops.watch.watcher import RecordReader, Watcher, WatchOptions

MEMBER = "compat_tests.support.librdkafka_member"
OFFSETS = "__consumer_offsets"


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

PREFIX = "kafka_assignors_"


class WatchProcess:
    """The command with these options, serving metrics on a free port. Leaving the block kills it."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "kafka_assignors_cli", "watch", "--prometheus", "127.0.0.1:0"]
        self._process = subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        """Its lines on stderr."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> WatchProcess:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            print("---- watch", *self.lines, sep="\n", file=sys.stderr)
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal, wait for the end, and return the exit code."""
        self._process.send_signal(number)
        code = self._process.wait(HANG_S)
        self._reader.join(HANG_S)
        return code

    def said(self, part: str) -> int:
        """The number of lines that contain this text."""
        return sum(part in line for line in [*self.lines])

    def scrape(self) -> str:
        """The text of a scrape; empty before the port is open."""
        for line in [*self.lines]:
            if found := re.search(r"metrics are on (http://\S+)", line):
                with urllib.request.urlopen(found[1], timeout=HANG_S) as response:
                    return str(response.read().decode())
        return ""

    def samples(self) -> Samples:
        """Every sample of a scrape, by its name without the prefix and its labels."""
        return {
            (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.scrape())
            for sample in family.samples
        }

    def watch(self, name: str, **labels: str) -> float | None:
        """A metric of the watch itself."""
        return self.samples().get((f"watch_{name}", frozenset(labels.items())))

    def group(self, group: str) -> dict[str, float]:
        """The metrics of a group, by name and the value of their other label, such as `state Stable`."""
        found: dict[str, float] = {}
        for (name, labels), value in self.samples().items():
            given = dict(labels)
            if given.pop("group", None) == group and name != "group_info":
                found[" ".join((name.removeprefix("group_"), *given.values()))] = value
        return found

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        def is_met() -> bool:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                if condition():
                    return True
            assert self._process.poll() is None, f"the watch has ended: {self.lines}"
            time.sleep(0.2)
            return False

        wait_for(what, is_met)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line.rstrip("\n"))


@pytest.fixture(autouse=True, scope="module")
def offsets_topic(kafka: Kafka) -> None:
    """Create the offsets topic, which exists only after the first group; the tests need it from the start."""
    committed(kafka, "first")


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
        with closing(Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})) as consumer:
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
        with watching(WatchOptions(cluster.bootstrap, timeout_s=2, look_s=0.2)) as (watch, _):
            wait_for("the broker", lambda: watch.status().up)
            cluster.stop(1)
            wait_for("its absence", lambda: not watch.status().up)
            cluster.start(1)
            wait_for("its return", lambda: watch.status().up)


@contextmanager
def watching(options: WatchOptions) -> Iterator[tuple[Watcher, list[str]]]:
    """A watcher in a thread of its own, and what it has said."""
    said: list[str] = []
    watch = Watcher(options, said.append)
    stop = threading.Event()
    running = threading.Thread(target=watch.run, args=(stop,))
    running.start()
    try:
        yield watch, said
    finally:
        stop.set()
        running.join(HANG_S)


@pytest.fixture(scope="module")
def billing() -> Iterator[SecuredCluster]:
    """A cluster with ACLs, in which the group "billing" owns both partitions of "orders"."""
    with SecuredCluster() as secured:
        secured.cluster.create_topic("orders", 2)
        settings = {"bootstrap.servers": secured.cluster.bootstrap, "group.id": "billing"}
        with closing(Consumer(settings)) as consumer:
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
    with watching(WatchOptions(who.bootstrap, who.properties, look_s=0.2)) as (watch, said):
        for times in (1, 2):
            wait_for("a word", lambda times=times: len(said) >= times)
            for _ in range(3):
                wait_for("another look", lambda before=watch._next_look: watch._next_look > before)
            assert len(said) == times, said
            billing.allow(who, describe)
            wait_for("the topic", lambda: "orders" not in watch._hidden)
            billing.take_away(who, describe)
        wait_for("another word", lambda: len(said) == 3)
    assert all(str(describe) in line for line in said)


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

            def is_in_the_table() -> bool:
                nonlocal seen
                consumer.poll(0.05)
                if select.select([terminal], [], [], 0)[0]:
                    seen += os.read(terminal, 65536).decode(errors="replace")
                return re.search(rf"{group} +stable +\d", seen) is not None

            wait_for("the group in the table", is_in_the_table)
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
