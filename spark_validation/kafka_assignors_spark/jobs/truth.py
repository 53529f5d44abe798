"""The accuracy check on Spark: `folds.truth` over every generation, and the result's summary of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.clients import MUST_MATCH
from kafka_assignors_spark.folds.generations import CLASSIC
from kafka_assignors_spark.folds.rebalances import COLUMNS, Generation
from kafka_assignors_spark.folds.truth import CHECKED_STRATEGIES, CheckOutcome, check_generation
from kafka_assignors_spark.jobs.per_group import apply_to_rows
from kafka_assignors_spark.result import ClientAgreement, Difference, TruthCheck
from kafka_assignors_spark.schemas import CHECKED

__all__ = ["check", "truth_of"]

_MOST_LISTED = 1_000
"""Differences that are listed one by one; the rest is counted."""


def check(steps: DataFrame, catalogue: Catalogue) -> DataFrame:
    """Every generation in `history.steps` that a leader formed with range or roundrobin, as
    `schemas.CHECKED`.

    The repetition of a generation by a restarted static member is not a leader's work, and is left out.
    """

    class Checker:
        """Spark makes one per task, and hands it one generation after the other."""

        def __init__(self) -> None:
            self._strategies = {name: load_strategy(name) for name in CHECKED_STRATEGIES}

        def eval(self, row: Any) -> Iterator[tuple[Any, ...]]:
            record = Generation.from_row(row)
            strategy = self._strategies[record.protocol]
            yield astuple(
                check_generation(record, strategy, catalogue, row["leader"] or "", row["partition"])
            )

    led = steps.where(
        (F.col("type") == CLASSIC)  # the broker's assignors of these names follow rules of their own
        & ~F.col("empty")
        & ~F.col("replacement")
        & F.col("protocol").isin(*CHECKED_STRATEGIES)
    )
    return apply_to_rows(led.select("partition", *COLUMNS), Checker, CHECKED)


def truth_of(checked: DataFrame) -> TruthCheck:
    clients: dict[tuple[str, str], list[Row]] = {}
    for row in _agreement(checked).collect():
        clients.setdefault((row["client"], row["strategy"]), []).append(row)
    differing = checked.where(
        F.col("outcome").isin(CheckOutcome.EXPLAINED.value, CheckOutcome.UNEXPLAINED.value)
    )
    rows = differing.orderBy("partition", "offset").limit(_MOST_LISTED).drop("outcome").collect()
    return TruthCheck(
        clients=tuple(_client(*key, rows) for key, rows in sorted(clients.items())),
        differences=tuple(Difference(**row.asDict()) for row in rows),
    )


def _client(client: str, strategy: str, rows: Iterable[Row]) -> ClientAgreement:
    by_outcome: dict[str, int] = {}
    explained: dict[str, int] = {}
    for row in rows:
        by_outcome[row["outcome"]] = by_outcome.get(row["outcome"], 0) + row["count"]
        if row["explanation"]:
            explained[row["explanation"]] = row["count"]
    unchecked = by_outcome.get(CheckOutcome.UNCHECKED.value, 0)
    return ClientAgreement(
        client=client,
        strategy=strategy,
        must_match=client in MUST_MATCH,
        checked=sum(by_outcome.values()) - unchecked,
        matched=by_outcome.get(CheckOutcome.MATCHED.value, 0),
        unchecked=unchecked,
        explained=explained,
        unexplained=by_outcome.get(CheckOutcome.UNEXPLAINED.value, 0),
    )


def _agreement(checked: DataFrame) -> DataFrame:
    """How many rows of `schemas.CHECKED` there are of each client, strategy, outcome and explanation."""
    return checked.groupBy("client", "strategy", "outcome", "explanation").count()
