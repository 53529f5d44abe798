"""Groups that read transactional records: each committed record is delivered once, also across rebalances.

Every client with isolation levels runs them: a test module subclasses the scenarios and names its program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka

__all__ = ["TransactionScenarios", "TransactionalWriter"]

Record = tuple[str, int, int]
"""Topic, partition, offset."""


class TransactionalWriter:
    """Writes records to all partitions of a group's topics, in transactions that the test ends."""

    def __init__(self, group: GroupOfMembers) -> None:
        from confluent_kafka import Producer

        self._group = group
        self._producer: Any = Producer(
            {
                "bootstrap.servers": group.kafka.bootstrap,
                "transactional.id": f"writer-{group.id}",
            }
        )
        self._producer.init_transactions(30)
        self.committed: set[Record] = set()
        self.aborted: set[Record] = set()

    @contextlib.contextmanager
    def transaction(self, *, commit: bool, records_per_partition: int = 5) -> Iterator[None]:
        """Write a transaction's records to the broker, and leave it open until the block ends."""
        written: set[Record] = set()

        def delivered(error: object, message: Any) -> None:
            assert error is None, error
            written.add((message.topic(), message.partition(), message.offset()))

        self._producer.begin_transaction()
        for topic, partitions in self._group.topics.items():
            for partition in range(partitions):
                for _ in range(records_per_partition):
                    self._producer.produce(topic, b"a record", partition=partition, on_delivery=delivered)
        assert self._producer.flush(HANG_S) == 0
        yield
        if commit:
            self._producer.commit_transaction(30)
            self.committed |= written
        else:
            self._producer.abort_transaction(30)
            self.aborted |= written


class TransactionScenarios:
    program: ClassVar[str]
    strategy: ClassVar[str] = "sticky"

    def group(self, kafka: Kafka, **topics: int) -> GroupOfMembers:
        return GroupOfMembers(kafka, self.program, topics)

    def test_records_of_aborted_transactions_are_never_seen_and_those_of_committed_ones_once(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6) as group:
            writer = TransactionalWriter(group)
            for commit in (True, False, True):
                with writer.transaction(commit=commit):
                    pass
            for name in ("a", "b"):
                group.start(name, [self.strategy], isolation_level="read_committed")
            settled = group.settle()
            group.wait_for("what was committed", lambda: writer.committed <= group.consumed().keys())

            # Two transactions are open while partitions move: the first aborts, the second commits.
            for name, commit in (("c", False), ("d", True)):
                with writer.transaction(commit=commit):
                    group.start(name, [self.strategy], isolation_level="read_committed")
                    settled = group.settle(after=settled)
                    assert group.consumed().keys() == writer.committed
            with writer.transaction(commit=True):
                pass
            consumed = group.wait_for(
                "what was committed",
                lambda: seen if writer.committed <= (seen := group.consumed()).keys() else None,
            )
            assert consumed.keys() == writer.committed
            assert {record for record, times in consumed.items() if times > 1} == set()
