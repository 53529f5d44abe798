"""The fold of a group in chunks and parts equals the fold in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafka_assignors_replay.folds.group import (
    STATE_PLACE,
    FoldWork,
    Output,
    SortedRecord,
    fold_groups,
    read_detail,
    sort_records,
)
from kafka_assignors_replay.folds.measures import Mode, Sums, total_of
from kafka_assignors_replay.folds.replay_state import StateError, read_state, write_state
from kafka_assignors_replay.folds.sums import GroupSums
from spark_validation.tests.folding import collect, sorted_records, work_on
from spark_validation.tests.report_sample import timeline
from spark_validation.tests.test_bad_histories import bad
from spark_validation.tests.test_kip848_fold import ORDERS
from spark_validation.tests.test_kip848_groups import story

NAMES = ("range", "cooperative-sticky")
RECORDS = {
    group: [record for record in sorted_records(log.records) if record.group == group]
    for log in (story(), bad())
    for group in {record.group for record in sorted_records(log.records)}
}


def pieces(records: Sequence[SortedRecord], work: FoldWork, cut: int) -> list[Output]:
    """The outputs of two chunks, each in all parts."""
    group = records[0].group
    in_two = replace(work, giants={group: 2})
    parts = range(1, len(work.parts))

    def of_parts(chunk: Sequence[SortedRecord]) -> list[SortedRecord]:
        return [record._replace(part=part) for part in parts for record in chunk]

    first = list(fold_groups(of_parts(records[:cut]), in_two, 0))
    states = [
        SortedRecord(group, output.part, STATE_PLACE, STATE_PLACE, None, 0, output.state, "file")
        for output in first
        if output.state is not None
    ]
    assert len(states) == len(parts)
    return [*first, *fold_groups(sort_records([*states, *of_parts(records[cut:])]), in_two, 1)]


def summed(outputs: Sequence[Output]) -> GroupSums:
    read = [read_state(GroupSums, output.sums) for output in outputs if output.sums is not None]
    whole = read[0]
    for each in read[1:]:
        whole = whole.joined(each)
    return whole


@pytest.mark.parametrize("group", sorted(RECORDS, key=str))
def test_chunks_and_parts_give_what_one_piece_gives(group: bytes) -> None:
    records = RECORDS[group]
    work = work_on(records, ORDERS, strategies=NAMES)
    whole = list(fold_groups(records, work))
    in_one = summed(whole)
    details = [[output.detail for output in whole if output.detail is not None]]
    for cut in range(1, len(records)):
        if records[cut - 1][2:4] == records[cut][2:4]:
            continue  # copies of one record are in one chunk
        outputs = pieces(records, work, cut)
        sums = summed(outputs)
        # The order of a dictionary does not matter.
        assert sums == in_one
        details.append([output.detail for output in outputs if output.detail is not None])
        tables = collect(outputs).tables
        for name, rows in collect(whole).tables.items():
            assert sorted(map(str, rows)) == sorted(map(str, tables[name])), name
    of_group = [read_detail("g", each, 1_000) for each in details]
    assert all(detail == of_group[0] for detail in of_group)


def test_a_state_that_no_fold_writes_is_named() -> None:
    records = RECORDS[b"fine"]
    work = replace(work_on(records, ORDERS, strategies=NAMES), giants={b"fine": 2})
    state = SortedRecord(b"fine", 1, STATE_PLACE, STATE_PLACE, None, 0, b"[]", "there/slice=00000")
    with pytest.raises(StateError, match="there/slice=00000: the state of group 'fine' does not read: it is"):
        list(fold_groups([state], work, 1))
    with pytest.raises(StateError, match="there is no part 9; remove the checkpoint and start again"):
        list(fold_groups([state._replace(part=9)], work, 1))


@pytest.mark.parametrize("text", [b"", b"x", b"\x78\x9c"])
def test_details_that_no_fold_writes_are_named(text: bytes) -> None:
    with pytest.raises(StateError, match="the details of group 'g' do not read"):
        read_detail("g", [text], 1)


def test_failures_of_one_kind_are_one_text() -> None:
    sums = Sums()
    for number in range(919):
        sums.fail(f"ValueError: no room for partition {number} of 'orders-{number}'")
    sums.fail("KeyError: 'x'")
    verdict = sums.verdict("g", "mine", Mode.ONE_STEP)
    assert verdict.failed == 920
    assert verdict.failures == (
        "ValueError: no room for partition 0 of 'orders-0' (and 918 more of this kind)",
        "KeyError: 'x'",
    )


def test_a_sum_is_unknown_where_its_measures_are() -> None:
    [row, *_] = timeline("g", "mine", Mode.ONE_STEP, 2)
    eager = replace(row.measures, moved=3, max_load=4, paused_eager_s=2.5)
    broker = replace(row.measures, moved=1, max_load=6, rounds=1, rack_misses=7)
    sums = Sums()
    for measures in (eager, broker, eager):
        sums.add(measures)
    verdict = sums.verdict("g", "mine", Mode.ONE_STEP)
    assert (verdict.rebalances, verdict.generations, verdict.second_rounds) == (3, 5, 2)
    assert (verdict.moved, verdict.stickiness) == (7, 1 - 7 / (3 * 24))
    assert (verdict.max_minus_min, verdict.worst_max_minus_min) == (5 / 3, 3)
    assert (verdict.rack_misses, verdict.least_rack_misses) == (7, None)
    assert verdict.paused_eager_s is None
    assert read_state(Sums, write_state(sums)) == sums
    none = Sums().verdict("g", "mine", Mode.ONE_STEP)
    assert (none.moved, none.stickiness, none.max_over_mean, none.paused_eager_s) == (0, 1.0, 0.0, None)
    assert replace(total_of("mine", Mode.ONE_STEP, [verdict, none]), group="g") == verdict
