"""Copies of the recorded groups, and what the rows of a group do not depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors_replay.history.records import MemberDecoder, decode_record
from kafka_assignors_replay.result import RECORDED, Mode
from spark_validation import fleet
from spark_validation.tests.folding import raw_rows
from spark_validation.tests.replaying import replay

pytestmark = pytest.mark.exhaustive

GROUPS = ("checkout", "fraud", "payouts", "audit-trail")


def test_each_copy_of_a_group_has_the_figures_of_the_group(recorded: str, tmp_path: Path) -> None:
    fleet.write(tmp_path / "fleet", "copies", 2)
    names = tuple(f"{group}-{copy:04d}" for group in GROUPS for copy in range(2))
    copies = replay(tmp_path / "fleet", strategies=("range",), groups=names).verdicts
    alone = replay(recorded, strategies=("range",), groups=GROUPS).verdicts
    assert {replace(each, group=each.group[:-5]) for each in copies} == set(alone)
    assert len(copies) == 2 * len(alone)


def test_figures_depend_on_no_other_strategy_and_on_no_other_mode(recorded: str) -> None:
    every = ("cooperative-sticky", "range", "roundrobin", "sticky")
    together = replay(recorded, strategies=every, groups=GROUPS).verdicts
    for strategies, mode in ((("sticky", "range"), Mode.ONE_STEP), (("sticky",), Mode.STEADY_STATE)):
        alone = replay(recorded, strategies=strategies, modes=(mode,), groups=GROUPS).verdicts
        assert set(alone) == {
            each for each in together if each.strategy in (*strategies, RECORDED) and each.mode is mode
        }


def test_members_decode_alike_whichever_records_were_decoded_before(recorded: str) -> None:
    members = MemberDecoder()
    for row in sorted(raw_rows(recorded), key=lambda row: (row["partition"], row["offset"])):
        alone = decode_record(row["key"], row["value"])
        assert decode_record(row["key"], row["value"], members) == alone
