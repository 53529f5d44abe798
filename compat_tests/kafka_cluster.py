"""Real Apache Kafka brokers (KRaft) for the tests and the recorder.

    with KafkaCluster(brokers=3) as kafka:
        kafka.create_topic("orders", 12)
        AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, ...)

The release is the one that `java/pom.xml` names, or the one in the environment variable KAFKA_VERSION.
Each broker is a JVM of its own that is its own controller too; the racks are a, b, c. Whatever happens to the
owner, the brokers end with it and their folder goes (see `processes`). `Kafka` is what a test can do with any
cluster; `KafkaCluster` adds what needs brokers of our own, such as killing one.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from compat_tests.class_archive import recording, sharing
from compat_tests.jvm import java_command
from compat_tests.processes import Processes

__all__ = ["Kafka", "KafkaCluster", "KafkaError", "TopicDescription", "free_ports"]

RACKS = ("a", "b", "c")

_START_TIMEOUT_S = 120.0
"""Four seconds for one broker and ten for three on two quiet cores; test machines are seldom quiet."""

_START_ATTEMPTS = 5
_ADMIN_TIMEOUT_S = 30.0
_ATTEMPT_TIMEOUT_S = 2.0


class KafkaError(RuntimeError):
    """A cluster does not start or does not answer; the message quotes the broker's log if there is one."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as a broker describes it.

    Attributes:
        topic_id: as Kafka prints it, 22 characters of URL-safe base64.
        replica_racks: of each partition, the racks of its replicas, leader first at creation; "" for none.
    """

    topic: str
    topic_id: str
    replica_racks: tuple[tuple[str, ...], ...]

    @property
    def partitions(self) -> int:
        return len(self.replica_racks)


class Kafka:
    """A cluster that somebody runs, and the few administrative calls that tests and recordings need."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    @property
    def bootstrap(self) -> str:
        """`host:port` of each broker, separated by commas."""
        return self._bootstrap

    def check(self, timeout_s: float = 10.0) -> None:
        """Raises KafkaError if no broker answers within `timeout_s` seconds."""
        self.racks(timeout_s)

    def racks(self, timeout_s: float = _ADMIN_TIMEOUT_S) -> dict[int, str | None]:
        """The rack of each live broker, by its id."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                with self._admin("describe the cluster") as admin:
                    nodes = admin.describe_cluster(request_timeout=_ATTEMPT_TIMEOUT_S).result().nodes
            except KafkaError:
                # A client that was told of a controller that is dead by now waits for it until the timeout.
                if time.monotonic() + _ATTEMPT_TIMEOUT_S > deadline:
                    raise
            else:
                return {node.id: node.rack for node in nodes}

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replicas: Sequence[Sequence[int]] | None = None,
        replication_factor: int = 1,
    ) -> None:
        """Create a topic and wait until each of its partitions has a leader.

        Args:
            replicas: of each partition, the ids of the brokers that hold it, instead of the two counts.
        """
        from confluent_kafka.cimpl import NewTopic

        if replicas is None:
            new = NewTopic(topic, num_partitions=partitions, replication_factor=replication_factor)
        else:
            assignment = [list(brokers) for brokers in replicas]
            new = NewTopic(topic, num_partitions=len(assignment), replica_assignment=assignment)
        with self._admin(f"create topic {topic}") as admin:
            admin.create_topics([new], operation_timeout=_ADMIN_TIMEOUT_S)[topic].result(_ADMIN_TIMEOUT_S)
        self._wait_for_leaders(topic, new.num_partitions)

    def add_partitions(
        self, topic: str, total: int, *, replicas: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Grow a topic to `total` partitions; `replicas` names the brokers of each new one."""
        from confluent_kafka.cimpl import NewPartitions

        assignment = (
            {} if replicas is None else {"replica_assignment": [list(brokers) for brokers in replicas]}
        )
        new = NewPartitions(topic, total, **assignment)
        with self._admin(f"add partitions to topic {topic}") as admin:
            admin.create_partitions([new], operation_timeout=_ADMIN_TIMEOUT_S)[topic].result(_ADMIN_TIMEOUT_S)
        self._wait_for_leaders(topic, total)

    def reassign(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Move the partitions of a topic to these brokers, and wait until they lie there and nowhere else."""
        host, port = self.bootstrap.split(",")[0].rsplit(":", 1)
        with socket.create_connection((host, int(port)), _ADMIN_TIMEOUT_S) as connection:
            connection.sendall(_reassignment(topic, replicas))
            answer = connection.makefile("rb")
            error_code, *_ = struct.unpack_from(">h", answer.read(int.from_bytes(answer.read(4), "big")), 9)
        if error_code:
            raise KafkaError(f"cannot reassign topic {topic}: error code {error_code}")
        racks = self.racks()
        wanted = [{racks[broker] for broker in brokers} for brokers in replicas]
        deadline = time.monotonic() + _ADMIN_TIMEOUT_S
        while [set(found) for found in self.describe_topics([topic])[0].replica_racks] != wanted:
            if time.monotonic() > deadline:
                raise KafkaError(f"topic {topic} was not reassigned within {_ADMIN_TIMEOUT_S:g} s")
            time.sleep(0.1)

    def leaders(self, topic: str) -> list[int]:
        """The broker that leads each partition."""
        with self._admin(f"read the metadata of topic {topic}") as admin:
            found = admin.list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic].partitions
        return [found[number].leader for number in sorted(found)]

    def topics(self) -> list[str]:
        """The names of all topics, internal ones among them."""
        with self._admin("list the topics") as admin:
            return sorted(admin.list_topics(timeout=_ADMIN_TIMEOUT_S).topics)

    def delete_topic(self, topic: str) -> None:
        with self._admin(f"delete topic {topic}") as admin:
            admin.delete_topics([topic], operation_timeout=_ADMIN_TIMEOUT_S)[topic].result(_ADMIN_TIMEOUT_S)

    def describe_topics(self, topics: Sequence[str]) -> list[TopicDescription]:
        """What the brokers know of these topics now, in the order given."""
        from confluent_kafka import TopicCollection

        with self._admin(f"describe topics {', '.join(topics)}") as admin:
            futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_ADMIN_TIMEOUT_S)
            descriptions = [futures[topic].result(_ADMIN_TIMEOUT_S) for topic in topics]
        found = []
        for topic, description in zip(topics, descriptions, strict=True):
            racks = tuple(
                tuple(node.rack or "" for node in partition.replicas)
                for partition in sorted(description.partitions, key=lambda p: int(p.id))
            )
            found.append(TopicDescription(topic, _topic_id(description.topic_id), racks))
        return found

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Wait until every broker that we know of shows the topic as it is now.

        A client that asks another broker right after the change may otherwise be told how it was before.
        """
        deadline = time.monotonic() + _ADMIN_TIMEOUT_S
        for server in self.bootstrap.split(","):
            with self._admin(f"read the metadata of topic {topic}", server) as admin:
                while True:
                    found = admin.list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic].partitions
                    if len(found) == partitions and all(p.leader >= 0 for p in found.values()):
                        break
                    if time.monotonic() > deadline:
                        raise KafkaError(
                            f"topic {topic}: not all of its {partitions} partitions have a leader at {server}"
                        )
                    time.sleep(0.05)

    @contextlib.contextmanager
    def _admin(self, what: str, servers: str = "") -> Iterator[Any]:
        """An admin client for one task, which must not outlive the block: it ends its futures with it.

        Such tasks are few, and a client kept over the restart of a broker backs off for long.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        servers = servers or self.bootstrap
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        try:
            yield admin
        except (KafkaException, TimeoutError, concurrent.futures.TimeoutError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            raise KafkaError(f"cannot {what} at {servers}: {reason}") from None


def _reassignment(topic: str, replicas: Sequence[Sequence[int]]) -> bytes:
    """AlterPartitionReassignments, version 0, with its size. (confluent-kafka has no call for it.)"""

    def compact(items: Sequence[bytes]) -> bytes:
        return bytes([len(items) + 1]) + b"".join(items)

    no_tags = b"\0"
    partitions = [
        struct.pack(">i", number) + compact([struct.pack(">i", broker) for broker in brokers]) + no_tags
        for number, brokers in enumerate(replicas)
    ]
    name = topic.encode()
    topics = compact([bytes([len(name) + 1]) + name + compact(partitions) + no_tags])
    header = struct.pack(">hhih", 45, 0, 1, -1) + no_tags
    request = header + struct.pack(">i", int(_ADMIN_TIMEOUT_S * 1000)) + topics + no_tags
    return struct.pack(">i", len(request)) + request


@dataclass(slots=True)
class _Broker:
    id: int
    rack: str
    port: int
    controller_port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    def last_words(self) -> str:
        """The errors in the log, else its last lines."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return "(no log)"
        errors = [line for line in lines if " ERROR " in line or "Exception" in line]
        return "\n".join((errors or lines)[-20:])


