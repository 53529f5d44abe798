"""Incremental cooperative rebalancing for kafka-python 3, driven by `kafka_assignors.rebalance`.

consumer        what the user sees
coordinator     carries out the machine's actions, and reports events to it
requests        the requests to the group's coordinator, for `kafka_assignors.rebalance.session`
topics          the topics that make a member join again when their metadata change
transactions    `commit_async`; joins wait while a transaction may be open
metrics         the metrics of the coordinator, in the registry of the client
user_thread     calls of the user's listener, and errors, in `poll`
fetching        subscription, assignment, start positions, and the fetcher, which can be woken up

`inside` lists everything that is used of kafka-python beyond its public interface.
"""

from typing import TYPE_CHECKING, Any, TypedDict

from kafka import KafkaConsumer

from kafka_assignors_kafka_python._releases import INSTALLED, IS_2

if TYPE_CHECKING or not IS_2:
    from kafka_assignors_kafka_python.cooperative.consumer import ConsumerSettings, CooperativeKafkaConsumer
else:

    class ConsumerSettings(TypedDict):
        """The arguments of a consumer that kafka-python 2 does not have."""

    class CooperativeKafkaConsumer(KafkaConsumer):  # type: ignore[misc]  # kafka-python has no types
        """Not with kafka-python 2: constructing it raises a RuntimeError that says what to use."""

        def __init__(self, *_: Any, **__: Any) -> None:
            raise RuntimeError(
                f"CooperativeKafkaConsumer needs kafka-python 3, and {INSTALLED} is installed, with which "
                "only eager assignors work: upgrade kafka-python, or use "
                "KafkaConsumer(…, partition_assignment_strategy=[StickyAssignor()])"
            )


__all__ = ["ConsumerSettings", "CooperativeKafkaConsumer"]
