"""What a member process of the client tests is told, and how it says what happens to it.

The member's half of `group_of_members`: a specification comes as the one argument, in JSON, and reports go to
standard output as JSON lines. Nothing here imports a client.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import logging
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.received_bytes import received_by_port

__all__ = [
    "LONG_ENOUGH_S",
    "STRATEGIES",
    "MemberSpec",
    "Orders",
    "Reporter",
    "by_topic",
    "machine_time",
    "sigterms",
]

STRATEGIES = "compat_tests.strategies"
"""The logger of the tests' own strategies."""

machine_time = time.monotonic
"""The clock of reports, also in a process whose own `time.monotonic` a test has moved."""

LONG_ENOUGH_S = HANG_S
"""For an answer on however busy a machine; a leader waits for a third of its session at most."""


@dataclasses.dataclass(frozen=True, slots=True)
class MemberSpec:
    """One consumer. `assignors` are names that the member program understands, the preferred one first:

    - `sticky` …: our assignor of this strategy;
    - `stock:sticky`: the client's own;
    - `rollout:2`: our `rollout` of a member that runs release 2;
    - `weighted:10`: our `weighted` by the lag of the group, and 10 records for each partition besides;
    - `acting:/weights.json`: the same by a file (`WeightsFile`), and a leader acts on it at once;
    - `rates`: our `weighted` by rates (`RateWeights`), and with `rates:act` a leader acts on them;
    - `rack-aware-sticky:1.5`: ours to which a rack miss is worth so many moves;
    - `module:attribute`: our assignor of a third-party strategy;
    - `/path/to/rules.toml`: our assignor of a strategy put together from rules;
    - `guarded:sticky`: ours with `stay_classic`;
    - `weighed:sticky`: the same, and a leader has weights that are all the same;
    - `class:sticky`: our class where an instance belongs;
    - `garbage:sticky:ff00`: votes for `sticky`, and joins with these bytes.
    """

    name: str
    bootstrap: str
    group: str
    topics: Sequence[str]
    assignors: Sequence[str]
    rack: str | None = None
    instance_id: str | None = None
    session_timeout_ms: int = 30_000
    """Longer than a busy machine stands still. A test that waits for the end of a session says a shorter one,
    of the members whose sessions end and of no other."""

    rebalance_timeout_ms: int | None = None
    """What the client does by default if None; kafka-python has none, and takes its longest poll interval."""

    max_poll_interval_ms: int | None = None
    """What the client does by default, five minutes, if None."""

    metadata_max_age_ms: int = 2000
    poll_ms: int = 500
    pattern: str | None = None
    """Subscribe to all topics whose names match this, instead of `topics`."""

    isolation_level: str = "read_uncommitted"
    auto_commit: bool = True

    user: str | None = None
    """Who logs in with a password (see `compat_tests.chaos.rights`), where brokers want one."""

    record_ms: float = 0.0
    """How long the application takes for a record."""

    at_once: int | None = None
    """The most records that it takes from the client in one call; what the client does by default if None."""

    dies_when_it_acts: bool = False
    """A leader that has judged that the load needs a rebalance kills its process before it asks for one."""

    copies_to: str | None = None
    """The topic to which a member copies what it consumes, in transactions."""

    address_space_mb: int | None = None
    """No more than this many megabytes of addresses for the process: what asks for more fails at once."""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_arguments(cls) -> MemberSpec:
        """The specification that this process was started with. From now on SIGQUIT shows what it is at."""
        faulthandler.register(signal.SIGQUIT, all_threads=True)
        spec = cls(**json.loads(sys.argv[1]))
        if spec.address_space_mb is not None:
            resource.setrlimit(resource.RLIMIT_AS, (spec.address_space_mb << 20, resource.RLIM_INFINITY))
        return spec


def sigterms() -> list[int]:
    """The SIGTERMs that this process is sent from now on: as long as there are none, it goes on.

    A `threading.Event` would not do. Its `set` takes a lock, and if a second signal interrupts it there, the
    thread waits for itself for ever.
    """
    got: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    return got


class Orders:
    """What the test wants of the application while it runs, told on standard input, a JSON object a line.

    Attributes:
        busy: the application has its hands full, and asks the client for nothing.
        pause_s: how long the listener takes, in seconds.
        draining: what a member of `rollout` announces from now on; None if nothing was said of it.
        rejoin: a cooperative member is to join again.

    Told to `count`, it reports how many bytes the process has received from each port since it started.
    """

    def __init__(self, reporter: Reporter) -> None:
        self.busy = False
        self.pause_s = 0.0
        self.draining: bool | None = None
        self.rejoin = False
        self._reporter = reporter
        self._topics: list[str] | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self.obey(json.loads(line))

    def obey(self, order: Mapping[str, Any]) -> None:
        """Called for each order, by a thread of its own."""
        self._topics = order.get("topics", self._topics)
        self.busy = order.get("busy", self.busy)
        self.pause_s = order.get("pause_s", self.pause_s)
        self.draining = order.get("draining", self.draining)
        self.rejoin = order.get("rejoin", self.rejoin)
        if "count" in order:
            self._reporter.report("received", count=order["count"], by_port=received_by_port())

    def announce(self, consumer: Any, assignors: Iterable[Any]) -> None:
        """Have a cooperative consumer announce or join as ordered, if something was since the last call."""
        draining, self.draining = self.draining, None
        rejoin, self.rejoin = self.rejoin, False
        if draining is not None:
            for assignor in assignors:
                assignor.announce(draining=draining)
        if rejoin or draining is not None:
            consumer.enforce_rebalance()

    def new_topics(self) -> list[str] | None:
        """What to subscribe to from now on; None if that has not changed since the last call."""
        topics, self._topics = self._topics, None
        return topics


class Reporter(logging.Handler):
    """Writes reports, one JSON object a line. As a logging handler it reports what our loggers warn of.

    A strategy of the tests can say something too, through the logger `STRATEGIES`.
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
        # The clock of the machine, not of the process: reports of several members are compared.
        line = json.dumps({"event": event, "at": machine_time(), **fields})
        with self._writing:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def assigned(self, member_id: str, generation: int, partitions: Iterable[tuple[str, int]]) -> None:
        self.report("assigned", member_id=member_id, generation=generation, partitions=by_topic(partitions))

    def revoked(self, partitions: Iterable[tuple[str, int]]) -> None:
        self.report("revoked", partitions=by_topic(partitions))

    def stopped(self) -> None:
        """The application takes no more records; the client may now leave the group."""
        self.report("stopped")

    def consumed(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        self.report("consumed", topic=topic, partition=partition, offsets=list(offsets))

    def failed(self, error: BaseException) -> None:
        self.report("failed", error=f"{type(error).__name__}: {error}")


def by_topic(partitions: Iterable[tuple[str, int]]) -> Mapping[str, list[int]]:
    """Topic-partitions grouped by topic, sorted."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped
