"""A replayed strategy that modifies its arguments changes only its own rows."""

from __future__ import annotations

import pytest

from kafka_assignors.group import Topic
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.history.group_replay import Replayed
from spark_validation.tests.folding import measured, replay_group
from spark_validation.tests.test_rebalances import generation, had
from tests.hostile_strategy import HOSTILE, RuiningLater

SIX = Catalogue([CatalogueEntry(None, Topic("orders", 6))])
RECORDS = (
    generation(1, had("a", {"orders": [0, 1, 2, 3, 4, 5]})),
    generation(2, had("a", {"orders": [0, 1, 2]}), had("b", {"orders": [3, 4, 5]})),
    generation(3, had("a", {"orders": [0, 1]}), had("b", {"orders": [3, 4]}), had("c", {"orders": [2, 5]})),
    generation(4, had("b", {"orders": [0, 3, 4]}), had("c", {"orders": [1, 2, 5]})),
)


def rows(strategies: dict[str, Strategy]) -> list[Replayed]:
    return list(replay_group(RECORDS, SIX, strategies))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_rows_of_the_others_and_of_what_was_recorded_are_the_same(hostile: type[Strategy]) -> None:
    others = {name: load_strategy(name) for name in ("range", "sticky", "cooperative-sticky")}
    expected = rows(others)
    found = rows({"first": hostile(), **others, "last": hostile()})
    assert [row for row in found if row.strategy not in ("first", "last")] == expected
    assert any(measured(row).moved for row in expected if row.strategy == "recorded")
    own = [row for row in found if row.strategy in ("first", "last")]
    if hostile is RuiningLater:
        optimal = [row._replace(strategy="") for row in expected if row.strategy == "cooperative-sticky"]
        assert [row._replace(strategy="") for row in own if row.strategy == "last"] == optimal
    else:
        assert all(row.problem for row in own)
