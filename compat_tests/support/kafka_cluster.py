"""Real Apache Kafka brokers (KRaft) for the tests and the recorder.

    with KafkaCluster(brokers=3) as kafka:
        kafka.create_topic("orders", 12)
        AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, ...)

The release is the one in the environment variable KAFKA_VERSION, or the one that `java/pom.xml` names. The
variable KAFKA_BROKER_SETTINGS adds properties (`name=value`, separated by spaces) to every broker. Each
broker is a JVM, and is also its own controller; the racks are a, b, c. Even if the owner is killed, the
brokers end and their folder is removed (see `processes`). `KafkaCluster` adds to `Kafka` (see `kafka_admin`)
the operations that need brokers of our own, such as killing one.
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.support.fault_proxy import FaultProxy
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.jvm import cached, classpath, java_command, java_home_binary
from compat_tests.support.kafka_admin import Kafka, KafkaError, TopicDescription
from compat_tests.support.processes import Processes

__all__ = ["BROKER_SETTINGS", "Kafka", "KafkaCluster", "KafkaError", "TopicDescription", "free_ports"]

BROKER_SETTINGS = "KAFKA_BROKER_SETTINGS"

RACKS = ("a", "b", "c")

_START_ATTEMPTS = 5
_QUIETLY = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


@dataclass(slots=True)
class _Broker:
    id: int
    folder: Path
    port: int
    controller_port: int
    proxied_port: int
    """The port of the listener PROXIED, if there is a proxy."""
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    def last_words(self) -> str:
        """The errors in the log; without errors, its last lines."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return "(no log)"
        errors = [line for line in lines if " ERROR " in line or "Exception" in line]
        return "\n".join((errors or lines)[-20:])


class _PortTaken(KafkaError):
    """Another process bound a port between our choice and the broker's start."""


def _record_classes(file: Path) -> None:
    with KafkaCluster(record_classes=file) as cluster:
        cluster.stop(1)


