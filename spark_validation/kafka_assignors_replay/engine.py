"""The engines that run a replay: their interface, the choice of one, and the check of its result.

An engine passes the records of each group to `history.group_fold.fold_sorted`, and collects the sums:
Spark for a history of any size, the local engine in a few processes of this machine, with pyarrow alone.
"""

from __future__ import annotations

import importlib.util
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kafka_assignors_replay.history.group_fold import FoldWork, SortedRow, fold_sorted
from kafka_assignors_replay.history.records import group_bytes
from kafka_assignors_replay.history.sums import GroupSums, values_of
from kafka_assignors_replay.history_files import parquet_files, table_on_disk
from kafka_assignors_replay.result import ReplayError, ReplayOptions

ENGINES = ("spark", "local")

LOCAL_BYTES = 256 << 20
"""The local engine is chosen for a history of at most this many bytes of Parquet on a local disk."""

OBJECTS = 20_000
"""Python looks for reference cycles after this many new objects: folds and results have few, and a result of
many groups has millions of objects."""

OnTasks = Callable[[int, int], None]
"""Called with how many tasks are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The facts about all records that a fold needs first. `history.group_fold.FoldWork` defines `torn` and
    `collided`.

    `misplaced` counts, for each column, the records in which it is null, negative or too large. `commits`
    counts the offset commits, `others` the rows of other topics than the offsets topic.
    """

    torn: frozenset[bytes | None] = frozenset()
    collided: frozenset[tuple[int, int]] = frozenset()
    misplaced: Mapping[str, int] = field(default_factory=dict)
    commits: int = 0
    others: int = 0


class Engine(Protocol):
    """One replay on one history, in the order of these methods.

    `survey` reads all records once. `catalogue_rows` are the path and the rows of the catalogue beside the
    records, if there is one, with times in microseconds. `run` folds all records to the sums of each group.
    `records_of` are the sorted records of a few groups, group by group.
    """

    def survey(self) -> Survey: ...

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None: ...

    def run(self, work: FoldWork) -> Iterator[GroupSums]: ...

    def records_of(self, groups: Iterable[bytes]) -> Iterable[SortedRow]: ...


@contextmanager
def disk_errors() -> Iterator[None]:
    """Explain an error of the disk for temporary files."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ReplayError(
            f"{tempfile.gettempdir()}: records cannot be written there: {reason}; TMPDIR names another "
            "directory"
        ) from None


@contextmanager
def temporary_folder() -> Iterator[str]:
    with disk_errors():
        folder = tempfile.TemporaryDirectory(prefix="kafka-assignors-", ignore_cleanup_errors=True)
    with folder as path:
        yield path


# The choice of an engine


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    why: str


def choose_engine(options: ReplayOptions, wanted: str | None) -> Choice:
    """The engine that the user wants, or else the one that fits the history."""
    if wanted not in (None, *ENGINES):
        raise ReplayError(f"there is no engine {wanted!r}: known are {', '.join(ENGINES)}")
    spark_alone = only_spark(options)
    if wanted == "local" and spark_alone is not None:
        raise ReplayError(f"{spark_alone}: give --engine spark")
    if wanted is not None:
        return Choice(wanted, "as asked for")
    if options.path is None:
        return Choice("local", "what is read from a cluster lies on this machine")
    if importlib.util.find_spec("pyspark") is None:
        if spark_alone is not None:
            raise ReplayError(f"{spark_alone}, which is not installed: pip install 'kafka-assignors[spark]'")
        return Choice("local", "PySpark is not installed")
    if options.spark_config is not None:
        return Choice("spark", "Spark's properties are given")
    if "PYSPARK_GATEWAY_PORT" in os.environ or _has_session():
        return Choice("spark", "this process runs under spark-submit or has a Spark session")
    if spark_alone is not None:
        return Choice("spark", spark_alone)
    size = sum(file.stat().st_size for file in parquet_files(Path(options.path)))
    mib, most = max(1, size >> 20), LOCAL_BYTES >> 20
    if size <= LOCAL_BYTES:
        return Choice("local", f"the history has {mib} MiB, and up to {most} MiB need no Spark")
    return Choice("spark", f"the history has {mib} MiB, more than {most} MiB")


def only_spark(options: ReplayOptions) -> str | None:
    """Why Spark alone can read the history, as the beginning of a sentence; None if it need not be Spark."""
    path = options.path or ""
    if "://" in path:
        return f"{path}: a URL is read by Spark"
    if path and (table := table_on_disk(path)) is not None:
        return f"{table[0]}: a table of the format {table[1]} is read by Spark"
    return None


def _has_session() -> bool:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def open_engine(
    name: str, options: ReplayOptions, damaged: frozenset[Path], on_tasks: OnTasks, closing: ExitStack
) -> Engine:
    """The engine of this name, until `closing` ends. It leaves out the `damaged` files, and calls `on_tasks`
    as tasks end."""
    if name == "local":
        from kafka_assignors_replay.local_engine import LocalEngine

        return LocalEngine(options, damaged, on_tasks, closing)
    from kafka_assignors_replay.spark.spark_engine import SparkEngine

    return SparkEngine(options, damaged, on_tasks, closing)


# The check of an engine's result

_MOST_GENERATIONS = 200
_MOST_MEMBERSHIPS = 5_000


def draw(groups: Iterable[GroupSums], count: int) -> tuple[str, ...]:
    """Some groups, always the same, without those too large to fold twice, and those in which a strategy
    failed: it may not end, and not every thread can interrupt it."""
    small = sorted(
        sums.group or ""
        for sums in groups
        if 0 < sums.facts.replayable <= _MOST_GENERATIONS
        and sums.facts.memberships <= _MOST_MEMBERSHIPS
        and not any(each.failed for each in sums.figures.values())
    )
    return tuple(random.Random(0).sample(small, min(count, len(small))))


def check_sample(engine: Engine, work: FoldWork, found: Iterable[GroupSums], groups: Sequence[str]) -> None:
    """Fold these groups in this process; `ReplayError` if the engine's result differs."""
    of_engine = {sums.group: sums for sums in found}
    for sums in fold_sorted(engine.records_of(map(group_bytes, groups)) if groups else (), work):
        here, there = values_of([sums]), values_of([of_engine[sums.group]])
        if differing := [name for name in here if here[name] != there[name]]:
            raise ReplayError(
                f"the engine and this process replay group {sums.group!r} differently, in its "
                f"{' and '.join(differing)}. Do all processes have the same version of kafka-assignors and "
                "of the strategies, and do these depend on nothing but the group?"
            )
