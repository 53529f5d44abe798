"""The interface of the engines that run a replay, and the check of their results.

An engine passes the records of each group to `history.group_fold.fold_sorted`, and collects the outputs.
Spark replays a history of any size, also on a cluster; the local engine runs the same function in a few
processes of this machine, with pyarrow alone. Both give the same figures.

The check draws a few groups, gets their records from the engine, and folds them in this process. Any
difference is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Protocol

from kafka_assignors_replay.history.group_fold import Detail, FoldWork, SortedRow, fold_sorted, read_detail
from kafka_assignors_replay.history.records import group_bytes
from kafka_assignors_replay.history.sums import (
    GroupSums,
    churn_of,
    culprits_of,
    group_summary,
    truth_of,
    verdicts_of,
)
from kafka_assignors_replay.history_files import table_on_disk
from kafka_assignors_replay.result import ReplayError, ReplayOptions, SampleCheck, to_json

OnTasks = Callable[[int, int], None]
"""Called with how many tasks are done, and how many there are."""

RECORD_BYTES = 100
"""The bytes that a record counts in addition to its value."""

OBJECTS = 20_000
"""Python looks for reference cycles after this many new objects: folds make few."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The facts about all records that a fold needs first. `history.group_fold.FoldWork` defines `torn` and
    `collided`.

    `misplaced` counts, for each column, the records in which it is null, negative or too large.
    """

    torn: frozenset[bytes | None] = frozenset()
    collided: frozenset[tuple[int, int]] = frozenset()
    misplaced: Mapping[str, int] = field(default_factory=dict)


class Engine(Protocol):
    """One replay on one history, in the order of these methods."""

    def survey(self) -> Survey:
        """Read all records once."""
        ...

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        """The path and the rows of the catalogue beside the records, if there is one; times in
        microseconds."""
        ...

    def run(self, work: FoldWork) -> Iterator[GroupSums]:
        """Fold all records: the sums of each group."""
        ...

    def details(self, groups: Iterable[bytes]) -> dict[bytes, bytes]:
        """The packed details of these groups."""
        ...

    def records_of(self, groups: Iterable[str]) -> Iterable[SortedRow]:
        """The sorted records of a few groups, group by group."""
        ...

    def write_tables(self, folder: str) -> None:
        """Write the tables that the run has made."""
        ...

    def count_commits(self) -> int:
        """How many records of the history are offset commits."""
        ...

    def count_other_topics(self) -> int:
        """How many rows of the history are of other topics than the offsets topic."""
        ...


@contextlib.contextmanager
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


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    with disk_errors():
        folder = tempfile.mkdtemp(prefix="kafka-assignors-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def only_spark(options: ReplayOptions) -> str | None:
    """The first option that needs Spark, as the beginning of a sentence; None without one."""
    assert options.path is not None
    if "://" in options.path:
        return f"{options.path}: a URL is read by Spark"
    if (table := table_on_disk(options.path)) is not None:
        return f"{table[0]}: a table of the format {table[1]} is read by Spark"
    return None


# The check of an engine's result


_MOST_GENERATIONS = 200
_MOST_BYTES = 1 << 20


def draw(groups: Iterable[GroupSums], count: int, seed: int) -> tuple[str, ...]:
    """Some groups, the same for the same seed, without groups too large to fold twice."""
    small = [
        sums.group or ""
        for sums in groups
        if 0 < sums.facts.replayable <= _MOST_GENERATIONS and sums.facts.value_bytes <= _MOST_BYTES
    ]

    def place(group: str) -> tuple[bytes, str]:
        return hashlib.sha256(f"{seed}:{group}".encode("utf-8", "surrogatepass")).digest(), group

    return tuple(sorted(small, key=place)[:count])


def check_sample(
    engine: Engine, work: FoldWork, found: Iterable[GroupSums], groups: Sequence[str]
) -> SampleCheck:
    """Fold these groups in this process; `ReplayError` if the engine's result differs."""
    if not groups:
        return SampleCheck((), 0)
    there = {sums.group: sums for sums in found}
    details = engine.details(map(group_bytes, groups))
    rows = 0
    for group, _, sums, packed in fold_sorted(engine.records_of(groups), replace(work, tables=False)):
        assert group is not None
        assert sums is not None
        assert packed is not None
        of_engine = _values(there[sums.group], read_detail(details[group]))
        if differing := [*_differences(_values(sums, read_detail(packed)), of_engine)]:
            raise ReplayError(
                f"the engine and this process replay group {sums.group!r} differently, in {len(differing)} "
                f"places; the first is {differing[0]}. Do all processes have the same version of "
                "kafka-assignors and of the strategies, and do these depend on nothing but the group?"
            )
        rows += sums.rows
    return SampleCheck(tuple(groups), rows)


def _values(sums: GroupSums, detail: Detail) -> dict[str, Any]:
    """Everything that a result has of the group."""
    verdicts = {
        f"{each.mode.value}, strategy {each.strategy!r}": to_json(each) for each in verdicts_of([sums])
    }
    for verdict in verdicts.values():
        # The error text of a user's strategy may differ in each run, for example by the address of an object.
        verdict["failures"] = sorted(each.partition(":")[0] for each in verdict["failures"])
    return {
        **verdicts,
        "the group": {**to_json(group_summary(sums)), "rows": sums.rows},
        "the causes": {each.cause: each.generations for each in churn_of([sums])},
        "the culprits": to_json(culprits_of([sums])),
        "the accuracy check": to_json(truth_of([sums])),
        **{f"{mode}, {name!r}, rebalances": to_json(rows) for (mode, name), rows in detail.timeline.items()},
        "the owners": to_json(detail.ownership),
    }


def _differences(here: Any, there: Any, place: str = "") -> Iterator[str]:
    """Each value that differs, with its place."""
    if isinstance(here, dict) and isinstance(there, dict):
        for name in here | there:
            yield from _differences(here.get(name), there.get(name), f"{place}, {name}" if place else name)
    elif isinstance(here, list) and isinstance(there, list):
        for number, pair in enumerate(zip_longest(here, there)):
            yield from _differences(*pair, f"{place} {number}")
    elif here != there:
        yield f"{place}: {there!r} there and {here!r} here"
