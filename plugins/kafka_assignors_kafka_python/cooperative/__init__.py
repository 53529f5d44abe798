"""Incremental cooperative rebalancing for kafka-python 3, driven by `kafka_assignors.rebalance`.

consumer        what the user sees
coordinator     the machine's actions carried out, its events reported
joins           JoinGroup and SyncGroup
commits         commits under way
errors          what the user has to hear of
listening       calls of the user's listener
transactions    joins wait while a transaction may be open
positions       where to begin with added partitions
group_requests  where the coordinator is, and what is sent to it
heartbeats      heartbeats
latencies       kafka-python's metrics of all this
requests        requests and what their answers mean
partitions      subscription, assignment, and what the fetcher may touch
fetching        the fetcher, which can be woken up
inside          all that is used of kafka-python beside its public interface
unsupported     what there is in the place of all this with kafka-python 2
"""

from kafka_assignors_kafka_python._client import MODULE

if MODULE == "v3":
    from kafka_assignors_kafka_python.cooperative.consumer import CooperativeKafkaConsumer
else:
    from kafka_assignors_kafka_python.cooperative.kafka_python_2 import CooperativeKafkaConsumer

__all__ = ["CooperativeKafkaConsumer"]
