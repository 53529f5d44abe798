"""The share of the bytes that consumers fetch from other racks, before and after replicas move.

    python -m benchmarks.racks

There are three brokers in three racks, a topic of 12 partitions with replicas in two racks each, and for each
client and strategy a group with a consumer in each rack. All groups read the same records. Then every replica
moves one rack further, and all groups read as much again. The bytes are those that the consumers' kernel has
received on their connections to each broker. Needs the clients, Java, and Linux.
"""

from __future__ import annotations

from compat_tests.scenarios.rack import AT_FIRST, LATER, PARTITIONS, groups_in_racks, measure, misses, moved
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors.client_versions import installed_release

CLIENTS = {
    f"aiokafka {installed_release('aiokafka', 'aiokafka')}": "compat_tests.aiokafka.member",
    f"kafka-python {installed_release('kafka-python', 'kafka')}": "compat_tests.kafka_python.member",
}
STRATEGIES = ("stock:range", "range", "sticky", "rack-aware-sticky")


def main() -> None:
    print("| client | strategy | at first (misplaced) | after the move (misplaced) | moved | rebalances |")
    print("|---|---|---|---|---|---|")
    with KafkaCluster(brokers=3) as kafka:
        for client, program in CLIENTS.items():
            for row in rows(kafka, program):
                print(f"| {client} | {row}", flush=True)


def rows(kafka: KafkaCluster, program: str) -> list[str]:
    """A row for each strategy."""
    with groups_in_racks(kafka, program, dict.fromkeys(STRATEGIES, program)) as groups:
        formed = [group.settle() for group in groups]
        at_first = measure(kafka, groups)
        kafka.reassign(groups[0].topic("orders"), LATER)
        # A strategy that reacts to the move does so with its leader's next metadata, at most 2 s later.
        for strategy, group, before in zip(STRATEGIES, groups, formed, strict=True):
            if strategy in ("range", "rack-aware-sticky"):
                group.settle(after=before)
        settled = [group.settle() for group in groups]
        later = measure(kafka, groups)
        return [
            f"`{strategy}` | {at_first[group.id]:.1%} ({misses(before, AT_FIRST)} of {PARTITIONS}) "
            f"| {later[group.id]:.1%} ({misses(after, LATER)} of {PARTITIONS}) "
            f"| {moved(before, after)} | {after.generation - before.generation} |"
            for strategy, group, before, after in zip(STRATEGIES, groups, formed, settled, strict=True)
        ]


if __name__ == "__main__":
    main()
