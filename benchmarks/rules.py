"""A real group under strategies made of rules, and under `cooperative-sticky`: docs/rules.md.

    python -m benchmarks.rules                        # three minutes; needs what `make test` needs
    python -m benchmarks.rules --client kafka-python
    python -m benchmarks.rules --at-once              # both topics are read from the beginning

Each member is a process with our cooperative consumer. All strategies go through the same events.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.rolling import PROGRAMS
from compat_tests.scenarios.cooperative import CooperativeGroup, owned
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster
from compat_tests.support.same_events import (
    AssignorOf,
    Step,
    alerts_first,
    announcing,
    joined_tasks,
    live_through,
    loads,
    orders_with_payments,
)

Rules = Callable[[CooperativeGroup, Path], "str | AssignorOf"]

_BY_CAPACITY = "LevelByCapacity()"
_WITH_STANDBY = "StandbyLast(active_at_least=2), LevelPartitions()"


def listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _run(
    kafka: Kafka,
    program: str,
    orders: int,
    topic: tuple[str, int],
    rules: dict[str, Rules],
    what: str,
    of_interest: Callable[[CooperativeGroup, Step], str],
    at_once: bool,
) -> None:
    print(f"| event | strategy | {what} | partitions of each member | taken from members that stay | got |")
    print("|---|---|---|---|--:|--:|", flush=True)
    rows: dict[str, list[str]] = {}
    topics = {"orders": orders} | (dict([topic]) if at_once else {})
    for name, rule in rules.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            CooperativeGroup(kafka, program, topics) as group,
        ):
            for step in live_through(group, rule(group, Path(folder)), *topic):
                cells = (step.event, name, of_interest(group, step), listed(loads(step)))
                row = f"| {' | '.join(cells)} | {step.revoked} | {step.added} |"
                rows.setdefault(step.event, []).append(row)
    # The first rows are left out: members join one after the other, as fast as their processes start.
    for event in list(rows)[1:]:
        print("\n".join(rows[event]), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A real group under strategies of rules.")
    parser.add_argument("--client", choices=PROGRAMS, default="aiokafka")
    parser.add_argument("--at-once", action="store_true", help="let all read both topics from the beginning")
    options = parser.parse_args(arguments)
    program = PROGRAMS[options.client]
    sticky: dict[str, Rules] = {"`cooperative-sticky`": lambda _, __: "cooperative-sticky"}
    with KafkaCluster() as kafka:
        _run(
            kafka,
            program,
            44,
            ("alerts", 4),
            {**sticky, "`alerts` first": alerts_first},
            "`alerts` of each member",
            lambda group, step: listed(loads(step, group.topic("alerts"))),
            options.at_once,
        )
        _run(
            kafka,
            program,
            12,
            ("payments", 12),
            {**sticky, "`together`": orders_with_payments},
            "joined numbers, of 12",
            lambda group, step: str(joined_tasks(step, group.topic("orders"), group.topic("payments"))),
            options.at_once,
        )
        _run(
            kafka,
            program,
            12,
            ("payments", 12),
            {
                **sticky,
                "`capacity`": lambda group, folder: announcing(
                    group, folder, _BY_CAPACITY, {"b": "capacity=2", "d": "capacity=2"}
                ),
                "`standby`": lambda group, folder: announcing(
                    group, folder, _WITH_STANDBY, {"d": "standby=True"}
                ),
            },
            "a, b, c, d",
            lambda group, step: listed(
                [len(owned(step.settled, name)) for name in sorted(step.settled.names)]
            ),
            True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
