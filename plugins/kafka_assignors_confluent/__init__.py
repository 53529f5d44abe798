"""Consumer groups of a running cluster, read with confluent-kafka's admin client.

    with Cluster("broker:9092") as cluster:
        for group in cluster.read_groups(["orders"]):
            print(group.id, group.state, group.loads, group.lag)

The values are those of `kafka_assignors.live_group`. Nothing here joins a group, commits or creates a topic;
only `Cluster.delete_groups` changes anything.
"""

from kafka_assignors_confluent._cluster import Cluster, GroupListing, Listing, Progress
from kafka_assignors_confluent._connection import (
    AuthenticationError,
    ClusterError,
    ConfigurationError,
    Connection,
    NotAuthorizedError,
    Troubles,
    UnreachableError,
    silent_logger,
)
from kafka_assignors_confluent._describe import (
    DescribedTopics,
    describe_topics,
    read_broker_settings,
    read_group_record,
    replica_racks,
    topic_of,
)

__all__ = [
    "AuthenticationError",
    "Cluster",
    "ClusterError",
    "ConfigurationError",
    "Connection",
    "DescribedTopics",
    "GroupListing",
    "Listing",
    "NotAuthorizedError",
    "Progress",
    "Troubles",
    "UnreachableError",
    "describe_topics",
    "read_broker_settings",
    "read_group_record",
    "replica_racks",
    "silent_logger",
    "topic_of",
]
