"""A broker that can refuse the heartbeats of a group, and topics with and without records."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from compat_tests.support.fault_proxy import FaultProxy
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import KafkaCluster
from compat_tests.support.secured_cluster import Right, rule, rule_filter

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
FULL, QUIET, BESIDES = "full", "quiet", "besides"
PARTITIONS, RECORDS = 2, 50


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker. Topic `FULL` has `RECORDS` in each of its `PARTITIONS`; the other topics are empty."""

    bootstrap: str
    producer: Any
    admin: Any
    proxy: FaultProxy

    def new_group(self) -> str:
        return uuid.uuid4().hex

    def produce(self, number: int = 1) -> None:
        """Write `number` records to each partition of `FULL`."""
        for _ in range(number):
            for partition in range(PARTITIONS):
                self.producer.produce(FULL, b"x" * 100, partition=partition)
        self.producer.flush(HANG_S)

    def refuse(self, group: str) -> None:
        """Answer the group requests of this group with GROUP_AUTHORIZATION_FAILED, heartbeats included."""
        for future in self.admin.create_acls([_denial(group)]).values():
            future.result(HANG_S)

    def accept(self, group: str) -> None:
        """Undo `refuse`."""
        for future in self.admin.delete_acls([rule_filter(_denial(group))]).values():
            future.result(HANG_S)


def _denial(group: str) -> Any:
    return rule("ANONYMOUS", Right("Read", "Group", group), "DENY")


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with FaultProxy() as proxy, KafkaCluster(settings=SETTINGS, proxy=proxy) as kafka:
        kafka.create_topic(FULL, PARTITIONS)
        kafka.create_topic(QUIET, 1)
        kafka.create_topic(BESIDES, 1)
        settings = {"bootstrap.servers": kafka.bootstrap, "log_level": 0, "linger.ms": 0}
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        found = Broker(kafka.bootstrap, Producer(settings), admin, proxy)
        found.produce(RECORDS)
        yield found


@pytest.fixture(autouse=True)
def _without_logs() -> Iterator[None]:
    """Disable logging: pytest keeps each log record, and the counts would grow."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
