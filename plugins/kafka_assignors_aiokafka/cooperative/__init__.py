"""Incremental cooperative rebalancing for aiokafka: its consumer, driven by `kafka_assignors.rebalance`.

consumer        what the user sees
coordinator     the machine's actions carried out, its events reported
transport       the requests to the group's coordinator, for `kafka_assignors.rebalance.session`
listener        calls of the user's listener
subscription    what the fetcher sees: one assignment that partitions enter and leave

All that is used of aiokafka beside its public interface is listed in `_client`.
"""

from kafka_assignors_aiokafka.cooperative.consumer import ConsumerSettings, CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.coordinator import FencedInstanceIdError

__all__ = ["ConsumerSettings", "CooperativeAIOKafkaConsumer", "FencedInstanceIdError"]
