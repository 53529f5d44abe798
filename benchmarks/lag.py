"""`weighted` and `cooperative-sticky` in a real group whose partitions lag: docs/weighted.md.

    python -m benchmarks.lag                          # two minutes; needs what `make test` needs
    python -m benchmarks.lag --client kafka-python

Each member is a process with our cooperative consumer, and leaders read the lag from the brokers
(`LagWeights`). Of 24 partitions, three lag by 700 records and the others by 100, so that the three have half
of the lag; later three others lag by 900 more. Members do not read records meanwhile, so the lag is the same
under both strategies (`compat_tests.support.lagging_group`).
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence

from benchmarks.rolling import PROGRAMS
from benchmarks.rules import listed
from compat_tests.scenarios.cooperative import CooperativeGroup
from compat_tests.support.kafka_cluster import KafkaCluster
from compat_tests.support.lagging_group import live_with_lag
from compat_tests.support.same_events import loads

PARTITIONS = 24
_ASSIGNORS = {"`cooperative-sticky`": "cooperative-sticky", "`weighted`": "weighted:0"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A real group whose partitions lag.")
    parser.add_argument("--client", choices=PROGRAMS, default="aiokafka")
    options = parser.parse_args(arguments)
    *heavy, one, two, three = random.Random(1).sample(range(PARTITIONS), 6)
    records = [700 if number in heavy else 100 for number in range(PARTITIONS)]
    rows: dict[str, list[str]] = {}
    with KafkaCluster() as kafka:
        for name, assignor in _ASSIGNORS.items():
            with CooperativeGroup(kafka, PROGRAMS[options.client], {"orders": PARTITIONS}) as group:
                for found in live_with_lag(group, assignor, records, dict.fromkeys((one, two, three), 900)):
                    step, by_weight = found.step, found.loads
                    cells = (
                        step.event,
                        name,
                        f"{by_weight.makespan} ({by_weight.ratio:.2f})",
                        listed(loads(step)),
                        step.revoked,
                        step.added,
                    )
                    rows.setdefault(step.event, []).append(f"| {' | '.join(map(str, cells))} |")
    print(
        "| event | strategy | greatest lag, of the bound | partitions of each member "
        "| taken from members that stay | got |\n|---|---|---|---|--:|--:|"
    )
    # At the first event the first member owns all partitions, under any strategy.
    for event in list(rows.values())[1:]:
        print("\n".join(event))
    return 0


if __name__ == "__main__":
    sys.exit(main())
