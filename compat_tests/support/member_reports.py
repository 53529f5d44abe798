"""The specification of a member process, the orders that it obeys, and its reports.

This is the member's side of `group_of_members`. The specification is the only argument, in JSON. Reports go
to standard output as JSON lines. This module imports no client.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

STRATEGIES = "compat_tests.strategies"
"""The name of the logger of the tests' own strategies."""

machine_time = time.monotonic
"""The clock of reports. A test may replace a process's `time.monotonic`, but not this reference."""


@dataclasses.dataclass(frozen=True, slots=True)
class MemberSpec:
    """One consumer. `assignors` are names that the member program understands, the preferred one first:

    - `sticky` …: our assignor of this strategy;
    - `stock:sticky`: the client's own assignor;
    - `rack-aware-sticky:1.5`: our assignor, in which one rack miss costs as much as 1.5 moves;
    - `module:attribute`: our assignor of a third-party strategy;
    - `guarded:sticky`: our assignor with `stay_classic`;
    - `garbage:sticky:ff00`: votes for `sticky`, and joins with these bytes as its metadata.
    """

    name: str
    bootstrap: str
    group: str
    topics: Sequence[str]
    assignors: Sequence[str]
    rack: str | None = None
    instance_id: str | None = None
    session_timeout_ms: int = 30_000
    """Longer than a busy machine stalls. A test that waits for the end of a session sets a shorter timeout
    for the members whose sessions end, and for no other member."""

    rebalance_timeout_ms: int | None = None
    """None for the client's default; kafka-python has none and uses its maximum poll interval."""

    max_poll_interval_ms: int | None = None
    """None for the client's default, five minutes."""

    heartbeat_interval_ms: int = 300
    metadata_max_age_ms: int = 2000
    poll_ms: int = 500
    pattern: str | None = None
    """Subscribe to all topics whose names match this pattern, instead of `topics`."""

    isolation_level: str = "read_uncommitted"
    auto_commit: bool = True

    revoke_s: float = 0.0
    """The time that the application takes to give partitions up, in seconds; of a librdkafka member."""

    warm_s: float | None = None
    """How long a cooperative member takes to warm a partition, in seconds; None for one that warms none."""

    metadata_first: bool = False
    """Whether a stock kafka-python consumer knows its topics before it may lead. Without them it assigns
    nothing in its first generation."""

    copies_to: str | None = None
    """The topic to which the member copies consumed records in transactions."""

    def settings(self, assignors: Sequence[object]) -> dict[str, Any]:
        """The arguments that consumers of aiokafka and kafka-python have alike."""
        settings = {
            "bootstrap_servers": self.bootstrap,
            "group_id": self.group,
            "client_id": self.name,
            "partition_assignment_strategy": assignors,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "enable_auto_commit": self.auto_commit,
            "auto_commit_interval_ms": 500,
            "metadata_max_age_ms": self.metadata_max_age_ms,
        }
        if self.max_poll_interval_ms is not None:
            settings["max_poll_interval_ms"] = self.max_poll_interval_ms
        return settings

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_arguments(cls) -> MemberSpec:
        """The specification in the arguments. After this call, SIGQUIT prints the stacks of all threads."""
        faulthandler.register(signal.SIGQUIT, all_threads=True)
        return cls(**json.loads(sys.argv[1]))


def sigterms() -> list[int]:
    """A list of the SIGTERMs that this process has received; the process runs while it is empty.

    A `threading.Event` does not work: `set` takes a lock, and a second signal that interrupts it there would
    wait for that lock forever.
    """
    got: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    return got


class Orders:
    """The test's orders to the running application, read from standard input as JSON lines.

    Attributes:
        busy: the application is busy and does not poll the client.
        pause_s: how long the listener takes, in seconds.
        drain: whether the consumer is to drain.
    """

    def __init__(self) -> None:
        self.busy = False
        self.pause_s = 0.0
        self.drain = False
        self._topics: list[str] | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self.obey(json.loads(line))

    def obey(self, order: Mapping[str, Any]) -> None:
        """Called for each order, on the thread that reads them."""
        self._topics = order.get("topics", self._topics)
        self.busy = order.get("busy", self.busy)
        self.pause_s = order.get("pause_s", self.pause_s)
        self.drain = order.get("drain", self.drain)

    def new_topics(self) -> list[str] | None:
        """The new subscription; None if it has not changed since the last call."""
        topics, self._topics = self._topics, None
        return topics


class Reporter(logging.Handler):
    """Writes reports as JSON lines. As a logging handler, it also reports the warnings of our loggers.

    A strategy of the tests can report through the logger `STRATEGIES`.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._writing = threading.Lock()
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
        for talkative in ("kafka.cluster", "kafka.net"):
            logging.getLogger(talkative).setLevel(logging.WARNING)
        for name in ("kafka_assignors_aiokafka", "kafka_assignors_kafka_python", STRATEGIES):
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.report("logged", logger=record.name, message=record.getMessage())

    def report(self, event: str, **fields: Any) -> None:
        # The machine's clock, not the process's, because reports of several members are compared.
        line = json.dumps({"event": event, "at": machine_time(), **fields})
        with self._writing:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def assigned(self, member_id: str, generation: int, partitions: Iterable[tuple[str, int]]) -> None:
        self.report("assigned", member_id=member_id, generation=generation, partitions=by_topic(partitions))

    def revoked(self, partitions: Iterable[tuple[str, int]]) -> None:
        self.report("revoked", partitions=by_topic(partitions))

    def stopped(self) -> None:
        """The application takes no more records; the client may leave the group."""
        self.report("stopped")

    def consumed(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        self.report("consumed", topic=topic, partition=partition, offsets=list(offsets))

    def failed(self, error: BaseException, event: str = "failed", **fields: Any) -> None:
        """The application ends with this error, or `event` says what has failed."""
        self.report(event, **fields, error=f"{type(error).__name__}: {error}")


class ReportingListener:
    """What the listeners of the member programs have alike; each derives from its client's listener too."""

    def __init__(self, spec: MemberSpec, reporter: Reporter, consumer: Any) -> None:
        self._spec = spec
        self._reporter = reporter
        self._consumer = consumer

    def on_partitions_lost(self, lost: Iterable[tuple[str, int]]) -> None:
        self._reporter.report("lost", partitions=by_topic(lost))

    def on_warming_cancelled(self, partitions: Iterable[tuple[str, int]]) -> None:
        self._reporter.report("cancelled", partitions=by_topic(partitions))


def by_topic(partitions: Iterable[tuple[str, int]]) -> Mapping[str, list[int]]:
    """Topic-partitions grouped by topic, sorted."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped
