"""Every contestant of the benchmark gets the same group."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.group_file import read_group_file, write_group_file
from benchmarks.workloads import WORKLOADS
from kafka_assignors.group import Assignment, Group
from kafka_assignors.messages import read_members
from kafka_assignors.strategies.sticky import CooperativeSticky


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
    assert numbers(CooperativeSticky().assign(again)) == numbers(CooperativeSticky().assign(group))


def numbers(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    """The partitions as lists: a member that keeps all its partitions has them in the type of its claim."""
    return {
        member_id: {topic: [*partitions] for topic, partitions in assigned.items()}
        for member_id, assigned in assignment.members.items()
    }
