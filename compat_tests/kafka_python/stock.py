"""What consumers of kafka-python need with its own assignors, so that a busy machine does not stop them."""

from __future__ import annotations

from collections.abc import Iterable

from kafka import KafkaConsumer

__all__ = ["learn_of"]


def learn_of(consumer: KafkaConsumer, topics: Iterable[str]) -> None:
    """Have a consumer that has subscribed know its topics before it joins.

    A leader that does not assigns nothing, learns of the topic, and joins again. If that second join outlasts
    the poll in which it began, nothing comes of it and the consumer stands still for good, without an error
    (docs/kafka-python.md, "Limits of the assignors in the stock consumer").
    """
    for topic in topics:
        consumer.partitions_for_topic(topic)
