"""Groups of CooperativeAIOKafkaConsumers whose brokers fail, restart, or gain and lose replicas."""

from __future__ import annotations

import asyncio

import pytest

from compat_tests.aiokafka.cooperative_consumers import consuming, of
from compat_tests.scenarios.cooperative import LostCoordinatorScenarios, RollingBrokersScenarios
from compat_tests.scenarios.rack import RackTradeScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.exhaustive

PROGRAM = "compat_tests.aiokafka.cooperative_member"


class TestLostCoordinator(LostCoordinatorScenarios):
    program = PROGRAM


class TestRollingBrokers(RollingBrokersScenarios):
    program = PROGRAM


class TestRackTrade(RackTradeScenarios):
    program = PROGRAM


def test_committed_does_not_trust_a_broker_that_is_not_the_coordinator(
    kafka3: KafkaCluster,
) -> None:
    async def ask_each_broker() -> None:
        async with consuming(group) as consumer:
            (tp,) = of(group, 0)
            await consumer.commit({tp: 5})
            for broker, server in zip(kafka3.pids, kafka3.bootstrap.split(","), strict=True):
                host, port = server.split(":")
                cluster = consumer._client.cluster
                if hasattr(cluster, "add_coordinator"):  # up to aiokafka 0.12
                    cluster.add_coordinator(broker, host, int(port), purpose=("group", group.id))
                consumer._coordinator.coordinator_id = broker
                assert await asyncio.wait_for(consumer.committed(tp), HANG_S) == 5

    with GroupOfMembers(kafka3, PROGRAM, {"orders": 1}) as group:
        group.produce(10)
        asyncio.run(ask_each_broker())
