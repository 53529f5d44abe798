"""The whole replay, from a path or a broker to a `ReplayResult`.

`run_replay` strings the tables together (see `tables`), looks at each of them once, and turns what Spark and
the clients raise into a `ReplayError` of one line.
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

import kafka_assignors
from kafka_assignors.strategies.registry import StrategyError, load_strategy
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.clients import MUST_MATCH
from kafka_assignors_spark.folds.rebalances import EAGER_STRATEGIES
from kafka_assignors_spark.folds.records import CONSUMER_PROTOCOL_TYPE
from kafka_assignors_spark.folds.truth import Outcome, check
from kafka_assignors_spark.jobs import history, kip848, metrics
from kafka_assignors_spark.jobs.checkpoint import Checkpoint
from kafka_assignors_spark.jobs.faults import churn_of, culprits_of, find_faults
from kafka_assignors_spark.jobs.ownership import drawn_groups, ownership_of
from kafka_assignors_spark.jobs.per_group import with_micros
from kafka_assignors_spark.jobs.read import catalogue_of, live_records, recorded_records
from kafka_assignors_spark.jobs.sample import check_sample, draw
from kafka_assignors_spark.jobs.session import java_version, spark_session, task_progress
from kafka_assignors_spark.jobs.slices import InMemory, Limits, Shelf, in_slices, plan, replay_slices
from kafka_assignors_spark.jobs.spark_errors import SPARK_ERRORS, one_line
from kafka_assignors_spark.jobs.tables import check_folder, files_of_groups, write_tables
from kafka_assignors_spark.report.findings import PLOTTED_GROUPS, find_among
from kafka_assignors_spark.result import (
    RECORDED,
    ClientAgreement,
    Difference,
    GroupSummary,
    HistorySummary,
    Mode,
    Progress,
    ReplayError,
    ReplayOptions,
    ReplayResult,
    SampleCheck,
    TableFile,
    TimelineRow,
    TruthCheck,
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

_TIMELINE_REBALANCES = 1_000
"""The latest rebalances of a group, strategy and mode that become rows of the timeline."""

_TIMELINE_ROWS = 200_000
"""How many rows these are in all, about: they have to fit into this process. Each series has one at least."""


_LIMITS = Limits()


def run_replay(
    options: ReplayOptions, on_progress: Callable[[Progress], None], limits: Limits = _LIMITS
) -> ReplayResult:
    """Replay a history. `on_progress` is called often, and from another thread while Spark works. `limits`
    say how much of it is replayed at a time.

    Raises `ReplayError` for whatever is wrong with the input, the options or the environment.
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
            raw = _records(spark, options, keep)
            events = keep(history.decode(history.unique(raw)))
            counts = metrics.record_counts(events).collect()[0].asDict()
            undecodable = _undecodable(events, counts["undecodable"], options)
            _require_records(spark, options, events, counts)
            catalogue, warnings = catalogue_of(spark, options, kip848.named_topics(events))
            folded = kip848.fold(events, catalogue, keep)
            generations = keep(history.generations(folded))
            facts = metrics.group_facts(generations).collect()
        with phases.tasks(spark):
            planned, slices = plan(history.of_consumers(generations), limits)
            consumers = keep(in_slices(history.steps(planned, folded)))
            replayed = replay_slices(
                consumers,
                slices,
                catalogue,
                options.strategies,
                options.modes,
                _shelf(spark, options, limits, events, catalogue, keep),
                pauses=options.pauses,
                on_slice=lambda n: phases.detail(f"slice {n + 1} of {slices}" if slices > 1 else ""),
            )
            verdicts = tuple(_verdict(row) for row in metrics.verdicts(replayed).collect())
        with phases.tasks(spark):
            checked = keep(check(consumers, catalogue))
            truth = _truth(checked)
            sample = _sample(raw, events, generations, replayed, catalogue, options)
        with phases.tasks(spark):
            judged = {row["group"]: row for row in metrics.replayed_facts(replayed, options.modes).collect()}
            groups = tuple(_group(row, judged.get(row["group"])) for row in facts)
            _require_rebalances(groups)
            found = find_among(verdicts, groups, options.strategies)
            timeline = _timeline(
                replayed,
                [finding.group for finding in found[:PLOTTED_GROUPS]],
                series=len(options.modes) * (1 + len(options.strategies)),
            )
            ownership = ownership_of(consumers, drawn_groups(groups, verdicts))
            faults = keep(find_faults(consumers, options.fault_rules))
            causes = keep(kip848.causes(consumers, catalogue))
            churned = metrics.churn(causes)
            churn, culprits = churn_of(churned), culprits_of(faults)
            files: tuple[TableFile, ...] = ()
            if options.tables is not None:
                members = history.members(folded)
                write_tables(
                    options.tables,
                    {
                        "generations": generations,
                        "members": members,
                        "assignments": history.assignments(members),
                        "current": kip848.current(events, catalogue),
                        "causes": causes,
                        "replayed": replayed,
                        "metrics": metrics.daily(replayed),
                        "churn": churned,
                        "faults": faults,
                        "checked": checked,
                    },
                )
                files = files_of_groups(spark, options.tables)

    return ReplayResult(
        options=options,
        history=_history(options, counts, groups),
        groups=groups,
        verdicts=verdicts,
        timeline=timeline,
        ownership=ownership,
        churn=churn,
        culprits=culprits,
        truth=truth,
        sample=sample,
        undecodable=undecodable,
        warnings=warnings,
        files=files,
        versions={
            "kafka-assignors": kafka_assignors.__version__,
            "pyspark": pyspark.__version__,
            "python": platform.python_version(),
            "java": java,
        },
        seconds=time.monotonic() - started,
    )


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
        """Where in the phase it is."""
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
    """Whatever can be said without Spark is said at once."""
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
        # Read once: the log goes on growing, and every look at it would find other records.
        return keep(live_records(spark, options))
    raw = history.group_records(recorded_records(spark, options.path))
    return raw if options.groups is None else history.only_groups(raw, options.groups)


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


