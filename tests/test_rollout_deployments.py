"""`rollout` in deployments, step by step: which partitions move, and how uneven the loads are.

`P` is the number of partitions and `N` the number of pods. docs/rules.md states the same bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import ceil

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafka_assignors.strategies import CooperativeSticky, Sticky, Strategy
from kafka_assignors_strategies import Rollout
from tests.deployments import (
    SCENES,
    Deployment,
    Pod,
    aborted,
    blue_green,
    crash,
    new_pod,
    old_pods,
    surge,
    unavailable,
)

topics_of = st.lists(st.integers(1, 20), min_size=1, max_size=4).map(
    lambda counts: {f"t{number}": count for number, count in enumerate(counts)}
)
pods_of = st.integers(1, 9)
FEW = settings(max_examples=40, deadline=None)


def started(topics: Mapping[str, int], strategy: Strategy | None = None) -> Deployment:
    return Deployment(strategy or Rollout(), topics)


def is_level(deployment: Deployment) -> bool:
    loads = deployment.loads()
    return loads[-1] - loads[0] <= 1


HANDING_OVER: dict[str, Callable[[Deployment, int], Iterator[None]]] = {
    **{f"surge {number}": partial(surge, at_a_time=number) for number in (1, 2, 5, 9)},
    "old pods drain first": partial(surge, draining=True),
    "blue and green": blue_green,
}


@pytest.mark.parametrize("scene", HANDING_OVER.values(), ids=HANDING_OVER)
@given(topics=topics_of, pods=pods_of)
@FEW
def test_each_partition_moves_once_and_never_from_a_live_pod(
    scene: Callable[[Deployment, int], Iterator[None]], topics: Mapping[str, int], pods: int
) -> None:
    deployment = started(topics)
    pods = min(pods, deployment.partitions)
    for _ in scene(deployment, pods):
        assert deployment.greatest_load <= ceil(deployment.partitions / pods)
    assert deployment.taken_from_live == 0
    assert deployment.handed_over == deployment.partitions
    assert is_level(deployment)


@given(topics_of, st.integers(2, 5), st.integers(1, 3))
@FEW
def test_where_old_pods_go_first_only_the_last_newcomers_take_from_live_pods(
    topics: Mapping[str, int], times: int, at_a_time: int
) -> None:
    deployment = started(topics)
    partitions = deployment.partitions
    # A pod without a partition ties with an empty new pod.
    pods = min(times, partitions // at_a_time) * at_a_time
    assume(pods > at_a_time)
    for _ in unavailable(deployment, pods, at_a_time):
        # The load is inevitable while `at_a_time` pods are missing.
        assert deployment.greatest_load <= ceil(partitions / (pods - at_a_time))
    assert deployment.taken_from_live <= at_a_time * ceil(partitions / pods)
    assert deployment.handed_over <= partitions + 2 * at_a_time * ceil(partitions / pods)
    assert is_level(deployment)


@given(topics_of, st.integers(2, 9))
@FEW
def test_an_aborted_deployment_moves_at_most_twice_what_was_deployed(
    topics: Mapping[str, int], pods: int
) -> None:
    deployment = started(topics)
    for _ in aborted(deployment, pods):
        assert deployment.greatest_load <= ceil(deployment.partitions / pods)
    assert deployment.taken_from_live == 0
    assert deployment.handed_over <= 2 * (pods // 2) * ceil(deployment.partitions / pods)
    assert is_level(deployment)


@given(topics_of, st.integers(2, 9))
@FEW
def test_a_crash_in_the_middle_leaves_no_trace_in_the_end(topics: Mapping[str, int], pods: int) -> None:
    deployment = started(topics)
    for _ in crash(deployment, pods):
        present = max(len(deployment.loads("1")), len(deployment.loads("2")))
        assert deployment.loads()[-1] <= max(
            ceil(deployment.partitions / present), ceil(deployment.partitions / (pods - 1))
        )
    assert is_level(deployment)


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("other", [CooperativeSticky, Sticky])
def test_nothing_is_worse_than_under_the_stock_strategies(name: str, other: type[Strategy]) -> None:
    topics = {"a": 17, "b": 30, "c": 1}
    ours, theirs = started(topics), started(topics, other())
    for deployment in (ours, theirs):
        for _ in SCENES[name](deployment, 6):
            pass
    assert ours.handed_over <= theirs.handed_over
    assert ours.taken_from_live < theirs.taken_from_live or ours.taken_from_live == 0
    assert ours.greatest_load <= theirs.greatest_load


# ---- a group that stays mixed


@given(topics_of, st.lists(st.integers(1, 5), min_size=2, max_size=4))
@FEW
def test_no_member_has_more_than_the_largest_release_alone_would_give_it(
    topics: Mapping[str, int], releases: list[int]
) -> None:
    """The bound holds in whichever order the pods of several releases join."""
    deployment = started(topics)
    names = frozenset(topics)
    for release, count in enumerate(releases):
        for number in range(count):
            deployment.join(Pod(f"{release}-{number}", str(release), names))
            largest = max(len(deployment.loads(str(one))) for one in range(len(releases)))
            assert deployment.loads()[-1] <= ceil(deployment.partitions / largest)


def test_a_forgotten_pod_is_named_and_a_scaled_up_release_takes_its_part() -> None:
    deployment = started({"orders": 24})
    old_pods(deployment, 1)
    deployment.join(*(new_pod(deployment, number) for number in range(3)))
    assert deployment.loads("1") == [8]
    said = Rollout().findings(deployment.group())
    assert any("release '2' (3 members) and release '1' (1) share topics" in one for one in said)


def test_a_paused_canary_with_a_share_does_not_hold_anything() -> None:
    deployment = started({"orders": 100})
    old_pods(deployment, 3)
    names = frozenset({"orders"})
    deployment.join(Pod("canary", "2", names, share=0.1))
    deployment.join(Pod("old-x", "1", names))
    assert deployment.loads("2") == [10]
    assert deployment.loads("1") == [22, 22, 23, 23]


def test_releases_that_share_no_topic_do_not_hold_each_other() -> None:
    deployment = started({"a": 8, "b": 8})
    deployment.join(Pod("a-1", "1", frozenset({"a"})), Pod("b-1", "7", frozenset({"b"})))
    deployment.join(Pod("a-2", "1", frozenset({"a"})))
    assert deployment.loads() == [4, 4, 8]


# ---- subscriptions that differ


@given(
    st.lists(st.frozensets(st.sampled_from("abcd"), min_size=1), min_size=2, max_size=7),
    st.lists(st.integers(1, 12), min_size=4, max_size=4),
)
@FEW
def test_a_surge_with_the_same_subscriptions_leaves_no_trace_in_the_end(
    subscriptions: list[frozenset[str]], counts: list[int]
) -> None:
    """Each new pod has the subscription of the old pod that it replaces."""
    topics = dict(zip("abcd", counts, strict=True))
    deployment, balanced = started(topics), started(topics)
    deployment.join(*(Pod(f"1-{n}", "1", names) for n, names in enumerate(subscriptions)))
    deployment.settled()
    for number, names in enumerate(subscriptions):
        deployment.join(Pod(f"2-{number}", "2", names))
        deployment.leave(f"1-{number}")
    balanced.join(*(Pod(f"2-{n}", "2", names) for n, names in enumerate(subscriptions)))
    assert deployment.loads() == balanced.loads()
