"""Closing a librdkafka consumer without the risk of a hang."""

from __future__ import annotations

import contextlib

from confluent_kafka import Consumer, KafkaException

__all__ = ["leave"]

_POLL_S = 0.1
_MOST_POLLS = 100


def leave(consumer: Consumer) -> None:
    """Leave the group, then close the consumer.

    `close` alone can hang for good, with every thread of Python, if two rebalances wait for their callbacks:
    the first ends the membership, and the second waits for an answer from it (confluentinc/librdkafka issue
    4884). Without a subscription and an assignment, there are no such callbacks.
    """
    with contextlib.suppress(KafkaException):  # raised for a fenced member
        consumer.unsubscribe()
    for _ in range(_MOST_POLLS):
        consumer.poll(_POLL_S)
        if not consumer.assignment():
            break
    consumer.close()