class KafkaCluster(Kafka):
    """Brokers of our own on loopback. They run from entering the context to leaving it."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        settings: Mapping[str, object] | None = None,
        heap: str = "384m",
        ports: Callable[[int], Sequence[int]] | None = None,
        record_classes: Path | None = None,
        proxy: FaultProxy | None = None,
    ) -> None:
        """The brokers start when the context is entered.

        Args:
            brokers: 1 or 3; their ids are 1 to 3, their racks a to c.
            settings: broker properties, which override or extend ours.
            heap: the heap size of each broker's JVM.
            ports: chooses that many free ports.
            record_classes: a file that a broker writes when it is stopped (see `_shared_classes`).
            proxy: brokers get an additional listener PROXIED, without security unless `settings` says
                otherwise, and advertise the ports of the proxy on it. Clients that begin with
                `proxy.bootstrap` use it.
        """
        super().__init__("")
        self._count = brokers
        self._settings = dict(settings or {})
        self._heap = heap
        self._version = os.environ.get("KAFKA_VERSION") or None
        self._choose_ports = ports or free_ports
        self._record_classes = record_classes
        self._proxy = proxy
        self._brokers: dict[int, _Broker] = {}
        self._processes = Processes()

    @property
    def bootstrap(self) -> str:
        if not self._brokers:
            raise KafkaError("the cluster is not running: enter its context first")
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self._brokers.values())

    @property
    def proxy(self) -> FaultProxy:
        """The proxy in front of the brokers."""
        if self._proxy is None:
            raise KafkaError("the cluster has no proxy")
        return self._proxy

    @property
    def pids(self) -> dict[int, int]:
        """The process id of each running broker, by the broker's id."""
        return {
            broker.id: broker.process.pid
            for broker in self._brokers.values()
            if broker.process is not None and broker.process.poll() is None
        }

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folder of each broker, with its data and log."""
        return tuple(broker.folder for broker in self._brokers.values())

    def __enter__(self) -> KafkaCluster:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._processes)
            self._start_all()
            stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        # The data is removed with the brokers, so an orderly shutdown would save nothing.
        self._processes.__exit__(*raised)
        self._brokers.clear()

    def stop(self, broker: int) -> None:
        """Shut a broker down cleanly: it hands over its leaderships first."""
        self._end(broker, signal.SIGTERM)

    def kill(self, broker: int) -> None:
        """End a broker at once (SIGKILL)."""
        self._end(broker, signal.SIGKILL)

    def start(self, broker: int) -> None:
        """Start a stopped or killed broker with its old port and data, and wait until it serves."""
        self._launch(self._brokers[broker])
        self._wait_ready()

    def lose_log(self, broker: int, topic: str, partition: int) -> None:
        """Restart a broker without its log of a partition, as after a lost disk; it creates an empty log."""
        self.stop(broker)
        shutil.rmtree(self._brokers[broker].folder / "data" / f"{topic}-{partition}")
        self.start(broker)

    def _end(self, broker: int, number: signal.Signals) -> None:
        found = self._brokers[broker]
        if found.process is None:
            raise KafkaError(f"broker {broker} is not running")
        self._processes.stop(found.process, number)
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
        ports = iter(self._choose_ports(3 * self._count))
        self._brokers = {
            id: _Broker(id, folder / f"broker-{id}", next(ports), next(ports), next(ports))
            for id in range(1, self._count + 1)
        }
        # Kafka's tools take a leading dash for an option; this random id begins with A.
        self._format(base64.urlsafe_b64encode(bytes(1) + os.urandom(15)).rstrip(b"=").decode())
        for broker in self._brokers.values():
            self._launch(broker)
        self._wait_ready()

    def _format(self, cluster_id: str) -> None:
        """Write the configurations, and format the data folders for KRaft."""
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
                process.wait(HANG_S)
            if self._processes.stop(process, signal.SIGKILL):
                raise KafkaError(f"broker {broker.id} cannot be formatted:\n{broker.last_words()}")

    def _launch(self, broker: _Broker) -> None:
        file = self._record_classes
        recording = (f"-XX:ArchiveClassesAtExit={file}", *_QUIETLY)
        options = self._shared_classes() if file is None else recording
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
        """Options for a JVM to share an archive of Java classes (JEP 350): it starts with half the CPU.

        A broker writes the archive when it ends, so the first call starts a broker for it. The archive then
        stays in the cache of `jvm`. A JVM of another build ignores it, and loads its classes as usual.
        """
        if self._record_classes is not None:
            return ()
        made_of = (classpath(self._version), str(Path(java_home_binary("java")).resolve()))
        archive = cached("brokers", ".jsa", made_of, _record_classes)
        return (f"-XX:SharedArchiveFile={archive}", *_QUIETLY) if archive.exists() else ()

    def _wait_ready(self) -> None:
        """Wait until every running broker knows every other."""
        deadline = time.monotonic() + HANG_S
        running = {broker.id: broker for broker in self._brokers.values() if broker.process is not None}
        for broker in running.values():
            while not _knows(broker, set(running)):
                for one in running.values():
                    self._check_alive(one)
                if time.monotonic() > deadline:
                    late = f"broker {broker.id} does not serve after {HANG_S:g} s"
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
        advertised = f"PLAINTEXT://127.0.0.1:{broker.port}"
        listeners = f"{advertised},CONTROLLER://127.0.0.1:{broker.controller_port}"
        if self._proxy is not None:
            listeners += f",PROXIED://127.0.0.1:{broker.proxied_port}"
            port_of_proxy = self._proxy.forward(broker.id, broker.proxied_port)
            advertised += f",PROXIED://127.0.0.1:{port_of_proxy}"
        voters = ",".join(f"{b.id}@127.0.0.1:{b.controller_port}" for b in self._brokers.values())
        return {
            "process.roles": "broker,controller",
            "node.id": broker.id,
            "broker.rack": RACKS[broker.id - 1],
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "advertised.listeners": advertised,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": broker.folder / "data",
            "num.network.threads": 2,
            "num.io.threads": 4,
            "auto.create.topics.enable": "false",
            "broker.heartbeat.interval.ms": 500,
            # A broker must keep its session while the machine is stalled. With three brokers, the controller
            # still notices a killed one within seconds.
            "broker.session.timeout.ms": 20_000 if self._count == 1 else 10_000,
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
            "group.consumer.session.timeout.ms": 30_000,
            **dict(setting.split("=", 1) for setting in os.environ.get(BROKER_SETTINGS, "").split()),
            **self._settings,
        }


def free_ports(count: int) -> list[int]:
    """Free ports on loopback.

    They lie below the range of ephemeral ports, so that a client's connection does not take a port before its
    broker binds it, or while that broker is restarted.
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
