"""Incremental cooperative rebalancing for aiokafka: its consumer, driven by `kafka_assignors.rebalance`.

consumer        what the user sees
coordinator     carries out the machine's actions, and reports events to it
requests        the requests to the group's coordinator, for `kafka_assignors.rebalance.session`
topics          the topics that make a member join again when their metadata change
listener        calls of the user's listener
subscription    the fetcher's view: one assignment that partitions enter and leave

`_client` lists everything that is used of aiokafka beyond its public interface.
"""

from kafka_assignors_aiokafka.cooperative.consumer import ConsumerSettings, CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.coordinator import FencedInstanceIdError

__all__ = ["ConsumerSettings", "CooperativeAIOKafkaConsumer", "FencedInstanceIdError"]
