"""Repeated actions of the consumers of aiokafka and kafka-python add no objects."""

from __future__ import annotations

import asyncio
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import GroupAuthorizationFailedError as RefusedByAiokafka
from aiokafka.errors import KafkaError as AiokafkaError
from kafka import KafkaConsumer, OffsetAndMetadata
from kafka.errors import FencedInstanceIdError as FencedInKafkaPython
from kafka.errors import GroupAuthorizationFailedError as RefusedByKafkaPython
from kafka.errors import KafkaError as KafkaPythonError

import kafka_assignors_aiokafka
import kafka_assignors_kafka_python
from compat_tests.aiokafka.in_process import Waiting, waited_for
from compat_tests.scenarios.in_process import polling_until
from compat_tests.soak.conftest import FULL, Broker
from compat_tests.soak.scenarios import TURN_MS, ObjectScenarios
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, FencedInstanceIdError
from kafka_assignors_kafka_python import CooperativeKafkaConsumer


class TestAiokafka(ObjectScenarios):
    plugin = kafka_assignors_aiokafka
    listener = aiokafka.ConsumerRebalanceListener
    kafka_error, refused, fenced = AiokafkaError, RefusedByAiokafka, FencedInstanceIdError

    def started(self, kind: str, *topics: str, **settings: Any) -> Any:
        made = CooperativeAIOKafkaConsumer if kind == "cooperative" else AIOKafkaConsumer
        consumer = Waiting(waited_for(lambda: made(*topics, **settings)))
        consumer.start()
        return consumer

    def membership(self, consumer: Any) -> tuple[str, int]:
        return consumer._coordinator.member_id, consumer._coordinator.generation

    def rest(self) -> None:
        """Make the loop drop cancelled timers: it does so only if most of more than 100 are cancelled."""

        async def cancel_many() -> None:
            loop = asyncio.get_running_loop()
            for timer in [loop.call_later(60, print) for _ in range(1000)]:
                timer.cancel()
            await asyncio.sleep(0)

        waited_for(cancel_many)

    def commit_at_once(self, consumer: Any, *, cancel: bool = False) -> None:
        async def commit() -> None:
            asked = consumer.consumer
            under_way = [
                asyncio.ensure_future(asked.commit({tp: offset}))
                for offset in range(10)
                for tp in asked.assignment()
            ]
            await asyncio.sleep(0)
            for each in under_way if cancel else ():
                each.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            await asked.commit(dict.fromkeys(asked.assignment(), 10))

        waited_for(commit)

    def test_cancelled_commits_add_nothing(self, broker: Broker) -> None:
        with self.consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
            assert self.grown(lambda: self.commit_at_once(consumer, cancel=True), times=10) == {}

    @pytest.mark.parametrize("call", ["getone", "getmany"])
    def test_cancelled_calls_for_records_add_nothing(self, broker: Broker, call: str) -> None:
        with self.quiet(broker, 1) as consumer:

            async def cancel() -> None:
                asked = consumer.consumer
                waiting = asked.getone() if call == "getone" else asked.getmany(timeout_ms=60_000)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(waiting, TURN_MS / 1000)

            assert self.grown(lambda: waited_for(cancel), times=25) == {}


class TestKafkaPython(ObjectScenarios):
    plugin = kafka_assignors_kafka_python
    listener = kafka.ConsumerRebalanceListener
    kafka_error, refused, fenced = KafkaPythonError, RefusedByKafkaPython, FencedInKafkaPython

    def started(self, kind: str, *topics: str, **settings: Any) -> Any:
        made = CooperativeKafkaConsumer if kind == "cooperative" else KafkaConsumer
        return made(*topics, **settings)

    def membership(self, consumer: Any) -> tuple[str, int]:
        generation = consumer._coordinator._generation
        return generation.member_id, generation.generation_id

    def commit_at_once(self, consumer: Any) -> None:
        answers: list[object] = []
        for offset in range(10):
            for tp in consumer.assignment():
                offsets = {tp: OffsetAndMetadata(offset, "", -1)}
                consumer.commit_async(offsets, callback=lambda *answer: answers.append(answer[1]))
        consumer.commit({tp: OffsetAndMetadata(10, "", -1) for tp in consumer.assignment()})
        polling_until(lambda: len(answers) == 20, consumer)
