"""The fold of a group, and the sums of its rebalances."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from kafka_assignors_replay.history.group_fold import fold_sorted
from kafka_assignors_replay.history.measures import Mode, Sums, total_of
from kafka_assignors_replay.history.sums import group_summary
from spark_validation.tests.folding import sorted_records, sums_of, work_on
from spark_validation.tests.groups import Log, member
from spark_validation.tests.report_sample import measures
from spark_validation.tests.test_bad_histories import bad
from spark_validation.tests.test_kip848_fold import ORDERS, story

NAMES = ("range", "cooperative-sticky")


@pytest.mark.parametrize("log", [story(), bad()], ids=["story", "bad"])
def test_groups_are_folded_the_same_together_and_alone(log: Log) -> None:
    records = sorted_records(log.records)
    work = work_on(records, ORDERS, strategies=NAMES)
    alone = [
        sums
        for group in dict.fromkeys(record[0] for record in records)
        for sums in fold_sorted([record for record in records if record[0] == group], work)
    ]
    assert list(fold_sorted(records, work)) == alone


def test_sums_are_the_same_after_their_way_between_processes() -> None:
    records = sorted_records(story().records)
    for sums in fold_sorted(records, work_on(records, ORDERS, strategies=NAMES)):
        assert pickle.loads(pickle.dumps(sums)) == sums


def test_copies_of_a_record_count_once_and_are_told() -> None:
    records = sorted_records(story().records)
    work = work_on(records, ORDERS, strategies=NAMES)
    once = fold_sorted(records, work)
    twice = fold_sorted(sorted([*records, *records], key=records.index), work)
    for one, two in zip(once, twice, strict=True):
        assert two.records["duplicates"] == one.records["records"] > 0
        assert replace(two, records=one.records) == one


def test_a_member_that_keeps_partitions_while_it_joins_shows_a_cooperative_consumer() -> None:
    log, both = Log(), {"orders": (0, 1)}
    for group, client, kept in (
        ("keeps", "aiokafka", both),
        ("revokes", "aiokafka", {}),
        ("java", "java", {}),
    ):
        for number, owned in ((1, {}), (2, kept)):
            joins = member("m", gets=both, owned=owned, generation=number - 1, client=client)
            log.generation(group, number, joins, protocol="cooperative-sticky")
    eager = {group: group_summary(each).eager_clients for group, each in sums_of(log.records, ORDERS).items()}
    assert eager == {"keeps": (), "revokes": ("aiokafka",), "java": ()}


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
    eager = measures(rounds=2, moved=3, max_load=4, paused_eager_s=2.5)
    broker = measures(moved=1, max_load=6, rounds=1, rack_misses=7)
    sums = Sums()
    for each in (eager, broker, eager):
        sums.add(each)
    verdict = sums.verdict("g", "mine", Mode.ONE_STEP)
    assert (verdict.rebalances, verdict.generations, verdict.second_rounds) == (3, 5, 2)
    assert (verdict.moved, verdict.stickiness) == (7, 1 - 7 / (3 * 24))
    assert (verdict.max_minus_min, verdict.worst_max_minus_min) == (5 / 3, 3)
    assert (verdict.rack_misses, verdict.least_rack_misses) == (7, None)
    assert verdict.paused_eager_s is None
    none = Sums().verdict("g", "mine", Mode.ONE_STEP)
    assert (none.moved, none.stickiness, none.max_over_mean, none.paused_eager_s) == (0, 1.0, 0.0, None)
    assert replace(total_of("mine", Mode.ONE_STEP, [verdict, none]), group="g") == verdict
