"""The whole replay, from a path or a broker to a `ReplayResult`.

`run_replay` makes an engine fold the records of each group (`history.group_fold`), and makes a result of the
sums of the groups. Every error is a `ReplayError` of one line.
"""

from __future__ import annotations

import contextlib
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import kafka_assignors
from kafka_assignors.group import some_of
from kafka_assignors.strategies.registry import StrategyError, load_strategy
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.engine import Engine, Survey, check_sample, draw, temporary_folder
from kafka_assignors_replay.engine_choice import Choice, choose_engine, open_engine
from kafka_assignors_replay.history.generations import MOST_PARTITIONS
from kafka_assignors_replay.history.group_fold import Detail, FoldWork, read_detail
from kafka_assignors_replay.history.records import group_bytes
from kafka_assignors_replay.history.strategy_guard import StrategyGuard, ended_in
from kafka_assignors_replay.history.sums import (
    GroupSums,
    churn_of,
    culprits_of,
    group_summary,
    history_of,
    truth_of,
    undecodable_of,
    verdicts_of,
)
from kafka_assignors_replay.history_files import DamagedError, catalogue_of, damaged_files, table_on_disk
from kafka_assignors_replay.report.findings import PLOTTED_GROUPS, find, reasons_not_replayed
from kafka_assignors_replay.result import (
    RECORDED,
    GroupSummary,
    OwnershipSpan,
    Progress,
    ReplayError,
    ReplayOptions,
    ReplayResult,
    TimelineRow,
    UndecodableRecord,
)
from kafka_assignors_replay.schemas import TABLES

PHASES = ("starting", "reading the history", "replaying", "checking a sample", "summing up")

_MOST_SHOWN = 5
"""The most undecodable records that an error names."""

_MOST_DAMAGED = 100
"""The most damaged files that a result names."""

_MOST_DRAWN = 20
"""The most groups whose ownership is drawn."""

_TIMELINE_ROWS = 200_000
"""About how many rows all timelines have together: this process holds them in memory. Each series has at
least one."""


def run_replay(
    options: ReplayOptions,
    on_progress: Callable[[Progress], None],
    *,
    engine: str | None = None,
    on_choice: Callable[[Choice], None] = lambda _: None,
) -> ReplayResult:
    """Replay a history.

    `on_progress` is called often, and from another thread while Spark works. `engine` is one of
    `engine_choice.ENGINES`, or None for the engine that fits; `on_choice` gets the engine and the reason.

    Raises `ReplayError` for every problem with the input, the options or the environment.
    """
    started = time.monotonic()
    _check(options)
    if options.path is None:
        with _archived(options, on_progress) as folder:
            here = replace(options, path=folder, bootstrap_servers=None)
            result = run_replay(here, on_progress, engine=engine, on_choice=on_choice)
        return _of_cluster(result, options, time.monotonic() - started)
    choice = choose_engine(options, engine)
    on_choice(choice)
    phases = _Phases(on_progress)
    phases.begin()
    damaged = damaged_files(options.path) if options.skip_corrupt and options.path is not None else ()
    left_out = frozenset(Path(each.file) for each in damaged)
    with (
        temporary_folder() as notes,
        _explained_errors(options, notes),
        open_engine(choice.name, options, left_out, phases.tasks) as opened,
    ):
        phases.begin()
        survey = opened.survey()
        _require_places(survey, options)
        work = _work(options, survey, catalogue_of(opened.catalogue_rows()), notes)
        phases.begin()
        result = _result(opened, options, work, _in_order(opened.run(work)), phases)
    return replace(
        result,
        warnings=_without_weights(options),
        damaged_files=len(damaged),
        damaged=damaged[:_MOST_DAMAGED],
        seconds=time.monotonic() - started,
    )


@contextlib.contextmanager
def _archived(options: ReplayOptions, on_progress: Callable[[Progress], None]) -> Iterator[str]:
    """A temporary archive of all that the cluster has, for the block; errors name the cluster instead."""
    from kafka_assignors_replay.archive import ArchiveError, ArchiveOptions, ArchiveProgress
    from kafka_assignors_replay.archive.run import run_archive

    def tell(step: ArchiveProgress) -> None:
        total = step.counts.offsets + (step.lag_offsets or 0)
        on_progress(Progress("reading the topic", 1, len(PHASES), step.counts.offsets, total, "offsets"))

    servers, source = options.bootstrap_servers or "", _source(options)
    with temporary_folder() as folder:
        asked = ArchiveOptions(
            folder,
            servers,
            once=True,
            topic=options.topic,
            client_config=options.client_config,
            timeout_seconds=options.timeout_seconds,
        )
        try:
            found = run_archive(asked, tell, lambda _: None, threading.Event())
            if not found.counts.records:
                raise ReplayError(
                    f"{source}: there is no record of a group, and there are {found.counts.offset_commits} "
                    "offset commits"
                )
            yield folder
        except (ArchiveError, ReplayError) as error:
            raise ReplayError(str(error).replace(folder, source)) from error


