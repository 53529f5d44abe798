"""Compares our consumers with those of aiokafka and kafka-python for every public method, in every state."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer

from compat_tests.differential import comparison, states
from compat_tests.differential.aiokafka_scene import AiokafkaScene
from compat_tests.differential.calls import (
    AIOKAFKA,
    CONSTRUCTING_STATE,
    KAFKA_PYTHON,
    Calls,
    sampled,
    scenarios_of,
)
from compat_tests.differential.holder import committed
from compat_tests.differential.kafka_python_scene import KafkaPythonScene
from compat_tests.differential.language import PARTITIONS, RECORDS, Observations, Scenario
from compat_tests.differential.scene import ATTEMPTS, Scene, Stage
from compat_tests.support.hang_limit import wait_for
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Client:
    stock: type
    ours: type
    scene: type[Scene]
    states: Mapping[str, states.State]
    calls: Calls
    patience_s: float
    at_a_time: int
    """The number of scenes at a time."""

    @property
    def scenarios(self) -> list[Scenario]:
        return [each for state in self.states for each in scenarios_of(state, self.calls)]


CLIENTS = {
    "aiokafka": Client(
        AIOKafkaConsumer,
        CooperativeAIOKafkaConsumer,
        AiokafkaScene,
        states.OF_AIOKAFKA,
        AIOKAFKA,
        patience_s=1.0,
        at_a_time=40,
    ),
    "kafka-python": Client(
        KafkaConsumer,
        CooperativeKafkaConsumer,
        KafkaPythonScene,
        states.OF_KAFKA_PYTHON,
        KAFKA_PYTHON,
        patience_s=1.5,
        at_a_time=24,
    ),
}


class Run:
    """Performs the scenarios of one client on one broker."""

    def __init__(self, kafka: Kafka, client: Client) -> None:
        self._kafka, self._client = kafka, client
        self._run = uuid.uuid4().hex[:8]
        self._topics = {role: f"{role}-{self._run}" for role in ("orders", "elsewhere", "nowhere")}
        self._numbers = itertools.count()
        kafka.create_topic(self._topics["orders"], PARTITIONS)
        kafka.create_topic(self._topics["elsewhere"], 1)
        kafka.produce({(self._topics["orders"], partition): RECORDS for partition in range(PARTITIONS)})
        # A new broker has no coordinator until a first lookup has created `__consumer_offsets`.
        committed(kafka, "any")

    def perform(self, scenarios: Sequence[Scenario], patience_s: float) -> Sequence[comparison.Both]:
        stage = Stage(self._kafka, self._topics, self._run, patience_s)

        def observe(scenario: Scenario, kind: type) -> Observations:
            for _ in range(ATTEMPTS):
                scene = self._client.scene(stage, kind, scenario, next(self._numbers))
                asyncio.run(states.play(scene))
                if scene.is_reached:
                    break
            return scene.observed

        with ThreadPoolExecutor(self._client.at_a_time) as threads:
            pairs = itertools.product(scenarios, (self._client.stock, self._client.ours))
            found = list(threads.map(lambda pair: observe(*pair), pairs))
        return list(zip(found[::2], found[1::2], strict=True))


TABLES = {name: comparison.read_table(name) for name in CLIENTS}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Disable logging and warnings: thousands of provoked errors would fill the report of a failed test."""
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    finally:
        logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def compared(kafka: Kafka, request: pytest.FixtureRequest) -> Callable[[str], comparison.Comparison]:
    """The scenarios of a client, performed and compared once; a sample if no exhaustive test is selected."""
    complete = any(item.get_closest_marker("exhaustive") for item in request.session.items)

    @functools.cache
    def of_client(name: str) -> comparison.Comparison:
        client = CLIENTS[name]
        with quiet():
            found = comparison.compare(
                client.scenarios if complete else sampled(client.scenarios),
                TABLES[name],
                Run(kafka, client).perform,
                patience_s=client.patience_s,
                certain_s=10.0,
                complete=complete,
            )
        print(f"\n{name}: {found}")
        wait_for(
            "the end of the I/O threads, which would log in the midst of later tests",
            lambda: not any(thread.name.startswith("kafka-io-") for thread in threading.enumerate()),
        )
        return found

    return of_client


@pytest.mark.parametrize(
    ("client", "state"), [(name, state) for name, client in CLIENTS.items() for state in client.states]
)
def test_in_this_state_every_call_has_the_same_outcome_but_for_what_the_table_allows(
    compared: Callable[[str], comparison.Comparison], client: str, state: str
) -> None:
    unexpected = [str(found) for found in compared(client).unexpected if found.state == state]
    assert not unexpected, "\n" + "\n".join(unexpected)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("client", "row"),
    [
        pytest.param(name, row, id=f"{name}-{row.reason[:60]}")
        for name, table in TABLES.items()
        for row in table
    ],
)
def test_each_difference_in_the_table_occurs_in_each_state_and_call_that_it_names(
    compared: Callable[[str], comparison.Comparison], client: str, row: comparison.Difference
) -> None:
    assert not comparison.stale_parts(row, compared(client))


def public_names(consumer: type) -> set[str]:
    """The public methods and properties of a consumer, including those that Python calls implicitly.

    The constructor is not included, because it has its own state.
    """
    own = {"__del__", "__aiter__", "__anext__", "__aenter__", "__aexit__"}
    own |= {"__iter__", "__next__", "__enter__", "__exit__"}
    own &= {name for kind in consumer.__mro__ if kind is not object for name in vars(kind)}
    return {name for name in dir(consumer) if not name.startswith("_") or name in own}


@pytest.mark.exhaustive
@pytest.mark.parametrize("client", CLIENTS)
def test_every_public_method_is_called_in_every_state(
    compared: Callable[[str], comparison.Comparison], client: str
) -> None:
    methods = public_names(CLIENTS[client].stock) | public_names(CLIENTS[client].ours)
    for state, calls in compared(client).cells.items():
        called = {call.partition("(")[0] for call in calls}
        assert called == ({"__init__"} if state == CONSTRUCTING_STATE else methods), state


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_the_sample_of_a_default_run_has_each_state_and_each_method(client: Client) -> None:
    chosen = sampled(client.scenarios)
    assert {each.state for each in chosen} == set(client.states)
    assert {call.method for each in chosen for call in each.calls} == {
        call.method for each in client.scenarios for call in each.calls
    }