def _shelf(
    spark: SparkSession,
    options: ReplayOptions,
    limits: Limits,
    events: DataFrame,
    catalogue: Catalogue,
    keep: Callable[[DataFrame], DataFrame],
) -> Shelf:
    if options.checkpoint is None:
        return InMemory(keep)
    # All that a row of a slice depends on. The version of somebody's strategy has to stand for its code.
    described = {
        "version": kafka_assignors.__version__,
        "history": options.path,
        "records": metrics.digest(events),
        "catalogue": catalogue.digest(),
        "groups": options.groups,
        "strategies": [[name, load_strategy(name).version] for name in options.strategies],
        "modes": [mode.value for mode in options.modes],
        "pauses": asdict(options.pauses),
        "limits": [limits.chunk_bytes, limits.slice_bytes],
    }
    return Checkpoint(spark, options.checkpoint, described)


def _sample(
    raw: DataFrame,
    events: DataFrame,
    generations: DataFrame,
    replayed: DataFrame,
    catalogue: Catalogue,
    options: ReplayOptions,
) -> SampleCheck:
    drawn = draw(history.of_consumers(generations), options.sample_groups, options.sample_seed)
    strategies = {name: load_strategy(name) for name in options.strategies}
    return check_sample(raw, events, replayed, drawn, catalogue, strategies, options.modes, options.pauses)


# Groups and verdicts

_MAY_BE_UNKNOWN = {"rack_misses", "least_rack_misses", "paused_eager_s", "paused_cooperative_s"}