def _of_cluster(result: ReplayResult, options: ReplayOptions, seconds: float) -> ReplayResult:
    """The result of a temporary archive as that of its cluster."""
    unknown = {repr(topic) for group in result.groups for topic in group.inferred_topics}
    warning = (
        f"topics that do not exist, or that this principal may not describe: {some_of(sorted(unknown), 5)}; "
        "their partitions are taken from the records, and their racks are unknown; the right is Describe on "
        "Topic"
    )
    return replace(
        result,
        options=options,
        history=replace(result.history, source=_source(options)),
        warnings=(*result.warnings, *([warning] if unknown else [])),
        seconds=seconds,
    )


def _result(
    engine: Engine, options: ReplayOptions, work: FoldWork, everything: Sequence[GroupSums], phases: _Phases
) -> ReplayResult:
    """The result of these sums, after a check of a sample; `ReplayError` if nothing could be replayed."""
    undecodable = undecodable_of(everything)
    _require_records(engine, options, everything, undecodable)
    if options.strict and undecodable:
        raise ReplayError(_undecodable(everything, undecodable))
    named = [sums for sums in everything if sums.facts.seen]
    groups = tuple(map(group_summary, named))
    _require_rebalances(groups)
    phases.begin()
    sample = check_sample(engine, work, named, draw(named, options.sample_groups, options.sample_seed))
    phases.begin()
    history, others = history_of(_source(options), everything), engine.count_other_topics()
    result = ReplayResult(
        options=options,
        history=replace(
            history, records=history.records + others, other_records=history.other_records + others
        ),
        groups=groups,
        verdicts=verdicts_of(named),
        timeline=(),
        ownership=(),
        churn=churn_of(named),
        culprits=culprits_of(named),
        truth=truth_of(named),
        sample=sample,
        undecodable=undecodable,
        warnings=(),
        versions={
            "kafka-assignors": kafka_assignors.__version__,
            "pyarrow": pa.__version__,
            "python": platform.python_version(),
        },
        seconds=0.0,
    )
    if options.tables is not None:
        engine.write_tables(options.tables)
    return replace(result, timeline=_timeline(engine, result), ownership=_ownership(engine, result))


@contextlib.contextmanager
def _explained_errors(options: ReplayOptions, notes: str) -> Iterator[None]:
    """Add to a `ReplayError` of the block how to leave out damaged files, and which strategies ran in a
    process that ended."""
    try:
        yield
    except ReplayError as error:
        said = str(error)
        if isinstance(error, DamagedError) and options.on_disk and not options.skip_corrupt:
            said += "; --skip-corrupt goes on without damaged files"
        if (strategies := ended_in(notes)) is not None:
            said = f"a process ended while it ran {strategies} ({said})"
        if said == str(error):
            raise
        raise ReplayError(said) from error


def _work(options: ReplayOptions, survey: Survey, catalogue: Catalogue, notes: str) -> FoldWork:
    return FoldWork(
        catalogue=catalogue,
        strategies=options.strategies,
        modes=options.modes,
        pauses=options.pauses,
        rules=options.fault_rules,
        torn=survey.torn,
        collided=survey.collided,
        tables=options.tables is not None,
        guard=StrategyGuard(options.strategy_timeout_s, notes),
    )


def _in_order(found: Iterable[GroupSums]) -> list[GroupSums]:
    """The sums of the records that name no group, then of all groups by name: engines return any order."""

    def place(sums: GroupSums) -> tuple[Any, ...]:
        return sums.group is not None, sums.group or "", sums.undecodable[:1]

    return sorted(found, key=place)


def _without_weights(options: ReplayOptions) -> tuple[str, ...]:
    """A warning where strategies weigh partitions: a history has no weights."""
    weighing = [name for name in options.strategies if load_strategy(name).name == "weighted"]
    return (f"{', '.join(weighing)} counts partitions here: a history has no weights",) if weighing else ()


def _source(options: ReplayOptions) -> str:
    return options.path or f"{options.topic} at {options.bootstrap_servers}"


class _Phases:
    """Reports the phases one after the other, and the tasks within each."""

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress
        self._number = 0

    def begin(self) -> None:
        self._number += 1
        self.tasks(0, 0)

    def tasks(self, done: int, total: int) -> None:
        phase = PHASES[self._number - 1]
        self._on_progress(Progress(phase, self._number, len(PHASES), done, total))


