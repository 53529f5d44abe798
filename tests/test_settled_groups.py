"""Groups that every release has to leave unchanged, and that a restart of all members restores."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies import load_strategy
from tests.exact_groups import random_group
from tests.settled_groups import ORDERS, SIZES, owned, settled, settled_groups


def plain(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    return {m: {t: list(ps) for t, ps in share.items()} for m, share in assignment.members.items()}


def test_a_group_that_another_program_proved_optimal_stays_as_it_is_in_every_release() -> None:
    # If this fails, do not rewrite the file: leaders of two releases would disagree about live groups.
    seen = 0
    for strategy, group in settled_groups():
        assert plain(load_strategy(strategy).assign(group)) == plain(owned(group))
        seen += 1
    assert seen == 120


@pytest.mark.parametrize("strategy", ORDERS)
@given(seed=st.integers(0, 2**32))
def test_any_group_at_its_best_stays_as_it_is(strategy: str, seed: int) -> None:
    rng = random.Random(seed)
    group = settled(random_group(rng, SIZES), ORDERS[strategy], rng)
    assert plain(load_strategy(strategy).assign(group)) == plain(owned(group))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", *ORDERS])
@given(seed=st.integers(0, 2**32))
def test_static_members_that_restart_together_are_assigned_as_before(strategy: str, seed: int) -> None:
    rng = random.Random(seed)
    group = random_group(rng, SIZES)

    def by_name(members_of: int) -> dict[str, dict[str, list[int]]]:
        """The shares of static members by instance id, and of dynamic members by member id."""
        ids = random.Random(f"{seed}/{members_of}")
        members = [
            replace(
                member,
                id=f"{member.instance_id}-{ids.getrandbits(64):x}" if member.instance_id else member.id,
                owned={},
                generation=-1,
            )
            for member in group.members.values()
        ]
        started = Group.of(group.topics.values(), members)
        assigned = plain(load_strategy(strategy).assign(started))
        return {member.instance_id or member.id: assigned[member.id] for member in members}

    assert by_name(1) == by_name(2)
