"""`kip848-uniform` and `kip848-range` give the same result as the classes of a released broker.

They are compared partition by partition with the tables of a coordinator, for thousands of groups; and along
histories of groups, for which our strategies get only the information that an administrator can see.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import replace

import pytest

from compat_tests.java.random_groups import features
from compat_tests.java.server_groups import Change, history, server_group
from compat_tests.java.server_oracle import ByMember, ServerOracle
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.jvm import java_home_binary
from kafka_assignors.group import NO_GENERATION, Assignment, Group
from kafka_assignors.group_json import assignment_to_json, group_to_json
from kafka_assignors.quality import measure
from kafka_assignors.strategies import Kip848Range, Kip848Uniform, Strategy
from kafka_assignors.strategies.kip848 import timeline_position
from kafka_assignors.strategies.range_roundrobin import java_order
from kafka_assignors.wire.consumer_offsets import string_hash

GROUPS = 2000
HISTORIES, EPOCHS = 80, 25


def java_release() -> int:
    """The release of the JVM in which the oracle runs."""
    said = subprocess.run(
        [java_home_binary("java"), "-version"], capture_output=True, text=True, timeout=HANG_S, check=True
    ).stderr
    found = re.search(r'version "(\d+)', said)
    assert found is not None
    return int(found[1])


def strategies() -> list[tuple[str, Strategy]]:
    return [("range", Kip848Range()), ("uniform", Kip848Uniform(java=java_release()))]


def broker_assigns(oracle: ServerOracle, group: Group) -> ByMember:
    """The target of a coordinator whose tables are as our strategy assumes them.

    The table of members iterates members in the same slot in the reverse order of their arrival. A single
    member that has never owned a partition is the one that joins.
    """
    waiting = sorted(
        group.members.values(),
        key=lambda member: (timeline_position(string_hash(member.id)), java_order(member.id)),
        reverse=True,
    )
    new = [member for member in waiting if member.generation == NO_GENERATION]
    heartbeat = new[0] if len(new) == 1 else waiting[0]
    known = [member for member in waiting if member is not heartbeat or len(new) != 1]
    return oracle.heartbeat(group.topics.values(), heartbeat, members=known, new=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "strategy"), strategies(), ids=("range", "uniform"))
def test_random_groups_are_assigned_as_the_coordinator_assigns_them(
    name: str, strategy: Strategy, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: Counter[str] = Counter()
    with ServerOracle(name) as oracle:
        for seed in range(GROUPS):
            group = server_group(seed)
            seen.update(features(group))
            target = strategy.assign(group)
            seen["moves"] += bool(measure(group, target).moved)
            assert assignment_to_json(target) == broker_assigns(oracle, group), (
                f"server_group({seed}): {strategy.name} differs from the broker's {name} for\n"
                f"{json.dumps(group_to_json(group))}"
            )
    with capsys.disabled():
        mixed = seen["mixed subscriptions"]
        print(
            f"\n{GROUPS} random groups ({mixed} of mixed subscriptions, {seen['moves']} in which partitions "
            f"move, {seen['30 members and more']} of 30 members and more): {name} equal in all of them"
        )
    wanted = ("mixed subscriptions", "owned partitions", "static members", "30 members and more")
    assert min(seen[feature] for feature in (*wanted, "moves")) > GROUPS // 50


@pytest.mark.timeout(600)
def test_along_histories_loads_and_moves_are_the_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    """Single partitions can differ, since the order of the members' arrival, for example, is not visible."""
    strategy = Kip848Uniform(java=java_release())
    epochs: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    moved = 0
    with ServerOracle("uniform") as oracle:
        for seed in range(HISTORIES):
            target: ByMember = {}
            for epoch, change in enumerate(history(seed, EPOCHS), 1):
                group = seen_before(change, target, epoch)
                left = [] if change.left is None else [change.left]
                target = oracle.heartbeat(
                    change.topics.values(), change.heartbeat, leave=left, new=epoch == 1
                )
                ours, theirs = strategy.assign(group), Assignment(target)
                where = f"history({seed}), epoch {epoch}: {change.what}"
                assert loads(ours) == loads(theirs), where
                assert measure(group, ours).moved == measure(group, theirs).moved, where
                kind = "mixed" if len({member.topics for member in group.members.values()}) > 1 else "alike"
                epochs[kind] += 1
                equal[kind] += assignment_to_json(ours) == target
                moved += measure(group, theirs).moved
    with capsys.disabled():
        print(
            f"\n{HISTORIES} histories, {epochs.total()} epochs, {moved} moves: loads and number of moves "
            "equal in all of them, partition by partition "
            + ", ".join(f"{equal[kind]} of {epochs[kind]} {kind}" for kind in sorted(epochs))
        )
    assert min(epochs.values()) > 300
    assert equal.total() > 0.9 * epochs.total()


def seen_before(change: Change, target: ByMember, epoch: int) -> Group:
    """The group between the change and its epoch, as an administrator sees it."""
    members = [
        replace(
            member,
            # The owner of the old topic owns nothing of a topic that was created again.
            owned={
                topic: partitions
                for topic, partitions in target.get(member.id, {}).items()
                if topic != change.recreated
            },
            generation=epoch - 1 if member.id in target else NO_GENERATION,
        )
        for member in change.members.values()
    ]
    return Group.of(change.topics.values(), members, epoch)


def loads(assignment: Assignment) -> list[int]:
    return sorted(map(assignment.load, assignment.members))
