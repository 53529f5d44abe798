"""Consumers in their own processes that execute single steps of a test.

Whether a record is lost or delivered twice depends on the order of a few steps (delivery, commit, revocation,
kill), so the test must control when each step happens:

    with RemoteGroup(kafka, "aiokafka", partitions=2) as group:
        a = group.start(enable_auto_commit=False)
        group.produce(10)
        group.take_all(a)
        a.commit()

Between two steps the consumer's application is busy, which the client may notice or not.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.processes import Child, Processes
from compat_tests.support.weights import member_ids

__all__ = ["RemoteConsumer", "RemoteGroup", "Setup"]

_ROOT = Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """The settings with which a consumer's process is started."""

    bootstrap: str
    group: str
    topic: str
    assignor: str
    """`ours` (sticky), `stock`, or `stock-cooperative` (kafka-python 3)."""

    listener: str
    """The action in on_partitions_revoked: `nothing`, `commit`, or `await-commit` (kafka-python 3)."""

    settings: Mapping[str, Any]
    """Arguments of the consumer."""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_arguments(cls) -> Setup:
        """The settings of this process."""
        return cls(**json.loads(sys.argv[1]))


class RemoteConsumer:
    """One consumer, and the records delivered to it."""

    def __init__(self, process: Child, log: Path) -> None:
        self.process = process
        self.log = log
        self._answers_read = 0
        self.delivered: list[tuple[int, int]] = []
        """(partition, offset) of each record, in order."""

        self.assigned: frozenset[int] = frozenset()
        self.errors: list[str] = []
        """The errors that polls raised."""

    def send(self, step: str, **arguments: Any) -> None:
        """Start a step without waiting for its result."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": step, **arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        """The result of the oldest unanswered step. Raises RemoteError if the step raised."""
        deadline = time.monotonic() + HANG_S
        while True:
            answers = [
                line for line in self.log.read_bytes().split(b"\n")[:-1] if line.startswith(b'{"answer"')
            ]
            if len(answers) > self._answers_read:
                break
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"no answer:\n{self.log.read_text(errors='replace')[-6000:]}")
            time.sleep(0.01)
        answer = json.loads(answers[self._answers_read])
        self._answers_read += 1
        if "error" in answer:
            raise RemoteError(answer["error"])
        return answer["answer"]

    def do(self, step: str, **arguments: Any) -> Any:
        self.send(step, **arguments)
        return self.receive()

    def received_poll(self) -> None:
        """Process the result of a `poll` that was sent."""
        try:
            polled = self.receive()
        except RemoteError as error:
            self.errors.append(str(error))
            return
        self.assigned = frozenset(polled["assigned"])
        self.delivered += [(partition, offset) for partition, offset in polled["records"]]

    def positions(self) -> list[int | None]:
        """The position in each assigned partition; the client looks it up if it has none."""
        positions: list[int | None] = self.do("positions")
        return positions

    def commit(self) -> None:
        """Commit the delivered records."""
        self.do("commit")


class RemoteError(Exception):
    """A step of a consumer raised; the message begins with the name of the exception's class."""


class RemoteGroup:
    """A topic, and a group of remote consumers of one client."""

    def __init__(self, kafka: Kafka, client: str, partitions: int = 2) -> None:
        self.kafka = kafka
        self.partitions = partitions
        self._program = f"compat_tests.live.remote_{client}"
        self._group = GroupOfMembers(kafka, "", {"orders": partitions})
        self._processes = Processes()
        self._numbers = itertools.count()
        self.produced = 0
        self.everyone: list[RemoteConsumer] = []

    def __enter__(self) -> RemoteGroup:
        self._group.__enter__()
        self._processes.__enter__()
        self._folder = Path(tempfile.mkdtemp(prefix="remote-"))
        self._processes.own_folder(self._folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for consumer in self.everyone if error is not None else ():
            print(f"---- {consumer.log.name}", consumer.log.read_text(errors="replace")[-8000:], sep="\n")
        self._processes.__exit__(kind, error, trace)
        self._group.__exit__(kind, error, trace)

    def start(self, *, assignor: str = "ours", listener: str = "nothing", **settings: Any) -> RemoteConsumer:
        """Start a new member; it joins when it polls."""
        setup = Setup(
            self.kafka.bootstrap,
            self._group.id,
            self._group.topic("orders"),
            assignor,
            listener,
            {
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "heartbeat_interval_ms": 300,
                "session_timeout_ms": 30_000,  # Longer than a pause of a busy machine.
                **settings,
            },
        )
        log = self._folder / f"{next(self._numbers)}.log"
        process = self._processes.start_preloaded(self._program, [setup.to_json()], log, cwd=_ROOT)
        self.everyone.append(RemoteConsumer(process, log))
        return self.everyone[-1]

    def kill(self, consumer: RemoteConsumer) -> None:
        """Kill the process; the group notices it when the session expires."""
        self._processes.stop(consumer.process, signal.SIGKILL)

    def wait_until_empty(self) -> None:
        """Wait until the group has no members."""
        self._group.wait_for("the members to be gone", lambda: not member_ids(self._group))

    def wait_until_committed(self, per_partition: int) -> None:
        """Wait until `per_partition` records of each partition are committed."""
        wanted = dict.fromkeys(range(self.partitions), per_partition)
        self._group.wait_for("the commit", lambda: self.committed() == wanted)

    def produce(self, per_partition: int) -> None:
        self._group.produce(per_partition)
        self.produced += per_partition

    # ---- polls

    def poll(self, *consumers: RemoteConsumer, until: Callable[[], bool], what: str) -> None:
        """Let these consumers poll at the same time until the condition holds."""
        deadline = time.monotonic() + HANG_S
        while not until():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {HANG_S:.0f} s for {what}")
            for consumer in consumers:
                consumer.send("poll")
            for consumer in consumers:
                consumer.received_poll()

    def share(self, *consumers: RemoteConsumer) -> None:
        """Poll until these consumers own all partitions, and each owns at least one."""
        everything = list(range(self.partitions))

        def shared() -> bool:
            shares = [consumer.assigned for consumer in consumers]
            return all(shares) and sorted(itertools.chain(*shares)) == everything

        self.poll(*consumers, until=shared, what="the partitions to be shared")

    def take_all(self, *consumers: RemoteConsumer) -> None:
        """Poll until every produced record has been delivered to one of these consumers."""
        everything = {(p, offset) for p in range(self.partitions) for offset in range(self.produced)}

        def delivered() -> bool:
            return everything <= {record for consumer in consumers for record in consumer.delivered}

        self.poll(*consumers, until=delivered, what="all records")

    # ---- results

    def times_delivered(self) -> collections.Counter[int]:
        """The number of records for each number of deliveries; records with 0 deliveries are lost."""
        times = collections.Counter(record for consumer in self.everyone for record in consumer.delivered)
        return collections.Counter(
            times[p, offset] for p in range(self.partitions) for offset in range(self.produced)
        )

    def committed(self) -> dict[int, int]:
        """The committed offset of each partition that has one."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": self._group.id})
        try:
            topic = self._group.topic("orders")
            asked = [TopicPartition(topic, partition) for partition in range(self.partitions)]
            found = consumer.committed(asked, timeout=HANG_S)
        finally:
            consumer.close()
        return {partition.partition: partition.offset for partition in found if partition.offset >= 0}
