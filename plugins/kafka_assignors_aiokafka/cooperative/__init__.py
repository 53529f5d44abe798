"""Incremental cooperative rebalancing for aiokafka: its consumer, driven by `kafka_assignors.rebalance`.

consumer        what the user sees
settings        the arguments that it passes on to the client's own consumer
coordinator     the machine's actions carried out, its events reported
transport       how requests reach the group's coordinator, for `kafka_assignors.rebalance.session`
requests        the requests of the group protocol
structs         requests that aiokafka has no recent version of
listener        calls of the user's listener
subscription    what the fetcher sees: one assignment that partitions enter and leave
compat          all that is used of aiokafka beside its public interface
"""

from kafka_assignors_aiokafka.cooperative.consumer import CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.coordinator import FencedInstanceIdError
from kafka_assignors_aiokafka.cooperative.settings import ConsumerSettings

__all__ = ["ConsumerSettings", "CooperativeAIOKafkaConsumer", "FencedInstanceIdError"]