def _check(options: ReplayOptions) -> None:
    """Refuse invalid options before anything starts."""
    if (options.path is None) == (options.bootstrap_servers is None):
        raise ReplayError("give either the path of a history or the bootstrap servers of a cluster")
    if options.skip_corrupt and not options.on_disk:
        raise ReplayError(
            f"{_source(options)}: --skip-corrupt is for a history on a disk of this machine: copy the "
            "history to a disk, or remove the damaged file that the error names without it"
        )
    if options.skip_corrupt and options.path and (table := table_on_disk(options.path)) is not None:
        raise ReplayError(f"{table[0]}: --skip-corrupt is for Parquet, and this is a table of {table[1]}")
    if not options.strategies:
        raise ReplayError("give at least one strategy to replay")
    if not options.modes:
        raise ReplayError("give at least one mode to replay in")
    for name in options.strategies:
        if name == RECORDED:
            raise ReplayError(
                f"{RECORDED!r} is not a strategy: a result always includes the recorded assignments"
            )
        try:
            load_strategy(name)
        except StrategyError as error:
            raise ReplayError(str(error)) from None
    if options.tables is not None:
        _check_folder(options.tables)
    if options.path is not None and options.on_disk and not Path(options.path).exists():
        raise ReplayError(f"{options.path}: there is no such file or directory")


def _check_folder(folder: str) -> None:
    """Fail early if `folder` cannot take the tables: it is a file, or has files that no replay writes.

    Only Spark can check a URL, when it writes.
    """
    path = Path(folder)
    if "://" in folder or not path.exists():
        return
    if not path.is_dir():
        raise ReplayError(f"{folder}: the tables need a folder, and this is a file")
    others = sorted(each.name for each in path.iterdir() if each.name not in TABLES)
    if others:
        shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise ReplayError(
            f"{folder}: tables of an earlier replay would be replaced here, but it holds something else "
            f"({shown}): name a folder of their own"
        )


# What a history must have


def _require_places(survey: Survey, options: ReplayOptions) -> None:
    for name, count in survey.misplaced.items():
        if count:
            raise ReplayError(
                f"{options.path}: column {name} is null, negative or too large in {count} records; give the "
                "partition, offset and timestamp of each record as a consumer reads them"
            )


def _require_records(
    engine: Engine,
    options: ReplayOptions,
    everything: Sequence[GroupSums],
    undecodable: Sequence[UndecodableRecord],
) -> None:
    if options.groups is not None:
        found = {sums.group for sums in everything}
        if missing := [group for group in options.groups if group not in found]:
            raise ReplayError(
                f"{_source(options)}: there are no records of group {', '.join(map(repr, missing))}"
            )
    if any(sums.records.generations or sums.records.kip848_records for sums in everything):
        return
    others = []
    count = sum(sums.records.records - sums.records.undecodable for sums in everything)
    if count:
        others.append(f"{count} other records of groups")
    if undecodable:
        others.append(_undecodable(everything, undecodable))
    elif not count and options.path is not None:
        others.append(f"{engine.count_commits()} records that are offset commits")
    if of_others := engine.count_other_topics():
        others.append(
            f"{of_others} {'record' if of_others == 1 else 'records'} of other topics than {options.topic}"
        )
    raise ReplayError(
        f"{_source(options)}: there is no generation of a consumer group; "
        f"found {', '.join(others) or 'nothing'}"
    )


def _undecodable(everything: Iterable[GroupSums], listed: Sequence[UndecodableRecord]) -> str:
    count = sum(sums.records.undecodable for sums in everything)
    shown = [f"partition {r.partition} offset {r.offset}: {r.reason}" for r in listed[:_MOST_SHOWN]]
    if count > len(shown):
        shown.append(f"and {count - len(shown)} more")
    return f"{count} {'record does' if count == 1 else 'records do'} not decode: {'; '.join(shown)}"


def _require_rebalances(groups: Sequence[GroupSummary]) -> None:
    if any(group.replayed_rebalances for group in groups):
        return
    why = "; ".join(f"{reason} ({count})" for reason, count in reasons_not_replayed(groups).items())
    raise ReplayError(f"nothing to replay: no rebalance has all the facts that a replay needs: {why}")


# What a report draws


def _details(engine: Engine, groups: Sequence[str], most: int) -> Iterator[Detail]:
    names = [*map(group_bytes, groups)]
    found = engine.details(names)
    return (read_detail(found[name], most) for name in names)


def _timeline(engine: Engine, result: ReplayResult) -> tuple[TimelineRow, ...]:
    """The latest rebalances of the groups that have plots."""
    options = result.options
    plotted = sorted(finding.group for finding in find(result)[:PLOTTED_GROUPS])
    series = len(options.modes) * (1 + len(options.strategies))
    most = max(1, _TIMELINE_ROWS // max(1, series * len(plotted)))
    details = _details(engine, plotted, most)
    return tuple(row for detail in details for rows in detail.timeline.values() for row in rows)


def _ownership(engine: Engine, result: ReplayResult) -> tuple[OwnershipSpan, ...]:
    """The recorded owners in the groups with the most moves, among the groups small enough to draw."""
    moved = {verdict.group: verdict.moved for verdict in result.verdicts if verdict.strategy == RECORDED}
    small = [g.group for g in result.groups if 0 < g.max_partitions <= MOST_PARTITIONS and g.group in moved]
    drawn = sorted(sorted(small, key=lambda group: (-moved[group], group))[:_MOST_DRAWN])
    return tuple(span for detail in _details(engine, drawn, 1) for span in detail.ownership)
