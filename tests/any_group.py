"""Any group, for tests of properties: a group of `exact_groups`, with difficult claims."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st

from kafka_assignors.announcements import Facts, encode_facts
from kafka_assignors.group import Group, Topic
from tests.exact_groups import random_group

seeds = st.integers(0, 2**32)
groups: st.SearchStrategy[Group] = seeds.map(lambda seed: random_group(random.Random(seed)))


def announcing(seed: int) -> Group:
    """A random group whose members announce facts, and whose topics have weights."""
    rng = random.Random(seed)
    group = random_group(rng)

    def facts() -> bytes:
        release, capacity = rng.choice([None, "1", "2"]), rng.choice([None, 1, 3])
        share = rng.choice([None, None, 0, 1000, 5000])
        standby = rng.random() < 0.3
        data = encode_facts(Facts(release, share, capacity=capacity, standby=standby))
        return data if rng.random() < 0.95 else b"\x00\x01\xff"

    def weighed(topic: Topic) -> Topic:
        weights = tuple(rng.choice([None, 0, 1, 7, 40]) for _ in range(topic.partitions))
        return replace(topic, weights=weights) if rng.random() < 0.7 else topic

    return Group(
        {name: weighed(topic) for name, topic in group.topics.items()},
        {id: replace(member, data=facts()) for id, member in group.members.items()},
        group.generation,
    )


announced_groups: st.SearchStrategy[Group] = seeds.map(announcing)
