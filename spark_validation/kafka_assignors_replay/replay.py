"""The whole replay, from a path or a broker to a `ReplayResult`.

`run_replay` makes an engine fold the records of each group (`history.group_fold`), and makes a result of the
sums of the groups. Every error is a `ReplayError` of one line.
"""

from __future__ import annotations

import contextlib
import platform
import sys
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
from kafka_assignors_replay.engine import (
    Choice,
    Survey,
    check_sample,
    choose_engine,
    draw,
    only_spark,
    open_engine,
    temporary_folder,
)
from kafka_assignors_replay.history.group_fold import FoldWork
from kafka_assignors_replay.history.strategy_guard import StrategyGuard
from kafka_assignors_replay.history.sums import GroupSums, history_of, undecodable_of, values_of
from kafka_assignors_replay.history_files import DamagedError, catalogue_of, damaged_files
from kafka_assignors_replay.report.findings import reasons_not_replayed
from kafka_assignors_replay.result import (
    RECORDED,
    GroupSummary,
    Progress,
    ReplayError,
    ReplayOptions,
    ReplayResult,
)

PHASES = ("starting", "reading the history", "replaying", "checking a sample", "summing up")

_MOST_SHOWN = 5
"""The most undecodable records that an error names."""

_MOST_DAMAGED = 100
"""The most damaged files that a result names."""

OnProgress = Callable[[Progress], None]


def run_replay(
    options: ReplayOptions,
    on_progress: OnProgress,
    *,
    engine: str | None = None,
    on_choice: Callable[[Choice], None] = lambda _: None,
) -> ReplayResult:
    """Replay a history.

    `on_progress` is called often, and from another thread while Spark works. `engine` is one of
    `engine.ENGINES`, or None for the engine that fits; `on_choice` gets the engine and the reason.
    """
    started = time.monotonic()
    replay = _replay_cluster if options.path is None else _replay_history
    with contextlib.redirect_stdout(sys.stderr):  # What a strategy prints is no part of a report.
        _check(options)
        choice = choose_engine(options, engine)
        on_choice(choice)
        result = replay(options, on_progress, choice)
    return replace(result, seconds=time.monotonic() - started)


