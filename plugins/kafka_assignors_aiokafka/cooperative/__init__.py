"""Incremental cooperative rebalancing for aiokafka: its consumer, driven by `kafka_assignors.rebalance`.

consumer        what the user sees
coordinator     the machine's actions carried out, its events reported
joins           JoinGroup and SyncGroup
commits         commits under way
requests        requests and what their answers mean
structs         requests that aiokafka has no recent version of
partitions      what the fetcher sees: one assignment that partitions enter and leave
inside          all that is used of aiokafka beside its public interface
"""

from kafka_assignors_aiokafka.cooperative.consumer import CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.coordinator import FencedInstanceIdError

__all__ = ["CooperativeAIOKafkaConsumer", "FencedInstanceIdError"]
