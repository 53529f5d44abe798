"""The tables of allowed differences match the docs."""

from __future__ import annotations

import pytest

from compat_tests.differential import aiokafka_states, kafka_python_states
from compat_tests.differential.calls import AIOKAFKA, KAFKA_PYTHON
from compat_tests.differential.comparison import Difference, anchors_of
from compat_tests.differential.page import CLIENTS, DOCS, page
from compat_tests.differential.scenarios import sampled, scenarios_of


def test_the_page_of_differences_is_what_the_tables_say() -> None:
    written = (DOCS / "differences.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m compat_tests.differential.page"


@pytest.mark.parametrize(
    ("client", "row"), [(client, row) for client, (*_, table) in CLIENTS.items() for row in table]
)
def test_each_allowed_difference_has_its_line_in_the_docs_of_its_client(client: str, row: Difference) -> None:
    sections = anchors_of(DOCS / f"{client}.md")
    assert row.anchor in sections, f"{client}.md has no heading for #{row.anchor}"
    under = list(sections)[list(sections).index(row.anchor) :]
    assert any(row.line in sections[each] for each in under), f"{row.line!r} is not below #{row.anchor}"


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
