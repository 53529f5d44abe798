"""The examples as members of a group, each in a process that the test observes through its log."""

from __future__ import annotations

import collections
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient

from compat_tests.differential.holder import committed
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.processes import Child

_ROOT = Path(__file__).resolve().parents[2]
_PROCESSED = re.compile(r": (\S+)-(\d+): processed offsets (\d+) to (\d+)$")
_ASSIGNED = re.compile(r" examples\.\w+: assigned: (.*)$")

PARTITIONS = 4


class Example:
    """A process that runs an example, observed through its log."""

    def __init__(self, process: Child, log: Path) -> None:
        self.process = process
        self.log = log

    def lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()

    def processed(self) -> Iterator[tuple[int, int]]:
        """Each processed record as (partition, offset); a record that was processed twice appears twice."""
        for line in self.lines():
            if found := _PROCESSED.search(line):
                for offset in range(int(found[3]), int(found[4]) + 1):
                    yield int(found[2]), offset

    def assigned(self) -> set[int]:
        """The latest assignment."""
        found = [
            {int(partition.rsplit("-", 1)[1]) for partition in match[1].split(", ") if partition}
            for line in self.lines()
            if (match := _ASSIGNED.search(line))
        ]
        return found[-1] if found else set()


class Shop:
    """A topic with four partitions, a group, and the examples that are its members."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._group = GroupOfMembers(kafka, "examples", {"orders": PARTITIONS})
        self.everyone: list[Example] = []
        self.produced = 0

    def __enter__(self) -> Shop:
        self._group.__enter__()
        self._processes, self._folder = self._group._processes, self._group._folder
        return self

    def __exit__(self, *raised: object) -> None:
        for example in self.everyone:  # pytest shows it if the test fails
            print(f"---- {example.log.name}", *example.lines()[-60:], sep="\n")
        self._group.__exit__(*raised)

    def start(self, module: str, *arguments: str, **environment: str) -> Example:
        """Start an example of this checkout, in a process that has loaded its client."""
        log, names, settings = self._next(environment)
        started = self._processes.start_preloaded(
            module, [*arguments, *names], log, cwd=_ROOT, environment=settings
        )
        return self._add(started, log)

    def start_command(self, command: Sequence[str], folder: Path, **environment: str) -> Example:
        """Start a command that takes the arguments of an example, in `folder`."""
        log, names, settings = self._next(environment)
        whole = ["env", *map("=".join, settings.items()), *command, *names]
        return self._add(self._processes.start(whole, log, cwd=folder), log)

    def _next(self, environment: Mapping[str, str]) -> tuple[Path, list[str], dict[str, str]]:
        """The log, the last arguments and the environment variables of the next example."""
        names = ["--topic", self.topic, "--group", self._group.id]
        settings = {
            "KAFKA_BOOTSTRAP_SERVERS": self._kafka.bootstrap,
            "LOG_LEVEL": "DEBUG",
            **environment,
        }
        return self._folder / f"{len(self.everyone)}.log", names, settings

    def _add(self, process: Child, log: Path) -> Example:
        self.everyone.append(Example(process, log))
        return self.everyone[-1]

    @property
    def topic(self) -> str:
        return self._group.topic("orders")

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        self._group.wait_for(what, condition)

    def stop(self, *examples: Example) -> None:
        """Send SIGTERM, as Kubernetes does; the example has to end without an error."""
        for example in examples:
            example.process.send_signal(signal.SIGTERM)
        for example in examples:
            assert example.process.wait(HANG_S) == 0
            assert example.lines()[-1].endswith(": stopped")

    def produce(self, per_partition: int) -> None:
        self._group.produce(per_partition)
        self.produced += per_partition

    def heat(self, partitions: Iterable[int]) -> None:
        """Write records to these partitions alone."""
        self._kafka.produce({(self.topic, partition): 50 for partition in partitions})

    def share(self, *examples: Example) -> None:
        """Wait until these members own all partitions, each partition once and each member at least one."""

        def shared() -> bool:
            shares = [example.assigned() for example in examples]
            return all(shares) and sorted(p for share in shares for p in share) == list(range(PARTITIONS))

        self._group.wait_for("the partitions to be shared", shared)

    def processed(self) -> collections.Counter[tuple[int, int]]:
        return collections.Counter(record for example in self.everyone for record in example.processed())

    def process_all(self) -> None:
        """Wait until every record that was produced has been processed."""
        everything = {(p, offset) for p in range(PARTITIONS) for offset in range(self.produced)}
        self._group.wait_for("all records", lambda: everything <= self.processed().keys())

    def duplicates(self) -> int:
        return sum(times - 1 for times in self.processed().values())

    def strategy(self) -> str:
        """The name of the strategy that the members agreed on, once the group has settled."""
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap})

        def agreed() -> str:
            described = admin.describe_consumer_groups([self._group.id], request_timeout=HANG_S)
            return str(described[self._group.id].result().partition_assignor)

        return str(self._group.wait_for("a strategy", agreed))

    def committed(self) -> dict[int, int]:
        """The committed offset of each partition."""
        offsets = committed(self._kafka, self._group.id)
        return {partition: offset for (_, partition), offset in offsets.items()}
