"""A member program (see `compat_tests.support.member_reports`): librdkafka, eager or cooperative.

The member reports a partition as assigned before it takes it, and as revoked after it has given it up.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException

from compat_tests.support.member_reports import MemberSpec, Orders, Reporter, sigterms

_UNKNOWN_GENERATION = -1
_POLL_S = 0.1
_MOST_POLLS = 100


class Member:
    """The application around one consumer, and its listener."""

    def __init__(self, spec: MemberSpec, protocol: Mapping[str, object], *, cooperative: bool) -> None:
        """`protocol` holds the settings of the group protocol, and others that the specification lacks."""
        self._spec = spec
        self._settings: dict[str, object] = {
            "bootstrap.servers": spec.bootstrap,
            "group.id": spec.group,
            "client.id": spec.name,
            "auto.offset.reset": "earliest",
            "client.rack": spec.rack or "",
            "topic.metadata.refresh.interval.ms": spec.metadata_max_age_ms,
            **protocol,
        }
        if spec.instance_id is not None:
            self._settings["group.instance.id"] = spec.instance_id
        if spec.max_poll_interval_ms is not None:
            self._settings["max.poll.interval.ms"] = spec.max_poll_interval_ms
        self._cooperative = cooperative
        self._reporter = Reporter()
        self._orders = Orders()
        self._owned: set[tuple[str, int]] = set()
        self._topics = spec.topics
        self._stopping = sigterms()
        self._consumer = Consumer(self._settings)

    def run(self) -> None:
        """Consume until SIGTERM."""
        self._subscribe(self._topics)
        try:
            while not self._stopping:
                if (topics := self._orders.new_topics()) is not None:
                    self._subscribe(topics)
                if self._orders.busy:
                    time.sleep(0.05)
                    continue
                # One message per poll, so that listener calls come between two records.
                self._polled(self._consumer.poll(_POLL_S))
            self._ending()
        finally:
            self._reporter.stopped()
            self._leave()
            self._reporter.report("closed")

    def _polled(self, message: Any) -> None:
        """Called for each poll; None if there was no message."""
        if message is None:
            return
        if (error := message.error()) is not None:
            self._reporter.report("refused", error=error.str())
        else:
            self._reporter.consumed(message.topic(), message.partition(), [message.offset()])

    def _ending(self) -> None:
        """Called before a member that was asked to end leaves its group."""

    def _subscribe(self, topics: Sequence[str]) -> None:
        self._topics = topics
        self._consumer.subscribe(
            list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _leave(self) -> None:
        """Leave the group, then close the consumer.

        `close` alone can hang for good, with every thread of Python, if two rebalances wait for their
        callbacks: the first ends the membership, and the second waits for an answer from it
        (confluentinc/librdkafka issue 4884). Without a subscription and an assignment, there are no such
        callbacks.
        """
        with contextlib.suppress(KafkaException):  # raised for a fenced member
            self._consumer.unsubscribe()
        for _ in range(_MOST_POLLS):
            self._consumer.poll(_POLL_S)
            if not self._consumer.assignment():
                break
        self._consumer.close()

    # ---- the listener

    def _tell_what_is_owned(self) -> None:
        self._reporter.assigned(self._consumer.memberid(), _UNKNOWN_GENERATION, self._owned)

    def _assigned(self, _: Consumer, partitions: list[Any]) -> None:
        self._owned |= named(partitions)
        self._tell_what_is_owned()
        time.sleep(self._orders.pause_s)
        (self._consumer.incremental_assign if self._cooperative else self._consumer.assign)(partitions)

    def _revoked(self, _: Consumer, partitions: list[Any]) -> None:
        time.sleep(self._spec.revoke_s)
        if self._cooperative:
            self._consumer.incremental_unassign(partitions)
        else:
            self._consumer.unassign()
        gone = named(partitions)
        self._owned -= gone
        self._reporter.revoked(gone)
        if self._cooperative:
            self._tell_what_is_owned()

    def _lost(self, consumer: Consumer, partitions: list[Any]) -> None:
        self._revoked(consumer, partitions)


def named(partitions: Iterable[Any]) -> set[tuple[str, int]]:
    return {(tp.topic, tp.partition) for tp in partitions}


def classic(spec: MemberSpec) -> dict[str, object]:
    """The settings of the classic protocol."""
    return {
        "partition.assignment.strategy": ",".join(spec.assignors),
        "session.timeout.ms": spec.session_timeout_ms,
        "heartbeat.interval.ms": spec.heartbeat_interval_ms,
    }


if __name__ == "__main__":
    spec = MemberSpec.from_arguments()
    Member(spec, classic(spec), cooperative="cooperative-sticky" in spec.assignors).run()
