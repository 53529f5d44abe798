"""What holds of the assignments of every strategy that remembers, for any group."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_assignors.strategies import Capacity, CooperativeSticky, RackAwareSticky, Sticky
from kafka_assignors_strategies import CoPartitioned, Priority, Rollout, Standby, Weighted
from tests.any_group import announcing
from tests.exact_comparison import owning, shuffled
from tests.exact_score import owners_of, plain

STRATEGIES = {
    "sticky": Sticky(),
    "cooperative-sticky": CooperativeSticky(),
    "rack-aware-sticky": RackAwareSticky(),
    "racks traded": RackAwareSticky(2.5),
    "capacity": Capacity(),
    "co-partitioned": CoPartitioned([{"topic-0", "topic-1"}, {"topic-3", "topic-2"}]),
    "priority": Priority([["topic-0", ("topic-1", [0, 2])], ["topic-1", "topic-5"]]),
    "rollout": Rollout(),
    "standby": Standby(active_at_least=2),
    "weighted": Weighted(),
}
each_strategy = pytest.mark.parametrize("name", STRATEGIES)


@each_strategy
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_every_partition_has_one_owner_and_a_second_assignment_moves_nothing(name: str, seed: int) -> None:
    strategy, group = STRATEGIES[name], announcing(seed)
    first = strategy.assign(group)
    owners = owners_of(group, first)  # Checks that the assignment is valid.
    again = shuffled(random.Random(seed), owning(group, first))
    assert owners_of(again, strategy.assign(again)) == owners


@each_strategy
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_the_order_of_members_topics_and_claims_means_nothing(name: str, seed: int) -> None:
    strategy, group = STRATEGIES[name], announcing(seed)
    same = shuffled(random.Random(seed), group)
    assert plain(strategy.assign(same)) == plain(strategy.assign(group))
    assert list(strategy.findings(same)) == list(strategy.findings(group))


def fingerprint() -> str:
    digest = hashlib.sha256(STRATEGIES["co-partitioned"].digest().encode())  # type: ignore[attr-defined]
    for seed in range(20):
        group = announcing(seed)
        for strategy in STRATEGIES.values():
            shares = {
                id: sorted((topic, list(numbers)) for topic, numbers in share.items())
                for id, share in sorted(strategy.assign(group).members.items())
            }
            digest.update(repr(shares).encode())
    return digest.hexdigest()


@pytest.mark.exhaustive
def test_every_release_assigns_the_same_for_any_seed_of_hashes() -> None:
    # If this fails, assignments have changed: leaders of two releases would move partitions back and forth.
    pinned = "55fb8fc147be3e055723a7207a5f6a33b6e93d233cbedc6cc7cccb46c0272ed7"
    assert fingerprint() == pinned
    program = "from tests.test_any_strategy import fingerprint; print(fingerprint())"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    assert ran.stdout.strip() == pinned
