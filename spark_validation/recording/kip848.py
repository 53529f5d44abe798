"""Records what a broker writes of KIP-848 groups when something happens to them that is seldom seen:

    python -m spark_validation.recording.kip848 spark_validation/tests/data/kip848

* `moved`: a member of the new protocol joins a classic group and leaves it (online migration, both ways);
* `pods`: two static members leave, and one of them comes back; partitions are added to their topic;
* `patterns`: a member subscribes by a regular expression, and a new topic matches it;
* `again`: a group is deleted and created again.

The folder becomes a history (`raw/`, `topics.parquet`). The command takes about five minutes; times and ids
differ from run to run. The members are librdkafka's, in this process.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from pathlib import Path
from typing import Any

from compat_tests.support.kafka_cluster import Kafka, KafkaCluster
from spark_validation.recording.catalogue import CatalogueLog
from spark_validation.recording.offsets_topic import read_group_records

__all__ = ["record"]

_SESSION_S = 45
_REGEX_REFRESH_S = 10
_SETTINGS: dict[str, object] = {
    "group.consumer.session.timeout.ms": _SESSION_S * 1000,
    "group.consumer.regex.refresh.interval.ms": _REGEX_REFRESH_S * 1000,
    "group.consumer.min.regex.refresh.interval.ms": _REGEX_REFRESH_S * 1000,
}
_STEP_S = 16.0


class _Members:
    """Consumers by name; this thread polls all of them."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._consumers: dict[str, Any] = {}

    def join(
        self, name: str, group: str, topic: str, *, protocol: str = "consumer", instance: str | None = None
    ) -> None:
        """Add a member, and let the group settle."""
        from confluent_kafka import Consumer

        settings: dict[str, Any] = {
            "bootstrap.servers": self._kafka.bootstrap,
            "client.id": f"confluent-{name}",
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            settings |= {"partition.assignment.strategy": "range", "session.timeout.ms": _SESSION_S * 1000}
        if instance is not None:
            settings["group.instance.id"] = instance
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        self._consumers[name] = consumer
        self.settle()

    def leave(self, name: str) -> None:
        """Close a member; a static member announces that it will be back."""
        self._consumers.pop(name).close()
        self.settle()

    def settle(self, seconds: float = _STEP_S) -> None:
        """Poll all members for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for consumer in self._consumers.values():
                consumer.poll(0.05)
            time.sleep(0.05)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


def record(folder: Path) -> None:
    """Play all scenes on our own broker, and write its records to `folder`, which must not exist."""
    folder.mkdir(parents=True)
    with KafkaCluster(brokers=1, settings=_SETTINGS) as kafka:
        catalogue = CatalogueLog(kafka)
        for topic, partitions in (("orders", 6), ("payments", 3), ("refunds", 2)):
            kafka.create_topic(topic, partitions)
        catalogue.note(["orders", "payments", "refunds"])
        with contextlib.closing(_Members(kafka)) as members:
            _moved(members)
            _pods(kafka, catalogue, members)
            _patterns(kafka, catalogue, members)
            _again(kafka, members)
        read_group_records(kafka.bootstrap).write(folder)
        catalogue.write(folder / "topics.parquet")


def _moved(members: _Members) -> None:
    members.join("moved-1", "moved", "orders", protocol="classic")
    members.join("moved-2", "moved", "orders", protocol="classic")
    members.join("moved-3", "moved", "orders")
    members.leave("moved-3")
    members.leave("moved-1")
    members.leave("moved-2")


def _pods(kafka: Kafka, catalogue: CatalogueLog, members: _Members) -> None:
    members.join("pods-0", "pods", "refunds", instance="pod-0")
    members.join("pods-1", "pods", "refunds", instance="pod-1")
    members.leave("pods-0")
    members.join("pods-0b", "pods", "refunds", instance="pod-0")
    kafka.add_partitions("refunds", 5)
    catalogue.note(["refunds"])
    members.settle()
    members.leave("pods-1")
    members.settle(_SESSION_S + _STEP_S)


def _patterns(kafka: Kafka, catalogue: CatalogueLog, members: _Members) -> None:
    members.join("patterns-1", "patterns", "^pay.*")
    kafka.create_topic("paybacks", 2)
    catalogue.note(["paybacks"])
    members.settle(_REGEX_REFRESH_S + _STEP_S)


def _again(kafka: Kafka, members: _Members) -> None:
    from confluent_kafka.admin import AdminClient

    members.join("again-1", "again", "orders")
    members.join("again-2", "again", "orders")
    members.leave("again-1")
    members.leave("again-2")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for future in admin.delete_consumer_groups(["again"], request_timeout=30).values():
        future.result()
    members.join("again-3", "again", "orders")


def main() -> None:
    """Record into the folder given on the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0].rstrip(":"))
    parser.add_argument("folder", type=Path, help="where to write; must not exist")
    record(parser.parse_args().folder)


if __name__ == "__main__":
    main()
