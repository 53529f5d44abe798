"""A plan is a function of its seed, and contains only possible actions."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from compat_tests.chaos import plan as planning
from compat_tests.chaos.actions import Join, Kill, Leave, Subscribe
from compat_tests.chaos.plan import Step, plan

KINDS = ["aiokafka", "kafka-python", "java", "librdkafka"]


def rounds(seed: int, count: int = 4) -> list[list[Step]]:
    return [list(steps) for steps in itertools.islice(plan(seed, KINDS), count)]


def test_a_seed_gives_the_same_plan_each_time_and_another_one_another() -> None:
    assert rounds(7) == rounds(7)
    assert rounds(7) != rounds(8)


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=50)
def test_some_members_are_always_left_and_every_topic_is_read(seed: int) -> None:
    topics: dict[str, tuple[str, ...]] = {}
    for steps in rounds(seed):
        assert [step.at_s for step in steps] == sorted(step.at_s for step in steps)
        for step in steps:
            match step.action:
                case Join(name, _, subscribed) | Subscribe(name, subscribed):
                    topics[name] = tuple(subscribed)
                case Leave(name) | Kill(name):
                    del topics[name]
            read = {topic for subscribed in topics.values() for topic in subscribed}
            assert read == set(planning.PARTITIONS)
            assert len(topics) <= 6
        assert len(topics) >= 3
