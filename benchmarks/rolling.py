"""A real rolling deployment under each strategy, on a broker of its own: the figures in docs/rules.md.

    python -m benchmarks.rolling                       # two minutes; needs what `make test` needs
    python -m benchmarks.rolling --client kafka-python --pods 6 --partitions 30

Each pod is a process with our cooperative consumer, which commits in its listener. New pods start one at a
time, and for each an old one stops, while records are written. The exit code is 0, or 1 if a record was
missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

from compat_tests.scenarios.cooperative import CooperativeGroup
from compat_tests.support.kafka_cluster import KafkaCluster
from compat_tests.support.rolling_deployment import Counted, deploy

PROGRAMS = {
    "aiokafka": "compat_tests.aiokafka.cooperative_member",
    "kafka-python": "compat_tests.kafka_python.cooperative_member",
}
_WAYS: Mapping[str, tuple[Callable[[str], str], bool]] = {
    "`rollout`": (lambda release: f"rollout:{release}", False),
    "`rollout`, old pods drain": (lambda release: f"rollout:{release}", True),
    "`cooperative-sticky`": (lambda _: "cooperative-sticky", False),
}
_HEAD = (
    "| strategy | taken from pods that stay | given up by draining pods | got | greatest load "
    "| generations | records | twice | missing |\n|---|---|---|---|---|---|---|---|---|"
)


def _row(name: str, counted: Counted) -> str:
    figures = (
        counted.revoked_from_live,
        counted.handed_over_draining,
        counted.added,
        counted.greatest_load,
        counted.generations,
        counted.records,
        counted.doubled,
        counted.missing,
    )
    return f"| {name} | {' | '.join(map(str, figures))} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A real rolling deployment under each strategy.")
    parser.add_argument("--client", choices=PROGRAMS, default="aiokafka")
    parser.add_argument("--pods", type=int, default=4, help="pods of each release (4)")
    parser.add_argument("--partitions", type=int, default=24, help="partitions of the one topic (24)")
    options = parser.parse_args(arguments)
    missing = 0
    with KafkaCluster() as kafka:
        print(_HEAD, flush=True)
        for name, (assignor_of, draining) in _WAYS.items():
            with CooperativeGroup(kafka, PROGRAMS[options.client], {"orders": options.partitions}) as group:
                counted = deploy(group, options.pods, assignor_of, draining=draining)
            print(_row(name, counted), flush=True)
            missing += counted.missing
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