def _replay_cluster(options: ReplayOptions, on_progress: OnProgress, choice: Choice) -> ReplayResult:
    """Replay a temporary archive of all that the cluster has; errors name the cluster instead."""
    from kafka_assignors_replay.archive.folder import ArchiveError
    from kafka_assignors_replay.archive.run import ArchiveOptions, ArchiveResult, run_archive

    def tell(phase: str, so_far: ArchiveResult) -> None:
        done, total = so_far.counts.offsets, so_far.counts.offsets + (so_far.lag_offsets or 0)
        on_progress(Progress("reading the topic", 1, len(PHASES), done, total, "offsets"))

    source = f"{options.topic} at {options.bootstrap_servers}"
    with temporary_folder() as folder:
        asked = ArchiveOptions(
            folder,
            options.bootstrap_servers or "",
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
            here = replace(options, path=folder, bootstrap_servers=None)
            result = _replay_history(here, on_progress, choice)
        except (ArchiveError, ReplayError) as error:
            raise ReplayError(str(error).replace(folder, source)) from error
    warnings = result.warnings
    if unknown := {repr(topic) for group in result.groups for topic in group.inferred_topics}:
        warning = (
            f"topics that do not exist, or that this principal may not describe: "
            f"{some_of(sorted(unknown), 5)}; their partitions are taken from the records, and their racks "
            "are unknown; the right is Describe on Topic"
        )
        warnings = (*warnings, warning)
    history = replace(result.history, source=source)
    return replace(result, options=options, history=history, warnings=warnings)


def _replay_history(options: ReplayOptions, on_progress: OnProgress, choice: Choice) -> ReplayResult:
    assert options.path is not None
    phases = _Phases(on_progress)
    phases.begin()
    damaged = damaged_files(options.path) if options.skip_corrupt else ()
    left_out = frozenset(Path(each.file) for each in damaged)
    with _damage_explained(options), contextlib.ExitStack() as closing:
        opened = open_engine(choice.name, options, left_out, phases.tasks, closing)
        phases.begin()
        survey = opened.survey()
        for name, count in survey.misplaced.items():
            raise ReplayError(
                f"{options.path}: column {name} is null, negative or too large in {count} records; give the "
                "partition, offset and timestamp of each record as a consumer reads them"
            )
        work = FoldWork(
            catalogue=catalogue_of(opened.catalogue_rows()),
            strategies=options.strategies,
            modes=options.modes,
            pauses=options.pauses,
            torn=survey.torn,
            collided=survey.collided,
            lossy=bool(damaged),
            guard=StrategyGuard(options.strategy_timeout_s),
        )
        phases.begin()
        everything = sorted(opened.run(work), key=_place)
        named = [sums for sums in everything if sums.facts.seen]
        values = values_of(named)
        _require_rebalances(options, survey, everything, values["groups"])
        phases.begin()
        sample = draw(named, options.sample_groups)
        check_sample(opened, work, named, sample)
        phases.begin()
        return ReplayResult(
            options=options,
            history=history_of(options.path, everything, survey.others),
            **values,
            sample=sample,
            undecodable=undecodable_of(everything),
            warnings=_without_weights(options),
            versions={
                "kafka-assignors": kafka_assignors.__version__,
                "pyarrow": pa.__version__,
                "python": platform.python_version(),
            },
            seconds=0.0,
            damaged_files=len(damaged),
            damaged=damaged[:_MOST_DAMAGED],
        )


@contextlib.contextmanager
def _damage_explained(options: ReplayOptions) -> Iterator[None]:
    """Add to the error of a damaged file how to leave it out."""
    try:
        yield
    except DamagedError as error:
        may_skip = options.on_disk and not options.skip_corrupt
        advice = "; --skip-corrupt goes on without damaged files" if may_skip else ""
        raise ReplayError(f"{error}{advice}") from error


def _place(sums: GroupSums) -> tuple[Any, ...]:
    """The records that name no group come first, then all groups by name: engines return any order."""
    return sums.group is not None, sums.group or "", sums.undecodable[:1]


def _without_weights(options: ReplayOptions) -> tuple[str, ...]:
    """A warning where strategies weigh partitions: a history has no weights."""
    weighing = [name for name in options.strategies if load_strategy(name).name == "weighted"]
    return (f"{', '.join(weighing)} counts partitions here: a history has no weights",) if weighing else ()


class _Phases:
    """Reports the phases one after the other, and the tasks within each."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._number = 0

    def begin(self) -> None:
        self._number += 1
        self.tasks(0, 0)

    def tasks(self, done: int, total: int) -> None:
        phase = PHASES[self._number - 1]
        self._on_progress(Progress(phase, self._number, len(PHASES), done, total))


# What is refused


def _check(options: ReplayOptions) -> None:
    """Refuse invalid options before anything starts."""
    if (options.path is None) == (options.bootstrap_servers is None):
        raise ReplayError("give either the path of a history or the bootstrap servers of a cluster")
    elsewhere = options.bootstrap_servers if options.path is None else only_spark(options)
    if options.skip_corrupt and elsewhere is not None:
        raise ReplayError(
            f"{elsewhere}: --skip-corrupt is for Parquet on a disk of this machine: copy the history to a "
            "disk, or remove the damaged file that the error names without it"
        )
    if not (options.strategies and options.modes):
        raise ReplayError("give at least one strategy to replay, and one mode to replay it in")
    for name in options.strategies:
        if name == RECORDED:
            raise ReplayError(
                f"{RECORDED!r} is not a strategy: a result always includes the recorded assignments"
            )
        try:
            load_strategy(name)
        except StrategyError as error:
            raise ReplayError(str(error)) from None
    if options.path is not None and options.on_disk and not Path(options.path).exists():
        raise ReplayError(f"{options.path}: there is no such file or directory")


def _require_rebalances(
    options: ReplayOptions, survey: Survey, everything: Sequence[GroupSums], groups: Sequence[GroupSummary]
) -> None:
    found = {sums.group for sums in everything}
    if missing := [group for group in options.groups or () if group not in found]:
        raise ReplayError(f"{options.path}: there are no records of group {', '.join(map(repr, missing))}")
    if not any(sums.records["generations"] or sums.records["kip848_records"] for sums in everything):
        others = ", ".join(_other_records(options, survey, everything)) or "nothing"
        raise ReplayError(f"{options.path}: there is no generation of a consumer group; found {others}")
    if options.strict and (undecodable := _undecodable(everything)):
        raise ReplayError(undecodable)
    if not any(group.replayed_rebalances for group in groups):
        why = "; ".join(f"{reason} ({count})" for reason, count in reasons_not_replayed(groups).items())
        raise ReplayError(f"nothing to replay: no rebalance has all the facts that a replay needs: {why}")


def _other_records(options: ReplayOptions, survey: Survey, everything: Sequence[GroupSums]) -> Iterator[str]:
    count = sum(sums.records["records"] - sums.records["undecodable"] for sums in everything)
    undecodable = _undecodable(everything)
    if count:
        yield f"{count} other records of groups"
    if undecodable:
        yield undecodable
    if survey.commits and not (count or undecodable):
        yield f"{survey.commits} records that are offset commits"
    if survey.others:
        noun = "record" if survey.others == 1 else "records"
        yield f"{survey.others} {noun} of other topics than {options.topic}"


def _undecodable(everything: Iterable[GroupSums]) -> str | None:
    """How many records do not decode, and the first of them; None if all do."""
    listed, count = undecodable_of(everything), sum(sums.records["undecodable"] for sums in everything)
    shown = [f"partition {r.partition} offset {r.offset}: {r.reason}" for r in listed[:_MOST_SHOWN]]
    if count > len(shown):
        shown.append(f"and {count - len(shown)} more")
    verb = "record does" if count == 1 else "records do"
    return f"{count} {verb} not decode: {'; '.join(shown)}" if count else None
