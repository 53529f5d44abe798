"""The sample of scenarios of a default run."""

from __future__ import annotations

import pytest

from compat_tests.differential import aiokafka_states, kafka_python_states
from compat_tests.differential.calls import AIOKAFKA, KAFKA_PYTHON
from compat_tests.differential.scenarios import sampled, scenarios_of


@pytest.mark.parametrize("client", ["aiokafka", "kafka-python"])
def test_the_sample_of_a_default_run_has_each_state_and_each_method(client: str) -> None:
    states, calls = (
        (aiokafka_states.STATES, AIOKAFKA)
        if client == "aiokafka"
        else (kafka_python_states.STATES, KAFKA_PYTHON)
    )
    scenarios = [each for state in states for each in scenarios_of(state, calls)]
    chosen = sampled(scenarios)
    assert {each.state for each in chosen} == set(states)
    assert {call.method for each in chosen for call in each.calls} == {
        call.method for each in scenarios for call in each.calls
    }
