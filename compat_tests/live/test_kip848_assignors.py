"""A real broker's `range` gives KIP-848 members what ours does, its `uniform` the same loads and moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.group import NO_GENERATION, Assignment, Group
from kafka_assignors.quality import measure
from kafka_assignors.strategies import Strategy, load_strategy
from kafka_assignors_cli.group_form import assignment_to_json
from kafka_assignors_confluent.connection import Connection
from kafka_assignors_ops.cluster import read_groups
from kafka_assignors_ops.live_group import LiveGroup, as_group

TOPICS = {"orders": 7, "payments": 5, "clicks": 11}
MEMBERS = ("one", "two", "three", "four", "five")


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_each_target_follows_from_the_one_before(kafka: Kafka, assignor: str) -> None:
    strategy = load_strategy(f"kip848-{assignor}")
    connection = Connection(kafka.bootstrap, {}, HANG_S)
    with GroupOfMembers(kafka, "compat_tests.support.kip848_member", TOPICS) as group:

        def settled(members: int) -> Callable[[], LiveGroup | None]:
            def look() -> LiveGroup | None:
                (live,) = read_groups(connection, [group.id])
                loads = live.loads or ()
                # Both assignors give every member partitions; the broker may take a second for that.
                given_out = len(loads) == members and sum(loads) == sum(TOPICS.values()) and min(loads) > 0
                # Stable: every member has what the broker wants it to have.
                return live if given_out and live.state == "Stable" else None

            return look

        before = Group.of((), ())
        for count, name in enumerate(MEMBERS, 1):
            group.start(name, [assignor])
            group.wait_for_report(name, "assigned", "")
            live = group.wait_for(f"{count} members at rest", settled(count))
            assert live.protocol == assignor
            before = assert_follows(strategy, before, live)
        group.stop("two")
        assert_follows(strategy, before, group.wait_for("four members at rest", settled(len(MEMBERS) - 1)))


def assert_follows(strategy: Strategy, before: Group, live: LiveGroup) -> Group:
    """Check that the strategy makes this assignment of the previous one; returns the present group.

    `range` is compared partition by partition, `uniform` by loads and moves.
    """
    now = as_group(live)
    had = {member_id: member.owned for member_id, member in before.members.items()}
    prior = Group.of(
        now.topics.values(),
        (
            replace(member, owned=had.get(member.id, {}), generation=1 if member.id in had else NO_GENERATION)
            for member in now.members.values()
        ),
    )
    ours = strategy.assign(prior)
    theirs = Assignment({member_id: member.owned for member_id, member in now.members.items()})
    if strategy.name == "kip848-range":
        assert assignment_to_json(ours) == assignment_to_json(theirs)
    assert sorted(map(ours.load, now.members)) == sorted(map(theirs.load, now.members))
    assert measure(prior, ours).moved == measure(prior, theirs).moved
    return now
