"""The interface of the engines that run a replay, and the check of their results.

An engine brings the records of a group together and sorts them, runs `folds.group` over them, and carries the
outputs to this process. Spark replays a history of any size, also on a cluster; the local engine runs the
same functions in a few processes, with pyarrow alone. Both give the same figures.

The check draws a few groups, gets their records from the engine, and folds them in this process. Any
difference is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kafka_assignors_replay.folds.group import (
    Detail,
    FoldWork,
    Output,
    SortedRecord,
    fold_groups,
    read_detail,
)
from kafka_assignors_replay.folds.sums import (
    GroupSums,
    churn_of,
    culprits_of,
    group_summary,
    truth_of,
    verdicts_of,
)
from kafka_assignors_replay.history import table_on_disk
from kafka_assignors_replay.result import ReplayError, ReplayOptions, SampleCheck, to_json

OnTasks = Callable[[int, int], None]
"""Called with how many tasks are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The facts about all records that a fold needs first; `folds.group.FoldWork` defines `torn` and
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

    def fold(self, work: FoldWork, on_tasks: OnTasks) -> Iterator[Output]:
        """Fold all records: the outputs, in any order of the groups."""
        ...

    def records_of(self, groups: Iterable[str]) -> list[SortedRecord]:
        """The sorted records of a few groups."""
        ...

    def count_commits(self) -> int:
        """How many records of the history are offset commits."""
        ...

    def count_other_topics(self) -> int:
        """How many rows of the history are of other topics than the offsets topic."""
        ...


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
    engine: Engine,
    work: FoldWork,
    groups: Sequence[str],
    found: Mapping[str | None, GroupSums],
    detail_of: Callable[[str, int], Detail],
) -> SampleCheck:
    """Fold these groups in this process; `ReplayError` if the engine's result differs.

    `found` are its sums, and `detail_of` a group and the most rows of a series its details.
    """
    rows = 0
    for sums, detail, _ in fold_groups(engine.records_of(groups), replace(work, tables=False)):
        assert sums is not None
        group, most = sums.group or "", sums.facts.replayable
        _compare(
            group,
            dict(_values(sums, read_detail(group, detail, most))),
            dict(_values(found[group], detail_of(group, most))),
        )
        rows += sums.rows
    return SampleCheck(tuple(groups), rows)


def _values(sums: GroupSums, detail: Detail) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Everything that a result has of the group, by subject."""
    yield ("the group",), {**to_json(group_summary(sums)), "rows": sums.rows}
    yield ("the causes",), {each.cause: each.generations for each in churn_of([sums])}
    yield ("the culprits",), {str(place): to_json(each) for place, each in enumerate(culprits_of([sums]))}
    yield ("the accuracy check",), to_json(truth_of([sums]))
    for verdict in verdicts_of([sums]):
        # The error text of a user's strategy may differ in each run, for example by the address of an object.
        values = {**to_json(verdict), "failures": sorted(each.partition(":")[0] for each in verdict.failures)}
        yield (verdict.mode.value, f"strategy {verdict.strategy!r}"), values
    for (mode, strategy), timeline in detail.timeline.items():
        for place, row in enumerate(timeline):
            yield (mode, f"strategy {strategy!r}", f"rebalance {place}"), to_json(row)
    yield ("the owners",), {str(place): to_json(span) for place, span in enumerate(detail.ownership)}


def _compare(group: str, here: dict[tuple[str, ...], Any], there: dict[tuple[str, ...], Any]) -> None:
    differing = [place for place in here | there if here.get(place) != there.get(place)]
    if not differing:
        return
    place = differing[0]
    one, other = here.get(place), there.get(place)
    if one is None or other is None:
        what = "nothing here" if one is None else "nothing there"
    else:
        what = "; ".join(
            f"{name} is {other.get(name)!r} there and {one.get(name)!r} here"
            for name in one | other
            if one.get(name) != other.get(name)
        )
    raise ReplayError(
        f"the engine and this process replay group {group!r} differently, in {len(differing)} places; the "
        f"first is {', '.join(place)}: {what}. Do all processes have the same version of kafka-assignors "
        "and of the strategies, and do these depend on nothing but the group?"
    )
