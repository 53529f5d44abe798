"""The stand-in for the cooperative consumer under kafka-python 2, which refuses to start."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer

from kafka_assignors_kafka_python._client import INSTALLED

__all__ = ["CooperativeKafkaConsumer"]


class CooperativeKafkaConsumer(KafkaConsumer):  # type: ignore[misc]  # kafka-python has no types
    """Not with kafka-python 2: constructing it raises a RuntimeError that says what to use."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError(
            f"CooperativeKafkaConsumer needs kafka-python 3, and {INSTALLED} is installed, with which only "
            "eager assignors work: upgrade kafka-python, or use "
            "KafkaConsumer(…, partition_assignment_strategy=[StickyAssignor()])"
        )
