"""What consumers of librdkafka need, so that a busy machine does not stop them."""

from __future__ import annotations

import contextlib

from confluent_kafka import Consumer, KafkaException

__all__ = ["leave"]

_POLL_S = 0.1
_MOST_POLLS = 100


def leave(consumer: Consumer) -> None:
    """Close a consumer, after it has left the group.

    `close` alone stands still for good, and with it every thread of Python, if two rebalances wait for their
    callbacks: the first ends the membership, and the second waits for an answer from it
    (confluentinc/librdkafka issue 4884). Without a subscription and an assignment there are none.
    """
    with contextlib.suppress(KafkaException):  # raised by who has been fenced
        consumer.unsubscribe()
    for _ in range(_MOST_POLLS):
        consumer.poll(_POLL_S)
        if not consumer.assignment():
            break
    consumer.close()
