"""Compares our consumer with kafka-python's for every public method, in every state."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import KafkaConsumer, KafkaProducer

from compat_tests.differential.calls import KAFKA_PYTHON
from compat_tests.differential.comparison import (
    Both,
    Comparison,
    Difference,
    compare,
    read_table,
    stale_parts,
)
from compat_tests.differential.kafka_python_scene import Scene
from compat_tests.differential.kafka_python_states import STATES, play
from compat_tests.differential.language import PARTITIONS, RECORDS, Observations, Scenario
from compat_tests.differential.scenarios import CONSTRUCTING_STATE, public_names, quiet, sampled, scenarios_of
from compat_tests.differential.scene import ATTEMPTS, Stage
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

TABLE = read_table("kafka-python")

pytestmark = pytest.mark.timeout(900)

_AT_A_TIME = 24


class Run:
    """Performs scenarios of kafka-python's consumers on one broker."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._run = uuid.uuid4().hex[:8]
        self._topics = {role: f"{role}-{self._run}" for role in ("orders", "elsewhere", "nowhere")}
        self._numbers = itertools.count()
        kafka.create_topic(self._topics["orders"], PARTITIONS)
        kafka.create_topic(self._topics["elsewhere"], 1)
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
        for partition in range(PARTITIONS):
            for _ in range(RECORDS):
                producer.send(self._topics["orders"], b"order", partition=partition)
        producer.flush()
        producer.close()

    def perform(self, scenarios: Sequence[Scenario], patience_s: float) -> Sequence[Both]:
        stage = Stage(self._kafka, self._topics, self._run, patience_s)
        kinds = (KafkaConsumer, CooperativeKafkaConsumer)

        def observe(scenario: Scenario, kind: type[KafkaConsumer]) -> Observations:
            for _ in range(ATTEMPTS):
                scene = Scene(stage, kind, scenario, next(self._numbers))
                play(scene)
                if scene.is_reached:
                    break
            return scene.observed

        with ThreadPoolExecutor(_AT_A_TIME) as threads:
            pairs = itertools.product(scenarios, kinds)
            found = list(threads.map(lambda pair: observe(*pair), pairs))
        return list(zip(found[::2], found[1::2], strict=True))


@pytest.fixture(scope="module")
def compared(kafka: Kafka, request: pytest.FixtureRequest) -> Comparison:
    """All scenarios, performed and compared; a sample of them if no exhaustive test is selected."""
    with quiet():
        scenarios = [each for state in STATES for each in scenarios_of(state, KAFKA_PYTHON)]
        complete = any(item.get_closest_marker("exhaustive") for item in request.session.items)
        if not complete:
            scenarios = sampled(scenarios)
        compared = compare(
            scenarios, TABLE, Run(kafka).perform, patience_s=1.5, certain_s=10.0, complete=complete
        )
    print(f"\nkafka-python: {compared}")
    assert _io_threads_left() == [], "They log in the midst of later tests."
    return compared


def _io_threads_left() -> list[str]:
    """The I/O threads that still run after a time in which they may end."""
    deadline = time.monotonic() + HANG_S
    while True:
        left = [each.name for each in threading.enumerate() if each.name.startswith("kafka-io-")]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


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
    methods = public_names(KafkaConsumer) | public_names(CooperativeKafkaConsumer)
    for state, calls in compared.cells.items():
        called = {call.partition("(")[0] for call in calls}
        assert called == ({"__init__"} if state == CONSTRUCTING_STATE else methods), state
