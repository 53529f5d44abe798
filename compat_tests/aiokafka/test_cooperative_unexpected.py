"""CooperativeAIOKafkaConsumers after unexpected errors, and after a sleep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import KafkaError

from compat_tests.aiokafka.in_process import AIOKafkaInProcess, waited_for
from compat_tests.scenarios.unexpected import UnexpectedScenarios
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka.cooperative.requests import RequestingCoordinator
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeAssignment
from kafka_assignors_aiokafka.cooperative.topics import WatchingCoordinator

pytestmark = pytest.mark.exhaustive


class TestUnexpected(UnexpectedScenarios, AIOKafkaInProcess):
    requesting, watching, stock = RequestingCoordinator, WatchingCoordinator, GroupCoordinator
    kafka_error = KafkaError

    def refresh_metadata(self, consumer: Any) -> None:
        client = consumer.coordinator._client
        waited_for(client.force_metadata_update)

    def hold_requests(self, consumer: Any) -> Callable[[], object]:
        coordinator, answering = consumer.coordinator, asyncio.Event()
        send = coordinator._send_req

        async def send_when_awake(request: Any) -> Any:
            await answering.wait()
            return await send(request)

        coordinator._send_req = send_when_awake
        return lambda: waited_for(answering.set)

    def must_deliver_nothing(self, consumer: Any) -> None:
        with pytest.raises(asyncio.TimeoutError):  # Otherwise they would be delivered at once.
            waited_for(lambda: asyncio.wait_for(consumer.consumer.getone(), 2))

    def open_connections(self, consumer: Any) -> int:
        return sum(each.connected() for each in consumer.coordinator._client._conns.values())

    @pytest.mark.parametrize(
        ("owner", "name"),
        [(RequestingCoordinator, "offset_commit"), (CooperativeAssignment, "all_consumed_offsets")],
    )
    def test_an_unexpected_error_of_an_automatic_commit_is_told_too(
        self, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
    ) -> None:
        automatic = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}
        self.goes_on_after(kafka, monkeypatch, owner, name, **automatic)
