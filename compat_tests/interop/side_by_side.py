"""The cost of joins, leaves and rolling restarts with each assignor, and of a change of assignor.

    python -m compat_tests.interop.side_by_side    # about ten minutes; docs/evidence.md says what came of it

The tables come from a real broker (KAFKA_BOOTSTRAP_SERVERS, or one that the program starts) with three or
four members in their own processes, while records are written and consumed. They contain no times, which
would depend on the machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from compat_tests.interop.mixed_group import (
    JAVA,
    LIBRDKAFKA,
    OUR_AIOKAFKA,
    OUR_KAFKA_PYTHON,
    STOCK_AIOKAFKA,
    STOCK_KAFKA_PYTHON,
    Kind,
    MixedGroup,
    Observed,
)
from compat_tests.support.jvm import classpath
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster

__all__ = ["main"]

TOPICS = {"orders": 12, "payments": 7}

ALONE: Sequence[tuple[str, Kind]] = [
    *[("range", kind) for kind in (OUR_AIOKAFKA, OUR_KAFKA_PYTHON, STOCK_AIOKAFKA, STOCK_KAFKA_PYTHON)],
    *[("range", kind) for kind in (JAVA, LIBRDKAFKA)],
    *[
        ("sticky", kind)
        for kind in (OUR_AIOKAFKA, OUR_KAFKA_PYTHON, STOCK_AIOKAFKA, STOCK_KAFKA_PYTHON, JAVA)
    ],
    *[("cooperative-sticky", kind) for kind in (OUR_AIOKAFKA, OUR_KAFKA_PYTHON, STOCK_KAFKA_PYTHON)],
    *[("cooperative-sticky", kind) for kind in (JAVA, LIBRDKAFKA)],
]
"""Groups of one kind of member. `roundrobin` is left out: it is like `range`, and moves as much or more."""

ROLLED: Sequence[tuple[str, Kind, Kind]] = [
    *[(name, STOCK_AIOKAFKA, OUR_AIOKAFKA) for name in ("range", "roundrobin", "sticky")],
    *[(name, STOCK_KAFKA_PYTHON, OUR_KAFKA_PYTHON) for name in ("range", "roundrobin", "sticky")],
    ("cooperative-sticky", STOCK_KAFKA_PYTHON, OUR_KAFKA_PYTHON),
    *[(name, JAVA, OUR_AIOKAFKA) for name in ("range", "roundrobin", "sticky", "cooperative-sticky")],
    *[(name, LIBRDKAFKA, OUR_AIOKAFKA) for name in ("range", "roundrobin", "cooperative-sticky")],
]
"""Names that two kinds may share in a group, which is rolled from the first to the second and back."""


@dataclass(frozen=True, slots=True)
class Table:
    title: Sequence[str]
    rows: Sequence[Sequence[str]]

    def lines(self) -> Iterator[str]:
        for row in (self.title, ["---"] * len(self.title), *self.rows):
            yield "| " + " | ".join(row) + " |"


def alone(kafka: Kafka, name: str, kind: Kind) -> list[str]:
    """A row: a fourth member joins three, the oldest leaves, and the three are restarted one by one."""
    with MixedGroup(kafka, name, TOPICS) as group:
        group.form([kind] * 3)
        joined = group.watch(lambda: group.join(kind))
        left = group.watch(lambda: group.stop(group.oldest()))
        rolled = group.watch(lambda: group.roll([kind] * 3))
    return [f"`{name}`", kind.label, *(_event(one) for one in (joined, left, rolled))]


def _event(seen: Observed) -> str:
    return (
        f"{seen.generations}; {seen.moved} ({seen.least}); {seen.revoked}; {seen.redelivered}{_double(seen)}"
    )


def rolled(kafka: Kafka, name: str, other: Kind, ours: Kind) -> Iterator[list[str]]:
    """Two rows: three members rolled from `other` to `ours`, and back."""
    with MixedGroup(kafka, name, TOPICS) as group:
        group.form([other] * 3)
        for old, new in ((other, ours), (ours, other)):
            seen = group.watch(lambda new=new: group.roll([new] * 3))  # type: ignore[misc]
            yield [
                f"`{name}`",
                f"{old.label} → {new.label}",
                ", ".join(seen.leaders),
                str(seen.generations),
                f"{seen.moved} ({seen.least})",
                f"{seen.records}",
                f"{seen.redelivered}{_double(seen)}",
            ]


def _double(seen: Observed) -> str:
    return f", **{len(seen.owned_twice)} owned twice**" if seen.owned_twice else ""


def tables(kafka: Kafka) -> Iterator[Table]:
    """Both tables; each row is printed on standard error as soon as it is complete."""

    def told(row: list[str]) -> list[str]:
        print(" | ".join(row), file=sys.stderr, flush=True)
        return row

    yield Table(
        ["name", "members", "a fourth joins", "the oldest leaves", "three are restarted"],
        [told(alone(kafka, name, kind)) for name, kind in ALONE],
    )
    yield Table(
        ["name", "rolling restart", "led by", "generations", "moved (least)", "records", "delivered again"],
        [told(row) for name, other, ours in ROLLED for row in rolled(kafka, name, other, ours)],
    )


def versions() -> str:
    """The versions with which the tables were made."""
    jar = next(Path(jar).stem for jar in classpath().split(os.pathsep) if "kafka-clients" in jar)
    clients = ", ".join(f"{name} {version(name)}" for name in ("aiokafka", "kafka-python", "confluent-kafka"))
    return f"Made with {jar.replace('-clients-', ' ')} (broker and Java), {clients}."


def main() -> int:
    with ExitStack() as running:
        existing = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        kafka = Kafka(existing) if existing else running.enter_context(KafkaCluster())
        by_event, by_pair = ("\n".join(table.lines()) for table in tables(kafka))
    print(f"{by_event}\n\n{by_pair}\n\n{versions()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
