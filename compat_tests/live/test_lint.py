"""What `lint` reads of a live group reaches its rules; `tests/test_lint_rules.py` has each rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_confluent.connection import Connection
from kafka_assignors_ops.cluster import read_groups
from kafka_assignors_ops.live_group import CLASSIC, CONSUMER
from tests.test_cli import run_here

STOCK, COOPERATIVE = "compat_tests.aiokafka.member", "compat_tests.aiokafka.cooperative_member"


@pytest.fixture
def group(kafka: Kafka) -> Iterator[GroupOfMembers]:
    with GroupOfMembers(kafka, STOCK, {"orders": 4}) as group:
        yield group


def run(group: GroupOfMembers, *arguments: str) -> tuple[int, str]:
    """The exit code of `lint` for the live group, and all that it printed."""
    where = "--bootstrap-server", group.kafka.bootstrap, "--group", group.id
    code, out, err = run_here("lint", *where, *arguments)
    return code, err + out


def findings(group: GroupOfMembers, *arguments: str) -> dict[str, str]:
    """The severity of each rule with a finding."""
    code, said = run(group, *arguments, "--json", "-")
    found = {one["rule"]: one["severity"] for one in json.loads(said[said.index("{") :])["findings"]}
    assert code == ("error" in found.values())
    return found


def settings_file(folder: Path, **settings: object) -> str:
    file = folder / "settings.json"
    file.write_text(
        json.dumps({"client": "aiokafka", "partition_assignment_strategy": ["sticky"], **settings})
    )
    return str(file)


def described(group: GroupOfMembers) -> tuple[str, str]:
    (live,) = read_groups(Connection(group.kafka.bootstrap, {}, HANG_S), [group.id])
    return live.group_type, live.protocol


def test_a_change_of_strategy_is_refused_in_one_roll_and_accepted_in_two(
    group: GroupOfMembers, tmp_path: Path
) -> None:
    group.start("old", ["sticky"])
    settled = group.settle()
    alone = settings_file(tmp_path, partition_assignment_strategy=["cooperative-sticky"])
    for change in (("--change-to", "cooperative-sticky"), (alone,)):
        assert findings(group, *change)["no-common-strategy"] == "error"
    group.start("hasty", ["cooperative-sticky"])
    group.wait_for_report("hasty", "failed", "InconsistentGroupProtocolError")

    assert "no-common-strategy" not in findings(group, "--change-to", "cooperative-sticky,sticky")
    second_roll = ("--change-to", "cooperative-sticky", "--from", "cooperative-sticky,sticky")
    code, said = run(group, *second_roll)
    assert (code, "runs 'sticky', so not every member has this list" in said) == (2, True)
    group.start("rolled", ["cooperative-sticky", "sticky"])
    settled = group.settle("old", "rolled", after=settled)
    group.stop("old")
    settled = group.settle("rolled", after=settled)
    assert "no-common-strategy" not in findings(group, *second_roll)
    group.start("renewed", ["cooperative-sticky"])
    group.settle("rolled", "renewed", after=settled)
    assert described(group) == (CLASSIC, "cooperative-sticky")


def test_the_instance_ids_are_those_of_the_members(group: GroupOfMembers) -> None:
    group.start("a", ["sticky"], instance_id="orders-0")
    group.settle()
    assert "passing-instance-id" not in findings(group)
    group.start("b", ["sticky"], instance_id="orders-7d9f8b6c5-x2x4z")
    group.settle()
    assert findings(group)["passing-instance-id"] == "warning"


def test_a_group_that_the_broker_assigns_is_told_from_one_whose_leader_assigns(group: GroupOfMembers) -> None:
    change = ("--change-to", "roundrobin,sticky")
    group.start("classic", ["sticky"])
    settled = group.settle()
    assert described(group) == (CLASSIC, "sticky")
    assert "kip848-group" not in findings(group, *change)
    group.start("kip848", [], program="compat_tests.support.kip848_member")
    group.settle(after=settled)
    assert described(group) == (CONSUMER, "uniform")
    assert findings(group, *change)["kip848-group"] == "error"


@pytest.mark.parametrize(("program", "severity"), [(STOCK, "info"), (COOPERATIVE, None)])
def test_a_member_that_has_joined_without_its_partitions_is_told_from_one_that_held_them(
    group: GroupOfMembers, program: str, severity: str | None
) -> None:
    # The client ids tell lint which client it is.
    group.start("aiokafka-1", ["cooperative-sticky"], program=program)
    alone = group.settle()
    group.start("aiokafka-2", ["cooperative-sticky"], program=program)
    both = group.settle(after=alone)
    group.stop("aiokafka-2")
    group.settle("aiokafka-1", after=both)
    assert findings(group).get("eager-consumer") == severity


def test_a_group_that_is_rebalancing_is_not_judged(group: GroupOfMembers) -> None:
    group.start("frozen", ["sticky"])
    group.settle()
    assert run(group, "--timeout", "2")[0] == 0
    group.freeze("frozen")
    group.start("newcomer", ["sticky"])
    said = group.wait_for(
        "lint to find the group rebalancing",
        lambda: done[1] if (done := run(group, "--timeout", "2"))[0] == 2 else None,
    )
    assert "is rebalancing (PreparingRebalance), so its strategy is not known" in said
