"""Rebalances replayed with the consumption rates before them: equal on both engines and in any chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_assignors_replay.engine import Limits
from kafka_assignors_replay.engine_choice import ENGINES
from kafka_assignors_replay.folds.group_replay import Replayed
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.report.as_html import html_report
from kafka_assignors_replay.report.as_json import json_report
from kafka_assignors_replay.result import RECORDED, Mode, ReplayError, ReplayOptions, ReplayResult, Verdict
from spark_validation.tests.groups import Log, member, write_commits, write_history

INTERVAL_S = 2
RATES = {0: 900, 1: 40, 2: 40, 3: 20}
"""The records between two commits of a partition, which are 4 seconds apart."""


def consumed(log: Log, group: str, rounds: int, begin: int = 0) -> None:
    """Append rounds of commits of four partitions; each commit is one second after the previous one."""
    for number in range(begin, begin + rounds):
        for partition, records in RATES.items():
            log.commit(group, "orders", partition, 1_000 + number * records)


def uneven() -> Log:
    """A group with nine tenths of its traffic in partition 0, one without commits, one with commits only."""
    log = Log()
    log.generation("uneven", 1, member("a", gets={"orders": [0, 1, 2, 3]}))
    log.generation("quiet", 1, member("q", gets={"orders": [0, 1, 2, 3]}))
    consumed(log, "uneven", 6)
    log.commit("commits-alone", "orders", 0, 5)
    log.generation("uneven", 2, member("a", gets={"orders": [0, 1]}), member("b", gets={"orders": [2, 3]}))
    consumed(log, "uneven", 6, begin=6)
    log.generation(
        "uneven",
        3,
        member("a", gets={"orders": [0, 1]}),
        member("b", gets={"orders": [2]}),
        member("c", gets={"orders": [3]}),
    )
    log.generation("quiet", 2, member("q", gets={"orders": [0, 1]}), member("r", gets={"orders": [2, 3]}))
    log.commit("uneven", "orders", 0, 77)
    return log


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A history for a test to change."""
    return written(tmp_path / "history")


def written(path: Path) -> Path:
    log = uneven()
    write_history(path, log, {"orders": 4})
    write_commits(path, log, INTERVAL_S)
    return path


OPTIONS = ReplayOptions(strategies=("range", "cooperative-sticky", "weighted"), sample_groups=9)


def result(path: Path, engine: str, limits: Limits | None = None, **options: object) -> ReplayResult:
    asked = replace(OPTIONS, path=str(path), **options)  # type: ignore[arg-type]
    given = {} if limits is None else {"limits": limits}
    return replace(run_replay(asked, lambda _: None, engine=engine, **given), seconds=0.0)  # type: ignore[arg-type]


def verdict(found: ReplayResult, strategy: str, group: str = "uneven") -> Verdict:
    (only,) = (
        each
        for each in found.verdicts
        if (each.group, each.strategy, each.mode) == (group, strategy, Mode.STEADY_STATE)
    )
    return only


@dataclass(frozen=True)
class Whole:
    """The unchanged history, its result on each engine, and its tables in a folder named after the engine."""

    path: Path
    results: dict[str, ReplayResult]


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    path = written(tmp_path_factory.mktemp("whole") / "history")
    found = {engine: result(path, engine, tables=str(path.parent / engine)) for engine in ENGINES}
    return Whole(path, {engine: without_tables(each) for engine, each in found.items()})


def without_tables(found: ReplayResult) -> ReplayResult:
    return replace(found, options=replace(found.options, tables=None), files=())


def test_both_engines_weigh_each_rebalance_by_the_rates_before_it(whole: Whole) -> None:
    on_spark, here = (whole.results[engine] for engine in ENGINES)
    assert json_report(on_spark) == json_report(here)
    assert here.warnings == ()
    assert {group.group for group in here.groups} == {"uneven", "quiet"}
    assert verdict(here, "weighted").rated == 2
    assert verdict(here, "weighted").rate_over_bound == 1.0
    for strategy in ("range", "cooperative-sticky", RECORDED):
        assert (verdict(here, strategy).rate_over_bound or 0) > 1.02, strategy
    assert verdict(here, "weighted", "quiet").rated == 0
    assert verdict(here, "weighted", "quiet").rate_over_bound is None
    assert "greatest rate / bound" in html_report(here)


def rows(folder: Path, **wanted: object) -> Iterator[Replayed]:
    table = pq.read_table(folder / "replayed", partitioning=None)
    for row in table.to_pylist():
        if all(row[name] == value for name, value in wanted.items()):
            yield Replayed(**row)


