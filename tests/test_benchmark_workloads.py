"""The groups of the benchmark have the properties that their names promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.group_file import read_group_file, write_group_file
from benchmarks.workloads import WORKLOADS, Workload
from kafka_assignors.group import Assignment, Group
from kafka_assignors.messages import read_members
from kafka_assignors.strategies.sticky import CooperativeSticky
from tests.exact_score import plain

SMALL = [workload for workload in WORKLOADS if re.search(r" (31|1k|10k|20k|45k|50k)\b", workload.name)]


@pytest.mark.parametrize("workload", [w for w in SMALL if "leave" in w.situations], ids=lambda w: w.name)
def test_a_member_leaves_its_share_behind_and_an_unchanged_group_owns_everything(workload: Workload) -> None:
    fresh = workload.fresh()
    leave, unchanged = workload.group("leave"), workload.group("unchanged")
    assert [*leave.members] == [*fresh.members][:-1]
    assert leave.claims.owners.keys() == leave.members.keys()
    assert 3 <= sum(map(len, leave.claims.unowned.values())) <= 4  # 31 partitions over 8 members
    assert unchanged.members.keys() == fresh.members.keys()
    assert not unchanged.claims.unowned
    assert plain(CooperativeSticky().assign(unchanged)) == plain(Assignment(unchanged.claims.owners))


@pytest.mark.parametrize("situation", ["fresh", "join"])
def test_contestants_read_the_group_that_was_written(situation: str, tmp_path: Path) -> None:
    workload = next(w for w in WORKLOADS if "2-of-4 racks" in w.name)
    group = workload.group(situation)
    write_group_file(group, tmp_path / "group.json")
    file = read_group_file(tmp_path / "group.json")
    members = read_members(CooperativeSticky(), file.cooperative).members
    again = Group.of(file.topics, members, group.generation)
    assert again.topics == group.topics
    assert again.claims.unowned == group.claims.unowned
    assert plain(CooperativeSticky().assign(again)) == plain(CooperativeSticky().assign(group))