def _group(facts: Row, judged: Row | None) -> GroupSummary:
    not_replayed: dict[str, int] = {}
    if judged is not None:
        not_replayed.update(judged["not_replayed"] or {})
    elif facts["protocol_type"] not in (CONSUMER_PROTOCOL_TYPE, None, ""):
        not_replayed[f"members of protocol type {facts['protocol_type']!r} are no consumers"] = facts[
            "generations"
        ]
    protocols = tuple(facts["protocols"] or ())
    classic_protocols = facts["classic_protocols"] or ()
    cooperative, kip848 = facts["cooperative"], facts["kip848"]
    eager = not (cooperative or kip848) or EAGER_STRATEGIES.intersection(classic_protocols)
    return GroupSummary(
        group=facts["group"],
        generations=facts["generations"],
        rebalances=judged["rebalances"] if judged is not None else facts["generations"],
        replayed_rebalances=judged["replayed_rebalances"] if judged is not None else 0,
        not_replayed=not_replayed,
        incarnations=facts["incarnations"],
        skipped_numbers=facts["skipped_numbers"],
        clock_jumps=facts["clock_jumps"],
        protocols=protocols,
        rebalance_protocols=(("eager",) if eager else ())
        + (("cooperative",) if cooperative else ())
        + (("kip-848",) if kip848 else ()),
        clients=tuple(facts["clients"] or ()),
        min_members=facts["min_members"] or 0,
        max_members=facts["max_members"] or 0,
        topics=tuple(facts["topics"] or ()),
        max_partitions=(judged["max_partitions"] or 0) if judged is not None else 0,
        first_timestamp=from_micros(facts["first_timestamp"]),
        last_timestamp=from_micros(facts["last_timestamp"]),
        partition=facts["partition"],
        first_offset=facts["first_offset"],
        last_offset=facts["last_offset"],
        inferred_topics=tuple(judged["inferred_topics"]) if judged is not None else (),
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


def _verdict(row: Row) -> Verdict:
    values = row.asDict()
    values["mode"] = Mode(values["mode"])
    values["failures"] = tuple(values["failures"])
    # A strategy that failed every time has no figures.
    figures: dict[str, Any] = {
        name: 0 if value is None and name not in _MAY_BE_UNKNOWN else value for name, value in values.items()
    }
    return Verdict(**figures)


def _timeline(replayed: DataFrame, groups: Sequence[str], series: int) -> tuple[TimelineRow, ...]:
    """The latest rebalances of these groups, of which each has so many series."""
    most = max(1, min(_TIMELINE_REBALANCES, _TIMELINE_ROWS // max(1, series * len(groups))))
    latest_first = Window.partitionBy("group", "strategy", "mode").orderBy(F.desc("offset"))
    names = [field.name for field in fields(TimelineRow) if field.name != "second_round"]
    rows = (
        with_micros(replayed.where(F.col("problem").isNull() & F.col("group").isin(*groups)))
        .withColumn("age", F.row_number().over(latest_first))
        .where(F.col("age") <= most)
        .select(*names, (F.col("rounds") > 1).alias("second_round"))
        .orderBy("group", "mode", "strategy", "offset")
    )
    return tuple(
        TimelineRow(**{**row, "mode": Mode(row["mode"]), "timestamp": from_micros(row["timestamp"])})
        for row in (each.asDict() for each in rows.collect())
    )


def _truth(checked: DataFrame) -> TruthCheck:
    clients: dict[tuple[str, str], list[Row]] = {}
    for row in metrics.agreement(checked).collect():
        clients.setdefault((row["client"], row["strategy"]), []).append(row)
    differing = checked.where(F.col("outcome").isin(Outcome.EXPLAINED.value, Outcome.UNEXPLAINED.value))
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
    unchecked = by_outcome.get(Outcome.UNCHECKED.value, 0)
    return ClientAgreement(
        client=client,
        strategy=strategy,
        must_match=client in MUST_MATCH,
        checked=sum(by_outcome.values()) - unchecked,
        matched=by_outcome.get(Outcome.MATCHED.value, 0),
        unchecked=unchecked,
        explained=explained,
        unexplained=by_outcome.get(Outcome.UNEXPLAINED.value, 0),
    )