def test_the_rows_have_the_greatest_rate_and_its_bound(whole: Whole) -> None:
    folder = whole.path.parent
    on_spark, here = (
        sorted(map(str, pq.read_table(folder / engine / "replayed").to_pylist())) for engine in ENGINES
    )
    assert on_spark == here
    place = {"group": "uneven", "mode": Mode.STEADY_STATE.value, "generation": 2}
    (weighted,) = rows(folder / ENGINES[0], strategy="weighted", **place)
    (by_number,) = rows(folder / ENGINES[0], strategy="range", **place)
    # The rates are 225, 10, 10 and 5 records a second.
    assert (weighted.greatest_rate, weighted.rate_bound) == (225.0, 225.0)
    assert (by_number.greatest_rate, by_number.rate_bound) == (235.0, 225.0)
    assert weighted.unknown_rates == 0
    (quiet,) = rows(folder / ENGINES[0], group="quiet", strategy="weighted", mode=place["mode"], generation=2)
    assert (quiet.greatest_rate, quiet.rate_bound, quiet.unknown_rates) == (None, None, None)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_rates_are_the_same_in_chunks_and_slices(whole: Whole, engine: str) -> None:
    in_chunks = result(whole.path, engine, Limits(chunk_bytes=1_500, slice_bytes=3_000))
    assert json_report(in_chunks) == json_report(whole.results[engine])


def test_without_kept_commits_all_is_as_before_and_weighted_says_that_it_counts(history: Path) -> None:
    (history / "committed.parquet").unlink()
    here = result(history, "local")
    assert len(here.warnings) == 1
    assert here.warnings[0].startswith("weighted counts partitions here, because no rates of consumption")
    assert all(each.rated == 0 and each.rate_over_bound is None for each in here.verdicts)
    assert "greatest rate" not in html_report(here)
    assert result(history, "local", strategies=("range",)).warnings == ()


def test_commits_of_other_groups_are_left_out_with_them(spark: SparkSession, history: Path) -> None:
    on_spark, here = (result(history, engine, groups=("quiet",)) for engine in ENGINES)
    assert json_report(on_spark) == json_report(here)
    assert [group.group for group in here.groups] == ["quiet"]


def rewrite(history: Path, column: str, values: pa.Array) -> None:
    table = pq.read_table(history / "committed.parquet")
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, values), history / "committed.parquet")


NULLABLE = ("group", "topic", "topic_partition", "committed", "interval_s")


@pytest.mark.parametrize("column", NULLABLE)
def test_commits_that_say_nothing_are_no_rates(history: Path, column: str) -> None:
    count = pq.read_table(history / "committed.parquet").num_rows
    kind = pq.read_table(history / "committed.parquet").schema.field(column).type
    rewrite(history, column, pa.nulls(count, kind))
    assert (verdict(result(history, "local"), "weighted").rated > 0) == (column == "interval_s")


def test_both_engines_take_commits_without_a_value_in_any_column(spark: SparkSession, history: Path) -> None:
    table = pq.read_table(history / "committed.parquet")
    for place, column in enumerate(NULLABLE):
        values = table[column].to_pylist()
        values[place :: 2 * len(NULLABLE)] = [None] * len(values[place :: 2 * len(NULLABLE)])
        rewrite(history, column, pa.array(values, table.schema.field(column).type))
    on_spark, here = (result(history, engine) for engine in ENGINES)
    assert json_report(on_spark) == json_report(here)
    assert verdict(here, "weighted").rated > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_commits_without_a_place_or_of_another_type_are_refused(
    spark: SparkSession, history: Path, engine: str
) -> None:
    count = pq.read_table(history / "committed.parquet").num_rows
    rewrite(history, "offset", pa.nulls(count, pa.int64()))
    with pytest.raises(ReplayError, match=f"column offset is null, negative or too large in {count} records"):
        result(history, engine)
    rewrite(history, "offset", pa.array(["one"] * count))
    with pytest.raises(ReplayError, match="column offset has type string, and should have bigint"):
        result(history, engine)


def test_a_damaged_file_of_commits_is_named_and_may_be_left_out(spark: SparkSession, history: Path) -> None:
    (history / "committed.parquet").write_bytes(b"PAR1 and no more")
    for engine in ENGINES:
        with pytest.raises(ReplayError, match=r"committed\.parquet.*--skip-corrupt"):
            result(history, engine)
    on_spark, here = (result(history, engine, skip_corrupt=True) for engine in ENGINES)
    assert json_report(on_spark) == json_report(here)
    assert json.loads(json_report(here))["damaged_files"] == 1
