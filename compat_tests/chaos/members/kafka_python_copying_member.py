"""A member program for kafka-python that copies consumed records, and commits its offsets, in transactions.

The member has one producer. Offsets are sent with the group metadata at the time of the poll, so the broker
rejects those of a member that was removed meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, TimeoutError
from typing import Any

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from compat_tests.chaos.members import application, kafka_python_member
from compat_tests.support.member_reports import MemberSpec, by_topic

_CLOSE_TIMEOUT_S = 5.0
_TRANSACTION_TIMEOUT_S = 2 * application.TRANSACTION_TIMEOUT_MS / 1000
"""Long after the broker has aborted the transaction."""


class CopyingMember(kafka_python_member.Member):
    """The same application, with transactions instead of commits."""

    max_records = 1000

    def __init__(self, spec: MemberSpec) -> None:
        super().__init__(spec)
        self._producer: KafkaProducer | None = None
        self._to_begin_again: set[TopicPartition] = set()
        """Partitions of a failed transaction: they are read again from the committed offset."""

    def _process(self, batch: dict[TopicPartition, Sequence[Any]]) -> None:
        batch = {tp: records for tp, records in batch.items() if tp not in self._to_begin_again}
        if batch:
            for tp, records in batch.items():
                self._reporter.consumed(tp.topic, tp.partition, [record.offset for record in records])
            try:
                # From here to the next poll, no join begins.
                self._in_time(self._copy, batch, self._consumer.group_metadata())
            except KafkaError as error:
                self._reporter.failed(error, "transaction_failed", partitions=by_topic(batch))
                self._to_begin_again.update(batch)
                self._abort()
        self._begin_again()
        # Meanwhile, records collect for the next transaction.
        time.sleep(application.COMMIT_EVERY_S / 3)

    def _copy(self, batch: dict[TopicPartition, Sequence[Any]], membership: Any) -> None:
        producer = self._running_producer()
        producer.begin_transaction()
        sent = [
            producer.send(self._spec.copies_to, application.copy_of(tp.topic, tp.partition, record.offset))
            for tp, records in batch.items()
            for record in records
        ]
        # When kafka-python 3.0.12 raises the producer's epoch, it forgets a record that it could not send,
        # and ends the transaction without an error.
        producer.flush(_TRANSACTION_TIMEOUT_S)
        for future in sent:
            future.get(0)
        offsets = {tp: OffsetAndMetadata(records[-1].offset + 1, "", -1) for tp, records in batch.items()}
        producer.send_offsets_to_transaction(offsets, membership)
        producer.commit_transaction()

    def _running_producer(self) -> KafkaProducer:
        if self._producer is None:
            producer = KafkaProducer(
                bootstrap_servers=self._spec.bootstrap,
                client_id=self._spec.name,
                transactional_id=f"{self._spec.group}-{self._spec.name}",
                transaction_timeout_ms=application.TRANSACTION_TIMEOUT_MS,
                request_timeout_ms=application.REQUEST_TIMEOUT_MS,
                delivery_timeout_ms=application.REQUEST_TIMEOUT_MS + 1000,
                max_block_ms=application.REQUEST_TIMEOUT_MS,
            )
            try:
                producer.init_transactions()
            except BaseException:
                producer.close(_CLOSE_TIMEOUT_S)
                raise
            self._producer = producer
        return self._producer

    def _abort(self) -> None:
        """End the transaction and the producer.

        Otherwise kafka-python 3.0.12 would commit the offsets of the aborted transaction in the next one.
        """
        if self._producer is not None:
            try:
                self._in_time(self._producer.abort_transaction)
            except KafkaError as error:
                self._reporter.failed(error, "raised")
            self._drop_producer()

    def _in_time(self, call: Callable[..., object], *arguments: object) -> None:
        """Call on another thread, and drop the producer if the call takes too long.

        kafka-python 3.0.12 can wait for the end of a transaction forever.
        """
        done: Future[object] = Future()

        def run() -> None:
            try:
                done.set_result(call(*arguments))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        try:
            done.result(_TRANSACTION_TIMEOUT_S)
        except TimeoutError:
            self._drop_producer()
            late = f"the transaction has not ended after {_TRANSACTION_TIMEOUT_S:g} s"
            raise KafkaTimeoutError(late) from None

    def _drop_producer(self) -> None:
        """Drop the producer. The next one with its transactional id fences it, and aborts its transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # Closing may take as long as the call that it waits for.
            threading.Thread(target=producer.close, args=[_CLOSE_TIMEOUT_S], daemon=True).start()

    def _begin_again(self) -> None:
        """Read on from the committed offsets, once all transactions of this member have ended."""
        self._to_begin_again &= self._consumer.assignment()
        try:
            if self._to_begin_again:
                self._running_producer()
            for tp in list(self._to_begin_again):
                self._consumer.seek(tp, self._consumer.committed(tp) or 0)
                self._to_begin_again.discard(tp)
        except KafkaError as error:
            self._reporter.failed(error, "raised")

    def _commit_without_waiting(self) -> None:
        """Offsets are committed in transactions instead."""

    def _commit(self, partitions: Collection[Any] | None = None) -> None:
        """Offsets are committed in transactions, and none is open while the listener runs."""

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._drop_producer()


if __name__ == "__main__":
    CopyingMember(MemberSpec.from_arguments()).run()
