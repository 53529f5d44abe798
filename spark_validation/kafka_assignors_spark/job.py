"""The whole replay, from a path or a broker to a `ReplayResult`.

`run_replay` connects the tables (see `schemas`), collects each of them once, and turns errors of Spark and
the clients into a `ReplayError` of one line.
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, Row, SparkSession

import kafka_assignors
from kafka_assignors.strategies.registry import StrategyError, load_strategy
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.jobs import history, kip848, metrics
from kafka_assignors_spark.jobs.causes import causes_of, churn_by_day, churn_of
from kafka_assignors_spark.jobs.checkpoint import Checkpoint
from kafka_assignors_spark.jobs.faults import culprits_of, find_faults
from kafka_assignors_spark.jobs.ownership import drawn_groups, ownership_of
from kafka_assignors_spark.jobs.read import catalogue_of, live_records, recorded_records
from kafka_assignors_spark.jobs.sample import check_sample, draw
from kafka_assignors_spark.jobs.session import java_version, spark_session, task_progress
from kafka_assignors_spark.jobs.slices import (
    InMemorySlices,
    Limits,
    SliceStore,
    in_slices,
    plan,
    replay_slices,
)
from kafka_assignors_spark.jobs.spark_errors import SPARK_ERRORS, one_line
from kafka_assignors_spark.jobs.summaries import group_summary, timeline_of, verdict_of
from kafka_assignors_spark.jobs.tables import check_folder, files_of_groups, write_tables
from kafka_assignors_spark.jobs.truth import check, truth_of
from kafka_assignors_spark.options import RECORDED, Progress, ReplayError, ReplayOptions
from kafka_assignors_spark.report.findings import PLOTTED_GROUPS, find_among
from kafka_assignors_spark.result import (
    GroupSummary,
    HistorySummary,
    ReplayResult,
    SampleCheck,
    TableFile,
    TimelineRow,
    UndecodableRecord,
    Verdict,
)
from kafka_assignors_spark.timestamps import from_micros

__all__ = ["run_replay"]

PHASES = (
    "starting Spark",
    "reading the history",
    "replaying",
    "checking against the record",
    "summing up",
)

_MOST_LISTED = 1_000
"""Undecodable records and differences that are listed one by one; the rest is counted."""

_MOST_SHOWN = 5
"""Those that an error names."""

_LIMITS = Limits()


def run_replay(
    options: ReplayOptions, on_progress: Callable[[Progress], None], limits: Limits = _LIMITS
) -> ReplayResult:
    """Replay a history. `on_progress` is called often, and from another thread while Spark works. `limits`
    say how much of it is replayed at a time.

    Raises `ReplayError` for every problem with the input, the options or the environment.
    """
    started = time.monotonic()
    _check(options)
    phases = _Phases(on_progress)
    phases.begin()
    java = java_version()
    with (
        spark_session(options.master, options.spark_config) as spark,
        _one_line_errors(),
        contextlib.ExitStack() as cached,
    ):

        def keep(rows: DataFrame) -> DataFrame:
            rows.persist()
            cached.callback(rows.unpersist)
            return rows

        with phases.tasks(spark):
            read = _read(spark, options, keep)
        with phases.tasks(spark):
            consumers, replayed = _replay(spark, options, limits, read, keep, phases)
            verdicts = tuple(verdict_of(row) for row in metrics.verdicts(replayed).collect())
        with phases.tasks(spark):
            checked = keep(check(consumers, read.catalogue))
            truth = truth_of(checked)
            sample = _sample(read, replayed, options)
        with phases.tasks(spark):
            groups = _groups(read, replayed, options)
            faults = keep(find_faults(consumers, options.fault_rules))
            causes = keep(causes_of(consumers, read.catalogue))
            result = ReplayResult(
                options=options,
                history=_history(options, read.counts, groups),
                groups=groups,
                verdicts=verdicts,
                timeline=_timeline(replayed, verdicts, groups, options),
                ownership=ownership_of(consumers, drawn_groups(groups, verdicts)),
                churn=churn_of(churn_by_day(causes)),
                culprits=culprits_of(faults),
                truth=truth,
                sample=sample,
                undecodable=read.undecodable,
                warnings=read.warnings,
                files=_write_tables(spark, options, read, replayed, causes, faults, checked),
                versions=_versions(java),
                seconds=0.0,
            )
    return replace(result, seconds=time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _ReadHistory:
    """The result of the first phase: data frames (see `schemas`), and values collected from them.

    `counts` are those of `metrics.record_counts`, `facts` the rows of `metrics.group_facts`.
    """

    raw: DataFrame
    events: DataFrame
    folded: DataFrame
    generations: DataFrame
    catalogue: Catalogue
    counts: Mapping[str, Any]
    facts: Sequence[Row]
    undecodable: tuple[UndecodableRecord, ...]
    warnings: tuple[str, ...]


def _read(
    spark: SparkSession, options: ReplayOptions, keep: Callable[[DataFrame], DataFrame]
) -> _ReadHistory:
    raw = _records(spark, options, keep)
    events = keep(history.decode(history.unique(raw)))
    counts = metrics.record_counts(events).collect()[0].asDict()
    _require_places(events, options)
    undecodable = _undecodable(events, counts["undecodable"], options)
    _require_records(spark, options, events, counts)
    catalogue, warnings = catalogue_of(spark, options, kip848.named_topics(events))
    folded = kip848.fold(events, catalogue, keep)
    generations = keep(history.generations(folded))
    facts = metrics.group_facts(generations).collect()
    return _ReadHistory(raw, events, folded, generations, catalogue, counts, facts, undecodable, warnings)


def _replay(
    spark: SparkSession,
    options: ReplayOptions,
    limits: Limits,
    read: _ReadHistory,
    keep: Callable[[DataFrame], DataFrame],
    phases: _Phases,
) -> tuple[DataFrame, DataFrame]:
    """The `history.steps` of consumer groups, and what they give as `schemas.REPLAYED`."""
    planned, slices = plan(history.of_consumers(read.generations), limits)
    consumers = keep(in_slices(history.steps(planned, read.folded)))
    replayed = replay_slices(
        consumers,
        slices,
        read.catalogue,
        options.strategies,
        options.modes,
        _store(spark, options, limits, read, keep),
        pauses=options.pauses,
        on_slice=lambda n: phases.detail(f"slice {n + 1} of {slices}" if slices > 1 else ""),
    )
    return consumers, replayed


def _groups(read: _ReadHistory, replayed: DataFrame, options: ReplayOptions) -> tuple[GroupSummary, ...]:
    judged = {row["group"]: row for row in metrics.replayed_facts(replayed, options.modes).collect()}
    groups = tuple(group_summary(row, judged.get(row["group"])) for row in read.facts)
    _require_rebalances(groups)
    return groups


def _timeline(
    replayed: DataFrame,
    verdicts: Sequence[Verdict],
    groups: Sequence[GroupSummary],
    options: ReplayOptions,
) -> tuple[TimelineRow, ...]:
    found = find_among(verdicts, groups, options.strategies)
    plotted = [finding.group for finding in found[:PLOTTED_GROUPS]]
    return timeline_of(replayed, plotted, series=len(options.modes) * (1 + len(options.strategies)))


def _write_tables(
    spark: SparkSession,
    options: ReplayOptions,
    read: _ReadHistory,
    replayed: DataFrame,
    causes: DataFrame,
    faults: DataFrame,
    checked: DataFrame,
) -> tuple[TableFile, ...]:
    if options.tables is None:
        return ()
    members = history.members(read.folded)
    write_tables(
        options.tables,
        {
            "generations": read.generations,
            "members": members,
            "assignments": history.assignments(members),
            "current": kip848.current(read.events, read.catalogue),
            "causes": causes,
            "replayed": replayed,
            "metrics": metrics.daily(replayed),
            "churn": churn_by_day(causes),
            "faults": faults,
            "checked": checked,
        },
    )
    return files_of_groups(spark, options.tables)


def _versions(java: str) -> dict[str, str]:
    return {
        "kafka-assignors": kafka_assignors.__version__,
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
        "java": java,
    }


class _Phases:
    """Reports the phases one after the other, and the tasks within each."""

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress
        self._number = 0
        self._detail = ""

    def begin(self) -> None:
        self._number += 1
        self._detail = ""
        self._report(0, 0)

    def detail(self, detail: str) -> None:
        """Show this detail with the phase from now on."""
        self._detail = f", {detail}" if detail else ""

    @contextlib.contextmanager
    def tasks(self, spark: SparkSession) -> Iterator[None]:
        self.begin()
        with task_progress(spark, self._report):
            yield

    def _report(self, done: int, total: int) -> None:
        phase = PHASES[self._number - 1] + self._detail
        self._on_progress(Progress(phase, self._number, len(PHASES), done, total))


def _check(options: ReplayOptions) -> None:
    """Refuse invalid options before Spark starts."""
    if (options.path is None) == (options.bootstrap_servers is None):
        raise ReplayError("give either the path of a history or the bootstrap servers of a cluster")
    if not options.strategies:
        raise ReplayError("give at least one strategy to replay")
    if not options.modes:
        raise ReplayError("give at least one mode to replay in")
    for name in options.strategies:
        if name == RECORDED:
            raise ReplayError(
                f"{RECORDED!r} is no strategy: what production did is always part of the answer"
            )
        try:
            load_strategy(name)
        except StrategyError as error:
            raise ReplayError(str(error)) from None
    if options.tables is not None:
        check_folder(options.tables)
    if options.checkpoint is not None and options.path is None:
        raise ReplayError("a checkpoint needs a history: what a live cluster shows is another one each time")
    if options.path is not None and "://" not in options.path and not Path(options.path).exists():
        raise ReplayError(f"{options.path}: there is no such file or directory")


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        raise ReplayError(f"Spark failed: {one_line(error)}") from error


# Records


def _records(
    spark: SparkSession, options: ReplayOptions, keep: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    if options.path is None:
        # Read once: the log keeps growing, and every read would find other records.
        return keep(live_records(spark, options))
    raw = history.group_records(recorded_records(spark, options.path))
    return raw if options.groups is None else history.only_groups(raw, options.groups)


def _require_places(events: DataFrame, options: ReplayOptions) -> None:
    wrong = {name: count for name, count in metrics.misplaced(events).collect()[0].asDict().items() if count}
    for name, count in wrong.items():
        raise ReplayError(
            f"{options.path}: column {name} is null, negative or too large in {count} records; give the "
            "partition, offset and timestamp of each record as a consumer reads them"
        )


def _require_records(
    spark: SparkSession, options: ReplayOptions, events: DataFrame, counts: Mapping[str, Any]
) -> None:
    where = options.path or f"{options.topic} at {options.bootstrap_servers}"
    if options.groups is not None:
        found = {row["group"] for row in events.select("group").distinct().collect()}
        if missing := [group for group in options.groups if group not in found]:
            raise ReplayError(f"{where}: there are no records of group {', '.join(map(repr, missing))}")
    if counts["generations"] or counts["kip848_records"]:
        return
    others = []
    if counts["records"]:
        others.append(f"{counts['records']} other records of groups")
    elif options.path is not None:
        others.append(f"{recorded_records(spark, options.path).count()} records that are offset commits")
    raise ReplayError(
        f"{where}: there is no generation of a consumer group; found {', '.join(others) or 'nothing'}"
    )


def _undecodable(events: DataFrame, count: int, options: ReplayOptions) -> tuple[UndecodableRecord, ...]:
    if not count:
        return ()
    listed = history.undecodable(events).orderBy("partition", "offset", "group").limit(_MOST_LISTED)
    records = tuple(UndecodableRecord(*row) for row in listed.collect())
    if options.strict:
        shown = [f"partition {r.partition} offset {r.offset}: {r.reason}" for r in records[:_MOST_SHOWN]]
        if count > len(shown):
            shown.append(f"and {count - len(shown)} more")
        raise ReplayError(f"{count} records do not decode: {'; '.join(shown)}")
    return records


def _history(
    options: ReplayOptions, counts: Mapping[str, Any], groups: Iterable[GroupSummary]
) -> HistorySummary:
    return HistorySummary(
        source=options.path or f"{options.topic} at {options.bootstrap_servers}",
        skipped_numbers=sum(group.skipped_numbers for group in groups),
        clock_jumps=sum(group.clock_jumps for group in groups),
        **{
            **counts,
            "first_timestamp": from_micros(counts["first_timestamp"]),
            "last_timestamp": from_micros(counts["last_timestamp"]),
        },
    )


# The replay and its check


def _store(
    spark: SparkSession,
    options: ReplayOptions,
    limits: Limits,
    read: _ReadHistory,
    keep: Callable[[DataFrame], DataFrame],
) -> SliceStore:
    if options.checkpoint is None:
        return InMemorySlices(keep)
    # All that a row of a slice depends on. The version of a user's strategy stands for its code.
    described = {
        "version": kafka_assignors.__version__,
        "history": options.path,
        "records": metrics.digest(read.events),
        "catalogue": read.catalogue.digest(),
        "groups": options.groups,
        "strategies": [[name, load_strategy(name).version] for name in options.strategies],
        "modes": [mode.value for mode in options.modes],
        "pauses": asdict(options.pauses),
        "limits": [limits.chunk_bytes, limits.slice_bytes],
    }
    return Checkpoint(spark, options.checkpoint, described)


def _sample(read: _ReadHistory, replayed: DataFrame, options: ReplayOptions) -> SampleCheck:
    drawn = draw(history.of_consumers(read.generations), options.sample_groups, options.sample_seed)
    strategies = {name: load_strategy(name) for name in options.strategies}
    return check_sample(
        read.raw, read.events, replayed, drawn, read.catalogue, strategies, options.modes, options.pauses
    )


def _require_rebalances(groups: Iterable[GroupSummary]) -> None:
    if any(group.replayed_rebalances for group in groups):
        return
    reasons: dict[str, int] = {}
    for group in groups:
        for reason, count in group.not_replayed.items():
            reasons[reason] = reasons.get(reason, 0) + count
    why = "; ".join(
        f"{reason} ({count})" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])
    )
    raise ReplayError(f"nothing to replay: no rebalance has all the facts that a replay needs: {why}")
