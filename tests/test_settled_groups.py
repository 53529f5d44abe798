"""Groups that every release has to leave unchanged, and that a restart of all members restores."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.group import Assignment, Group
from kafka_assignors.group_json import parse_group
from kafka_assignors.strategies import load_strategy
from tests.exact_groups import random_group
from tests.exact_score import Plain, plain

FILE = Path(__file__).parent / "data" / "settled_groups.jsonl"
"""Groups that own an optimal assignment, as the exact oracle found it once; the file does not change."""

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "rack-aware-sticky")


def test_a_group_that_another_program_proved_optimal_stays_as_it_is_in_every_release() -> None:
    # If this fails, do not rewrite the file: leaders of two releases would disagree about live groups.
    cases = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    assert len(cases) == 120
    for case in cases:
        group = parse_group(case["group"])
        owned = Assignment({member.id: member.owned for member in group.members.values()})
        assert plain(load_strategy(case["strategy"]).assign(group)) == plain(owned)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seed=st.integers(0, 2**32))
def test_static_members_that_restart_together_are_assigned_as_before(strategy: str, seed: int) -> None:
    group = random_group(random.Random(seed))

    def by_name(restart: int) -> Plain:
        """The shares of static members by instance id, and of dynamic members by member id."""
        ids = random.Random(f"{seed}/{restart}")
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
