"""Settings of a broker, as it tells them itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_assignors_confluent._connection import Connection

__all__ = ["read_broker_settings"]


def read_broker_settings(
    servers: str, config: Mapping[str, str], names: Collection[str], timeout_s: float
) -> dict[str, str]:
    """The values of these settings at one broker of the cluster; a name that it does not know is left out.

    `config` are librdkafka's properties. Raises `ClusterError`: `NotAuthorizedError` without the right to
    describe the cluster's configuration.
    """
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

    connection = Connection(servers, config, timeout_s)
    cluster = connection.result(
        "cannot find a broker", connection.admin.describe_cluster(request_timeout=timeout_s)
    )
    resource = ConfigResource(ResourceType.BROKER, str(min(node.id for node in cluster.nodes)))
    told = connection.result(
        "cannot read the settings of a broker",
        connection.admin.describe_configs([resource], request_timeout=timeout_s)[resource],
        "DescribeConfigs on Cluster 'kafka-cluster'",
    )
    return {name: str(told[name].value) for name in names if name in told and told[name].value is not None}
