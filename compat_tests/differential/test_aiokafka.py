"""Compares our consumer with aiokafka's for every public method, in every state."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from compat_tests.differential.aiokafka_scene import AIOStage, Scene, scene_loop
from compat_tests.differential.aiokafka_states import STATES, play
from compat_tests.differential.calls import AIOKAFKA
from compat_tests.differential.comparison import (
    Both,
    Comparison,
    Difference,
    compare,
    read_table,
    stale_parts,
)
from compat_tests.differential.language import PARTITIONS, RECORDS, Observations, Scenario
from compat_tests.differential.scenarios import CONSTRUCTING_STATE, public_names, quiet, sampled, scenarios_of
from compat_tests.differential.scene import ATTEMPTS
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

TABLE = read_table("aiokafka")

pytestmark = pytest.mark.timeout(900)

_AT_A_TIME = 40
_THREADS = 300
"""Threads for members that hold a group; a scene has three at most."""


class Run:
    """Performs scenarios of aiokafka's consumers on one broker."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._run = uuid.uuid4().hex[:8]
        self._topics = {role: f"{role}-{self._run}" for role in ("orders", "elsewhere", "nowhere")}
        self._number = 0
        kafka.create_topic(self._topics["orders"], PARTITIONS)
        kafka.create_topic(self._topics["elsewhere"], 1)
        self._on_a_loop(self._produce())

    def perform(self, scenarios: Sequence[Scenario], patience_s: float) -> Sequence[Both]:
        return self._on_a_loop(self._perform(scenarios, patience_s))

    def _on_a_loop(self, what: Coroutine[Any, Any, Any]) -> Any:
        loop = scene_loop()
        with ThreadPoolExecutor(_THREADS) as threads:
            loop.set_default_executor(threads)
            try:
                return loop.run_until_complete(what)
            finally:
                loop.close()

    async def _produce(self) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self._kafka.bootstrap) as producer:
            for partition in range(PARTITIONS):
                for _ in range(RECORDS):
                    await producer.send_and_wait(self._topics["orders"], b"order", partition=partition)

    async def _perform(self, scenarios: Sequence[Scenario], patience_s: float) -> Sequence[Both]:
        some = asyncio.Semaphore(_AT_A_TIME)

        async def observe(kind: type[AIOKafkaConsumer], scenario: Scenario) -> Observations:
            async with some:
                for _ in range(ATTEMPTS):
                    self._number += 1
                    scene = Scene(stage, kind, scenario, self._number)
                    await asyncio.create_task(play(scene))
                    if scene.is_reached:
                        break
                return scene.observed

        async with AIOStage(self._kafka, self._topics, self._run, patience_s) as stage:
            kinds = (AIOKafkaConsumer, CooperativeAIOKafkaConsumer)
            found = await asyncio.gather(*(observe(kind, each) for each in scenarios for kind in kinds))
        return list(zip(found[::2], found[1::2], strict=True))


@pytest.fixture(scope="module")
def compared(kafka: Kafka, request: pytest.FixtureRequest) -> Comparison:
    """All scenarios, performed and compared; a sample of them if no exhaustive test is selected."""
    with quiet():
        scenarios = [each for state in STATES for each in scenarios_of(state, AIOKAFKA)]
        complete = any(item.get_closest_marker("exhaustive") for item in request.session.items)
        if not complete:
            scenarios = sampled(scenarios)
        compared = compare(
            scenarios, TABLE, Run(kafka).perform, patience_s=1.0, certain_s=10.0, complete=complete
        )
    print(f"\naiokafka: {compared}")
    return compared


@pytest.mark.parametrize("state", STATES)
def test_in_this_state_every_call_has_the_same_outcome_but_for_what_the_table_allows(
    compared: Comparison, state: str
) -> None:
    unexpected = [str(found) for found in compared.unexpected if found.state == state]
    assert not unexpected, "\n" + "\n".join(unexpected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason[:60])
def test_each_difference_in_the_table_occurs_in_each_state_and_call_that_it_names(
    compared: Comparison, row: Difference
) -> None:
    assert not stale_parts(row, compared)


@pytest.mark.exhaustive
def test_every_public_method_is_called_in_every_state(compared: Comparison) -> None:
    methods = public_names(AIOKafkaConsumer) | public_names(CooperativeAIOKafkaConsumer)
    for state, calls in compared.cells.items():
        called = {call.partition("(")[0] for call in calls}
        assert called == ({"__init__"} if state == CONSTRUCTING_STATE else methods), state
