"""The shared part of both clients' programs: the order that they get, and the file of samples."""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compat_tests.soak.counts import count

__all__ = [
    "BUSY",
    "COOPERATIVE",
    "EAGER",
    "IDLE",
    "PARTITIONLESS",
    "PAUSED",
    "REBALANCING",
    "RESTARTING",
    "STANDBY",
    "STOCK",
    "Order",
    "Samples",
    "Turns",
]

COOPERATIVE, EAGER, STOCK = "cooperative", "eager", "stock"
"""This project's cooperative consumer, the stock consumer with an assignor of this project, and the stock
consumer without changes."""

BUSY, IDLE, PARTITIONLESS, PAUSED = "busy", "idle", "partitionless", "paused"
STANDBY, REBALANCING, RESTARTING = "standby", "rebalancing", "restarting"

TURN_MS = 1000
"""How long one call waits for records."""


@dataclass(frozen=True, slots=True)
class Order:
    """The settings of one process.

    Attributes:
        name: of the consumer; the broker sorts members by it.
        consumer: COOPERATIVE, EAGER or STOCK.
        role: how the application uses the consumer.
        file: of the samples.
        sample_every_s: seconds from one sample to the next.
    """

    name: str
    client: str
    consumer: str
    role: str
    bootstrap: str
    group: str
    topics: tuple[str, ...]
    file: str
    sample_every_s: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_arguments(cls) -> Order:
        fields: dict[str, Any] = json.loads(sys.argv[1])
        return cls(**{**fields, "topics": tuple(fields["topics"])})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the consumer, the same for both clients."""
        return {
            "bootstrap_servers": self.bootstrap,
            "group_id": self.group,
            "client_id": self.name,
            "auto_offset_reset": "latest",
            "heartbeat_interval_ms": 1000,
            "session_timeout_ms": 30_000,
            "auto_commit_interval_ms": 2000,
            "metadata_max_age_ms": 60_000,
            "fetch_max_wait_ms": 1000,
        }


class Samples:
    """A file with one sample in each line; a sample has only the types whose number has changed."""

    def __init__(self, order: Order) -> None:
        self._path = Path(order.file)
        self._every_s = order.sample_every_s
        self._due = time.monotonic()
        self._types: dict[str, int] = {}
        tracemalloc.start()

    def take_if_due(self, **facts: int) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        # The interval starts now, so that samples do not pile up on a slow machine.
        self._due = now + self._every_s
        counts, types = count()
        changed = {
            name: types.get(name, 0)
            for name in types.keys() | self._types.keys()
            if types.get(name, 0) != self._types.get(name, 0)
        }
        self._types = types
        line = json.dumps(
            {"at": time.time(), "cpu_s": time.process_time(), **facts, **counts.as_dict(), "types": changed}
        )
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class Turns:
    """Counts calls for records, and decides in which of them the application does something else."""

    def __init__(self) -> None:
        self.number = 0
        self.records = 0

    def next(self, records: int) -> None:
        self.number += 1
        self.records += records

    def is_each(self, number: int, after: int = 0) -> bool:
        """Whether this is turn `after` of a cycle of `number` turns."""
        return self.number % number == after