class _PortTaken(KafkaError):
    """Somebody else bound a port between our choice and the broker's start."""


def _record_classes(file: Path) -> None:
    with KafkaCluster(record_classes=file) as cluster:
        cluster.stop(1)


class KafkaCluster(Kafka):
    """Brokers of our own on loopback, from entering the context to leaving it."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        settings: Mapping[str, object] | None = None,
        heap: str = "384m",
        ports: Callable[[int], Sequence[int]] | None = None,
        record_classes: Path | None = None,
    ) -> None:
        """
        Args:
            brokers: 1 or 3; their ids are 1 to 3, their racks a to c.
            settings: broker properties on top of, or instead of, ours.
            heap: of each broker's JVM.
            ports: chooses that many free ports.
            record_classes: a file that a broker writes when it is stopped (see `class_archive`).
        """
        if brokers not in (1, 3):
            raise ValueError(f"brokers: 1 or 3, not {brokers}")
        super().__init__("")
        self._count = brokers
        self._settings = dict(settings or {})
        self._heap = heap
        self._version = os.environ.get("KAFKA_VERSION") or None
        self._choose_ports = ports or free_ports
        self._record_classes = record_classes
        self._brokers: dict[int, _Broker] = {}
        self._processes = Processes()

    @property
    def bootstrap(self) -> str:
        if not self._brokers:
            raise KafkaError("the cluster is not running: enter its context first")
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self._brokers.values())

    @property
    def pids(self) -> dict[int, int]:
        """The process id of each running broker, by the broker's id."""
        return {
            broker.id: broker.process.pid
            for broker in self._brokers.values()
            if broker.process is not None and broker.process.poll() is None
        }

    @property
    def ports(self) -> tuple[int, ...]:
        """The port of each broker, in the order of their ids."""
        return tuple(broker.port for broker in self._brokers.values())

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where each broker keeps its data and log."""
        return tuple(broker.folder for broker in self._brokers.values())

    def __enter__(self) -> KafkaCluster:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._processes)
            self._start_all()
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The data goes with the brokers, so there is nothing that an orderly shutdown could save.
        self._processes.__exit__(kind, error, trace)
        self._brokers.clear()

    def stop(self, broker: int, timeout_s: float = 60.0) -> None:
        """Shut a broker down in order: it hands over its leaderships first."""
        self._end(broker, signal.SIGTERM, timeout_s)

    def kill(self, broker: int) -> None:
        """End a broker at once (SIGKILL)."""
        self._end(broker, signal.SIGKILL, 30.0)

    def start(self, broker: int) -> None:
        """Start a broker that was stopped or killed, on its old port and data, and wait until it serves."""
        found = self._broker(broker)
        if broker in self.pids:
            raise KafkaError(f"broker {broker} is running already")
        self._launch(found)
        self._wait_ready(time.monotonic() + _START_TIMEOUT_S)

    def restart(self, broker: int) -> None:
        """`stop`, then `start`."""
        self.stop(broker)
        self.start(broker)

    def _broker(self, broker: int) -> _Broker:
        if broker not in self._brokers:
            raise KafkaError(f"no broker {broker}; there are {sorted(self._brokers)}")
        return self._brokers[broker]

    def _end(self, broker: int, number: signal.Signals, timeout_s: float) -> None:
        found = self._broker(broker)
        if found.process is None:
            raise KafkaError(f"broker {broker} is not running")
        self._processes.stop(found.process, number, timeout_s)
        found.process = None

    def _start_all(self) -> None:
        reason = ""
        for _ in range(_START_ATTEMPTS):
            try:
                self._try_to_start()
                return
            except _PortTaken as taken:
                reason = str(taken)
                for broker in self.pids:
                    self.kill(broker)
        raise KafkaError(f"no free port after {_START_ATTEMPTS} attempts: {reason}")

    def _try_to_start(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="kafka-"))
        self._processes.own_folder(folder)
        ports = list(self._choose_ports(2 * self._count))
        self._brokers = {
            i + 1: _Broker(i + 1, RACKS[i], ports[2 * i], ports[2 * i + 1], folder / f"broker-{i + 1}")
            for i in range(self._count)
        }
        self._format(_random_id())
        for broker in self._brokers.values():
            self._launch(broker)
        self._wait_ready(time.monotonic() + _START_TIMEOUT_S)

    def _format(self, cluster_id: str) -> None:
        """Write the configurations, and what a KRaft broker wants to find in its data folder."""
        runs = []
        options = self._shared_classes()
        for broker in self._brokers.values():
            broker.folder.mkdir()
            lines = (f"{name}={value}\n" for name, value in self._properties(broker).items())
            broker.properties.write_text("".join(lines), encoding="utf-8")
            arguments = ("format", "--cluster-id", cluster_id, "--config", broker.properties)
            command = java_command(
                "kafka.tools.StorageTool", *arguments, heap="128m", options=options, kafka=self._version
            )
            runs.append((broker, self._processes.start(command, broker.log)))
        for broker, process in runs:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_START_TIMEOUT_S)
            if self._processes.stop(process, signal.SIGKILL):
                raise KafkaError(f"broker {broker.id} cannot be formatted:\n{broker.last_words()}")

    def _launch(self, broker: _Broker) -> None:
        file = self._record_classes
        options = self._shared_classes() if file is None else recording(file)
        command = java_command(
            "kafka.Kafka",
            broker.properties,
            heap=self._heap,
            log_level="INFO",
            options=options,
            kafka=self._version,
        )
        broker.process = self._processes.start(command, broker.log, cwd=broker.folder)

    def _shared_classes(self) -> tuple[str, ...]:
        return () if self._record_classes is not None else sharing(self._version, _record_classes)

    def _wait_ready(self, deadline: float) -> None:
        """Wait until every running broker knows every other."""
        running = {broker.id: broker for broker in self._brokers.values() if broker.process is not None}
        for broker in running.values():
            while not _knows(broker, set(running)):
                for one in running.values():
                    self._check_alive(one)
                if time.monotonic() > deadline:
                    late = f"broker {broker.id} does not serve after {_START_TIMEOUT_S:g} s"
                    raise KafkaError(f"{late}:\n{broker.last_words()}")
                time.sleep(0.1)

    def _check_alive(self, broker: _Broker) -> None:
        if broker.process is None or broker.process.poll() is None:
            return
        words = broker.last_words()
        if "Address already in use" in broker.log.read_text(encoding="utf-8", errors="replace"):
            raise _PortTaken(f"broker {broker.id}:\n{words}")
        raise KafkaError(f"broker {broker.id} ended with exit code {broker.process.returncode}:\n{words}")

    def _properties(self, broker: _Broker) -> dict[str, object]:
        copies = min(3, self._count)
        voters = ",".join(f"{b.id}@127.0.0.1:{b.controller_port}" for b in self._brokers.values())
        return {
            "process.roles": "broker,controller",
            "node.id": broker.id,
            "broker.rack": broker.rack,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": broker.folder / "data",
            "num.network.threads": 2,
            "num.io.threads": 4,
            "auto.create.topics.enable": "false",
            # A short heartbeat to the controller: a killed broker is noticed in seconds.
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 6000,
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            # The history of the groups must stay in the log, not only each group's last state.
            "log.cleaner.enable": "false",
            "log.retention.ms": -1,
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
            "group.consumer.min.heartbeat.interval.ms": 500,
            "group.consumer.heartbeat.interval.ms": 1000,
            "group.consumer.min.session.timeout.ms": 3000,
            "group.consumer.session.timeout.ms": 6000,
            **self._settings,
        }


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on now.

    They lie below the range that the system hands out to outgoing connections, so that a client's connection
    does not take a port before its broker binds it, or while that broker is restarted.
    """
    chosen: list[int] = []
    random_ports = random.SystemRandom()
    while len(chosen) < count:
        port = random_ports.randrange(15000, 32000)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in chosen:
            chosen.append(port)
    return chosen


def _knows(broker: _Broker, others: set[int]) -> bool:
    """Whether this broker serves, and reports these brokers as alive."""
    try:
        socket.create_connection(("127.0.0.1", broker.port), timeout=1).close()
        return others <= set(Kafka(f"127.0.0.1:{broker.port}").racks(5.0))
    except (OSError, KafkaError):
        return False


def _random_id() -> str:
    """As Kafka makes them: a leading dash would be taken for an option by its tools."""
    while True:
        random_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not random_id.startswith("-"):
            return random_id


def _topic_id(value: Any) -> str:
    """Confluent's Uuid as Kafka prints it, whose low and high halves are signed 64-bit numbers."""
    high, low = value.get_most_significant_bits(), value.get_least_significant_bits()
    raw = (high % 2**64).to_bytes(8, "big") + (low % 2**64).to_bytes(8, "big")
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
