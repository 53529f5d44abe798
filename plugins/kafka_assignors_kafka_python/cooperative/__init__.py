"""Incremental cooperative rebalancing for kafka-python 3, driven by `kafka_assignors.rebalance`.

consumer        what the user sees
settings        the arguments that it passes on to the client's own consumer
coordinator     the machine's actions carried out, its events reported
transport       how requests reach the group's coordinator, for `kafka_assignors.rebalance.session`
requests        the requests of the group protocol
leading         what a leader does before its SyncGroup
commits         `commit_async`
listener        calls of the user's listener
transactions    joins wait while a transaction may be open
positions       where to begin with added partitions
subscription    subscription, assignment, and what the fetcher may touch
fetcher         the fetcher, which can be woken up
user_errors     errors that `poll` raises
latencies       kafka-python's metrics of all this
compat          all that is used of kafka-python beside its public interface
kafka_python_2  what there is in the place of all this with kafka-python 2
"""

from typing import TYPE_CHECKING

from kafka_assignors_kafka_python._client import MODULE
from kafka_assignors_kafka_python.cooperative.settings import ConsumerSettings

if TYPE_CHECKING or MODULE == "v3":
    from kafka_assignors_kafka_python.cooperative.consumer import CooperativeKafkaConsumer
else:
    from kafka_assignors_kafka_python.cooperative.kafka_python_2 import CooperativeKafkaConsumer

__all__ = ["ConsumerSettings", "CooperativeKafkaConsumer"]
