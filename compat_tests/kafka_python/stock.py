"""A workaround for consumers with kafka-python's own assignors, which may hang on a busy machine."""

from __future__ import annotations

from collections.abc import Iterable

from kafka import KafkaConsumer

__all__ = ["learn_of"]


def learn_of(consumer: KafkaConsumer, topics: Iterable[str]) -> None:
    """Make a subscribed consumer learn its topics before it joins.

    A leader that does not know a topic does not assign it, learns of it, and joins again. If that second join
    outlasts the poll in which it began, it has no effect, and the consumer hangs for good without an error
    (docs/consumers.md, "Limits of the stock consumers").
    """
    for topic in topics:
        consumer.partitions_for_topic(topic)
