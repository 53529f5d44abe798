"""The administrative calls that tests and recordings make to a running cluster."""

from __future__ import annotations

import concurrent.futures
import contextlib
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka import KafkaError as Code
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from compat_tests.support.hang_limit import HANG_S, wait_for

_ADMIN_TIMEOUT_S = HANG_S
_ATTEMPT_TIMEOUT_S = 5.0
_URL_SAFE = str.maketrans("+/", "-_")


class KafkaError(RuntimeError):
    """A cluster does not start or does not answer; the message quotes the broker's log if there is one."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as a broker describes it.

    Attributes:
        topic_id: in Kafka's form, 22 characters of URL-safe base64.
        replica_racks: for each partition, the racks of its replicas, leader first at creation; "" for none.
    """

    topic: str
    topic_id: str
    replica_racks: tuple[tuple[str, ...], ...]

    @property
    def partitions(self) -> int:
        return len(self.replica_racks)


class Kafka:
    """A running cluster, and the administrative calls that tests and recordings need."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    @property
    def bootstrap(self) -> str:
        """`host:port` of each broker, separated by commas."""
        return self._bootstrap

    def check(self, timeout_s: float = 10.0) -> None:
        """Raises KafkaError if no broker answers within `timeout_s` seconds."""
        self.racks(timeout_s)

    def racks(self, timeout_s: float = _ADMIN_TIMEOUT_S) -> dict[int, str | None]:
        """The rack of each live broker, by its id."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                with self.admin("describe the cluster") as admin:
                    nodes = admin.describe_cluster(request_timeout=_ATTEMPT_TIMEOUT_S).result().nodes
            except KafkaError:
                # A client that was told of a dead controller waits for it until the timeout.
                if time.monotonic() + _ATTEMPT_TIMEOUT_S > deadline:
                    raise
            else:
                return {node.id: node.rack for node in nodes}

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replicas: Sequence[Sequence[int]] | None = None,
        replication_factor: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until each of its partitions has a leader.

        Args:
            replicas: for each partition, the ids of its brokers; replaces the two counts.
            settings: settings of the topic, which override those of the broker.
        """
        where: dict[str, Any] = (
            {"num_partitions": partitions, "replication_factor": replication_factor}
            if replicas is None
            else {
                "num_partitions": len(replicas),
                "replica_assignment": [list(brokers) for brokers in replicas],
            }
        )
        new = NewTopic(topic, config=dict(settings or {}), **where)
        with self.admin(f"create topic {topic}") as admin:
            created = admin.create_topics([new], operation_timeout=_ADMIN_TIMEOUT_S)[topic]
            try:
                created.result(_ADMIN_TIMEOUT_S)
            except KafkaException as error:
                # If the response is late, the client repeats the request and then finds its own topic.
                if error.args[0].code() != Code.TOPIC_ALREADY_EXISTS:
                    raise
        self._wait_for_leaders(topic, new.num_partitions)

    def add_partitions(
        self, topic: str, total: int, *, replicas: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Grow a topic to `total` partitions; `replicas` names the brokers of each new partition."""
        assignment = (
            {} if replicas is None else {"replica_assignment": [list(brokers) for brokers in replicas]}
        )
        new = NewPartitions(topic, total, **assignment)
        with self.admin(f"add partitions to topic {topic}") as admin:
            admin.create_partitions([new], operation_timeout=_ADMIN_TIMEOUT_S)[topic].result(_ADMIN_TIMEOUT_S)
        self._wait_for_leaders(topic, total)

    def reassign(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Move the partitions of a topic to these brokers, and wait until only these brokers hold them."""
        host, port = self.bootstrap.split(",")[0].rsplit(":", 1)
        with socket.create_connection((host, int(port)), _ADMIN_TIMEOUT_S) as connection:
            connection.sendall(_reassignment(topic, replicas))
            answer = connection.makefile("rb")
            error_code, *_ = struct.unpack_from(">h", answer.read(int.from_bytes(answer.read(4), "big")), 9)
        if error_code:
            raise KafkaError(f"cannot reassign topic {topic}: error code {error_code}")
        racks = self.racks()
        wanted = [{racks[broker] for broker in brokers} for brokers in replicas]
        wait_for(
            f"the reassignment of topic {topic}",
            lambda: [set(found) for found in self.describe_topics([topic])[0].replica_racks] == wanted,
        )

    def leaders(self, topic: str) -> list[int]:
        """The id of each partition's leader."""
        with self.admin(f"read the metadata of topic {topic}") as admin:
            found = admin.list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic].partitions
        return [found[number].leader for number in sorted(found)]

    def delete_topic(self, topic: str) -> None:
        with self.admin(f"delete topic {topic}") as admin:
            admin.delete_topics([topic], operation_timeout=_ADMIN_TIMEOUT_S)[topic].result(_ADMIN_TIMEOUT_S)

    def delete_group(self, group: str) -> None:
        """Delete a group without members, and its committed offsets; the group need not exist."""
        # On a new cluster `__consumer_offsets` is still being created, or a broker does not know yet that it
        # coordinates the group. The client does not retry.
        again = (Code.NOT_COORDINATOR, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE)

        def is_deleted() -> bool:
            try:
                admin.delete_consumer_groups([group])[group].result(_ADMIN_TIMEOUT_S)
            except KafkaException as error:
                if (code := error.args[0].code()) not in (Code.GROUP_ID_NOT_FOUND, *again):
                    raise
                return bool(code == Code.GROUP_ID_NOT_FOUND)
            return True

        with self.admin(f"delete group {group}") as admin:
            wait_for("the deletion", is_deleted)

    def produce(self, records: Mapping[tuple[str, int], int]) -> None:
        """Write so many records to each of these partitions."""
        # A retry must not write a record twice.
        settings = {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "enable.idempotence": True}
        producer = Producer(settings)
        for (topic, partition), count in records.items():
            for _ in range(count):
                producer.produce(topic, b"a record", partition=partition)
        if left := producer.flush(HANG_S):
            raise TimeoutError(f"{left} records could not be written")

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets of a group without members."""

        def is_committed() -> bool:
            try:
                consumer.commit(
                    offsets=[TopicPartition(*tp, at) for tp, at in offsets.items()], asynchronous=False
                )
            except KafkaException as refused:
                # The coordinator is not ready, as the group may be the cluster's first.
                if not refused.args[0].retriable():
                    raise
                return False
            return True

        settings = {"bootstrap.servers": self.bootstrap, "group.id": group}
        with contextlib.closing(Consumer(settings)) as consumer:
            wait_for("the coordinator", is_committed)

    def describe_topics(self, topics: Sequence[str]) -> list[TopicDescription]:
        """The brokers' description of these topics, in the given order."""
        with self.admin(f"describe topics {', '.join(topics)}") as admin:
            futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_ADMIN_TIMEOUT_S)
            descriptions = [futures[topic].result(_ADMIN_TIMEOUT_S) for topic in topics]
        found = []
        for topic, description in zip(topics, descriptions, strict=True):
            racks = tuple(
                tuple(node.rack or "" for node in partition.replicas)
                for partition in sorted(description.partitions, key=lambda p: int(p.id))
            )
            found.append(TopicDescription(topic, str(description.topic_id).translate(_URL_SAFE), racks))
        return found

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Wait until every known broker shows the topic in its new state.

        Otherwise a client that asks another broker right after the change may see the old state.
        """

        def shows_it() -> bool:
            found = admin.list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic].partitions
            return len(found) == partitions and all(p.leader >= 0 for p in found.values())

        for server in self.bootstrap.split(","):
            with self.admin(
                f"see all leaders of the {partitions} partitions of topic {topic}", server
            ) as admin:
                wait_for("them", shows_it)

    @contextlib.contextmanager
    def admin(self, what: str, servers: str = "") -> Iterator[Any]:
        """An admin client for one task. It must not outlive the block, because its futures end with it.

        Such tasks are rare, and a client that is kept over a broker's restart backs off for long.
        """
        servers = servers or self.bootstrap
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        try:
            yield admin
        except (KafkaException, TimeoutError, concurrent.futures.TimeoutError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            raise KafkaError(f"cannot {what} at {servers}: {reason}") from None


def _reassignment(topic: str, replicas: Sequence[Sequence[int]]) -> bytes:
    """An AlterPartitionReassignments request, version 0, with its size. confluent-kafka has no call."""

    def compact(items: Sequence[bytes]) -> bytes:
        return bytes([len(items) + 1]) + b"".join(items)

    no_tags = b"\0"
    partitions = [
        struct.pack(">i", number) + compact([struct.pack(">i", broker) for broker in brokers]) + no_tags
        for number, brokers in enumerate(replicas)
    ]
    name = topic.encode()
    topics = compact([bytes([len(name) + 1]) + name + compact(partitions) + no_tags])
    header = struct.pack(">hhih", 45, 0, 1, -1) + no_tags
    request = header + struct.pack(">i", int(_ADMIN_TIMEOUT_S * 1000)) + topics + no_tags
    return struct.pack(">i", len(request)) + request
