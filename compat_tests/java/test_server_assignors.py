"""`kip848-range` gives the same result as the class of a released broker, `kip848-uniform` the same loads and
moves: for thousands of groups, and along histories of groups.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from compat_tests.java.random_groups import features
from compat_tests.java.server_groups import Change, history, server_group
from compat_tests.java.server_oracle import ByMember, ServerOracle
from kafka_assignors.group import NO_GENERATION, Assignment, Group
from kafka_assignors.quality import measure
from kafka_assignors_cli.group_form import assignment_to_json, group_to_json
from kafka_assignors_strategies import Kip848Range, Kip848Uniform

GROUPS = 2000
HISTORIES, EPOCHS = 80, 25


def broker_assigns(oracle: ServerOracle, group: Group) -> ByMember:
    """The target of a coordinator with this group, in which a single new member is the one that joins."""
    members = list(group.members.values())
    new = [member for member in members if member.generation == NO_GENERATION]
    heartbeat = new[0] if len(new) == 1 else members[0]
    known = [member for member in members if member is not heartbeat or len(new) != 1]
    return oracle.heartbeat(group.topics.values(), heartbeat, members=known, new=True)


class Compared:
    """Loads and moves of our target and the broker's, which must be equal where all subscribe to the same."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def compare(self, group: Group, ours: Assignment, theirs: Assignment, where: str) -> None:
        moved = measure(group, theirs).moved
        equal = (loads(ours), measure(group, ours).moved) == (loads(theirs), moved)
        kind = "mixed" if len({member.topics for member in group.members.values()}) > 1 else "alike"
        assert equal or kind == "mixed", (
            f"{where}: loads or moves differ from the broker's for\n{json.dumps(group_to_json(group))}"
        )
        self.seen.update({kind: 1, f"{kind}, equal": equal, "moved": moved, "moves": bool(moved)})

    def report(self, what: str) -> str:
        seen = self.seen
        return (
            f"\n{what}: loads and moves equal in {seen['alike, equal']} of {seen['alike']} groups whose "
            f"members subscribe alike, in {seen['mixed, equal']} of {seen['mixed']} others; "
            f"{seen['moved']} moves"
        )


@pytest.mark.timeout(600)
def test_range_assigns_random_groups_as_the_coordinator_does() -> None:
    with ServerOracle("range") as oracle:
        for seed in range(GROUPS):
            group = server_group(seed)
            assert assignment_to_json(Kip848Range().assign(group)) == broker_assigns(oracle, group), (
                f"server_group({seed}): {json.dumps(group_to_json(group))}"
            )


@pytest.mark.timeout(600)
def test_uniform_has_the_loads_and_moves_of_the_coordinator(capsys: pytest.CaptureFixture[str]) -> None:
    compared = Compared()
    seen: Counter[str] = Counter()
    with ServerOracle("uniform") as oracle:
        for seed in range(GROUPS):
            group = server_group(seed)
            seen.update(features(group))
            theirs = Assignment(broker_assigns(oracle, group))
            compared.compare(group, Kip848Uniform().assign(group), theirs, f"server_group({seed})")
    with capsys.disabled():
        print(compared.report(f"{GROUPS} random groups"))
    wanted = ("mixed subscriptions", "owned partitions", "static members", "30 members and more")
    assert min(compared.seen["moves"], *(seen[feature] for feature in wanted)) > GROUPS // 50
    assert compared.seen["mixed, equal"] > 0.5 * compared.seen["mixed"]


@pytest.mark.timeout(600)
def test_along_histories_loads_and_moves_are_the_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    compared = Compared()
    with ServerOracle("uniform") as oracle:
        for seed in range(HISTORIES):
            target: ByMember = {}
            for epoch, change in enumerate(history(seed, EPOCHS), 1):
                group = seen_before(change, target, epoch)
                left = [] if change.left is None else [change.left]
                target = oracle.heartbeat(
                    change.topics.values(), change.heartbeat, leave=left, new=epoch == 1
                )
                where = f"history({seed}), epoch {epoch}: {change.what}"
                compared.compare(group, Kip848Uniform().assign(group), Assignment(target), where)
    with capsys.disabled():
        print(compared.report(f"{HISTORIES} histories"))
    assert min(compared.seen["alike"], compared.seen["mixed"]) > 300
    assert compared.seen["mixed, equal"] > 0.5 * compared.seen["mixed"]


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
