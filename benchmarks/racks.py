"""The share of the bytes that consumers fetch from other racks, before and after replicas move.

    python -m benchmarks.racks

There are three brokers in three racks, a topic of 12 partitions with replicas in two racks each, and for
each client and strategy a group with a consumer in each rack: stock ones, and cooperative ones, which
follow replicas, for `rack-aware-sticky`. All groups of a kind read the same records. Then every replica
moves one rack further, and all groups read as much again. The bytes are those that the consumers' kernel
has received on their connections to each broker. Needs the clients, Java, and Linux.
"""

from __future__ import annotations

from collections.abc import Sequence

from compat_tests.scenarios.rack import (
    AT_FIRST,
    LATER,
    PARTITIONS,
    at_rest,
    groups_in_racks,
    measure,
    misses,
    moved,
)
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors.installed_client import installed_release

CLIENTS = {
    f"aiokafka {installed_release('aiokafka', 'aiokafka')}": "compat_tests.aiokafka",
    f"kafka-python {installed_release('kafka-python', 'kafka')}": "compat_tests.kafka_python",
}
STRATEGIES = {"member": ("stock:range", "range", "sticky"), "cooperative_member": ("rack-aware-sticky",)}
"""The strategies of the stock and of the cooperative consumers, by their program."""


def main() -> None:
    print("| client | strategy | at first (misplaced) | after the move (misplaced) | moved | rebalances |")
    print("|---|---|---|---|---|---|")
    with KafkaCluster(brokers=3) as kafka:
        for client, package in CLIENTS.items():
            for program, strategies in STRATEGIES.items():
                for row in rows(kafka, f"{package}.{program}", strategies):
                    print(f"| {client} | {row}", flush=True)


def rows(kafka: KafkaCluster, program: str, strategies: Sequence[str]) -> list[str]:
    """A row for each strategy."""
    with groups_in_racks(kafka, program, dict.fromkeys(strategies, program)) as groups:
        formed = [group.settle() for group in groups]
        at_first = measure(kafka, groups)
        kafka.reassign(groups[0].topic("orders"), LATER)
        if (
            "rack-aware-sticky" in strategies
        ):  # The group follows with its leader's next metadata, within 2 s.
            groups[0].settle(after=formed[0])
        settled = at_rest(groups)
        later = measure(kafka, groups)
        return [
            f"`{strategy}` | {at_first[group.id]:.1%} ({misses(before, AT_FIRST)} of {PARTITIONS}) "
            f"| {later[group.id]:.1%} ({misses(after, LATER)} of {PARTITIONS}) "
            f"| {moved(before, after)} | {after.generation - before.generation} |"
            for strategy, group, before, after in zip(strategies, groups, formed, settled, strict=True)
        ]


if __name__ == "__main__":
    main()
