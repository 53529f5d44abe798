"""The check of the machinery: what an engine found of a few groups equals what this process finds.

The check draws a few groups, has the engine collect their records, and folds them here, in one piece. Every
difference is a defect, and an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from kafka_assignors_spark.engine import Engine
from kafka_assignors_spark.folds.group import FoldWork, fold_groups, read_detail
from kafka_assignors_spark.folds.records import group_bytes
from kafka_assignors_spark.folds.replay_state import read_state
from kafka_assignors_spark.folds.sums import (
    GroupSums,
    churn_of,
    culprits_of,
    group_summary,
    truth_of,
    verdicts_of,
)
from kafka_assignors_spark.options import ReplayError
from kafka_assignors_spark.result import SampleCheck, to_json

_MOST_GENERATIONS = 200
_MOST_BYTES = 1 << 20


def draw(groups: Iterable[GroupSums], count: int, seed: int) -> tuple[str, ...]:
    """Some groups, the same for the same seed, none too large to fold twice."""
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
    """Fold these groups here; `ReplayError` if what the engine found differs."""
    if not groups:
        return SampleCheck((), 0)
    there = {sums.group: sums for sums in found}
    names = [*map(group_bytes, groups)]
    details = engine.details(names)
    here = replace(work, giants={}, tables=False)
    rows = 0
    for output in fold_groups(engine.records_of(groups), here):
        assert output.sums is not None
        assert output.detail is not None
        assert output.group is not None
        sums = read_state(GroupSums, output.sums)
        group = sums.group or ""
        most = sums.facts.replayable
        _compare(
            group,
            dict(_values(sums, read_detail(group, [output.detail], most))),
            dict(_values(there[group], read_detail(group, details.get(output.group, ()), most))),
        )
        rows += sums.rows
    return SampleCheck(tuple(groups), rows)


def _values(sums: GroupSums, detail: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Everything that a result has of the group, by what it is about."""
    yield ("the group",), {**to_json(group_summary(sums)), "rows": sums.rows}
    yield ("the causes",), {each.cause: each.generations for each in churn_of([sums])}
    yield ("those at fault",), {str(place): to_json(each) for place, each in enumerate(culprits_of([sums]))}
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
