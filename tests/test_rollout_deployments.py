"""`rollout` in deployments, step by step: which partitions move, and how uneven the loads are.

`P` is the number of partitions and `N` the number of pods. docs/rules.md states the same bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import ceil

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafka_assignors.announcements import Facts, encode_facts
from kafka_assignors.group import Group, Member, Topic, Warmth
from kafka_assignors.leader import lead
from kafka_assignors.strategies import RebalanceProtocol
from kafka_assignors_strategies import Rollout
from tests.exact_comparison import owning
from tests.exact_score import Partition, owners_of


class Deployment:
    """A group under `rollout` that starts with `pods` pods of release 1, and the moves of its partitions."""

    def __init__(self, topics: Mapping[str, int], pods: int) -> None:
        self.group = Group.of([Topic(name, partitions) for name, partitions in topics.items()], [])
        self.partitions = sum(topics.values())
        self.handed_over = self.taken_from_live = self.greatest_load = 0
        self._owners: Mapping[Partition, str] = {}
        self.start("1", range(pods))

    def start(self, names: str, numbers: Iterable[int], *, release: str | None = None) -> None:
        """Let pods of this release join at the same time; they subscribe to all topics."""
        data, topics = encode_facts(Facts(release or names)), frozenset(self.group.topics)
        self._rebalance(*(Member(f"{names}-{number:03}", topics, data=data) for number in numbers))

    def drain(self, names: str, numbers: Iterable[int]) -> None:
        """Let these pods drain: they join again."""
        pods = [self.group.members[f"{names}-{number:03}"] for number in numbers]
        self._rebalance(*(replace(pod, warmth=Warmth(draining=True)) for pod in pods))

    def stop(self, names: str, numbers: Iterable[int]) -> None:
        """Let these pods leave at the same time: they stop in an orderly way, or their sessions expire."""
        self._rebalance(without={f"{names}-{number:03}" for number in numbers})

    def _rebalance(self, *joined: Member, without: Iterable[str] = ()) -> None:
        members = {**self.group.members, **{pod.id: pod for pod in joined}}
        group = replace(self.group, members={id: pod for id, pod in members.items() if id not in without})
        led = lead(Rollout(), group, RebalanceProtocol.COOPERATIVE)
        if led.withheld:
            led = lead(Rollout(), owning(group, led.assignment), RebalanceProtocol.COOPERATIVE)
        assert not led.withheld, "the cooperative protocol needs two rounds"
        owners = owners_of(group, led.assignment)
        for partition, earlier in self._owners.items():
            if owners[partition] != earlier:
                self.handed_over += 1
                self.taken_from_live += earlier in group.members and group.members[earlier].warmth is None
        self.group, self._owners = owning(group, led.assignment), owners
        self.greatest_load = max([self.greatest_load, *self.loads()])

    def loads(self) -> list[int]:
        """The loads of all pods, ascending."""
        return sorted(sum(map(len, pod.owned.values())) for pod in self.group.members.values())

    def is_level(self) -> bool:
        loads = self.loads()
        return loads[-1] - loads[0] <= 1


# Deployments of release 2. Among equal members the lower id wins, which is that of the older pod.


def batches(pods: int, at_a_time: int) -> list[range]:
    return [range(pods)[first : first + at_a_time] for first in range(0, pods, at_a_time)]


def surge(deployment: Deployment, pods: int, at_a_time: int = 1, *, draining: bool = False) -> None:
    """New pods start before old ones stop: `maxSurge: <at_a_time>, maxUnavailable: 0`."""
    for numbers in batches(pods, at_a_time):
        deployment.start("2", numbers)
        if draining:
            deployment.drain("1", numbers)
        deployment.stop("1", numbers)


topics_of = st.lists(st.integers(1, 20), min_size=1, max_size=4).map(
    lambda counts: {f"t{number}": count for number, count in enumerate(counts)}
)
FEW = settings(max_examples=40, deadline=None)

HANDING_OVER: dict[str, Callable[[Deployment, int], None]] = {
    **{f"surge {number}": partial(surge, at_a_time=number) for number in (1, 2, 5)},
    "old pods drain first": partial(surge, draining=True),
    "blue and green": partial(surge, at_a_time=9),  # of up to 9 pods
}


@pytest.mark.parametrize("deploy", HANDING_OVER.values(), ids=HANDING_OVER)
@given(topics=topics_of, pods=st.integers(1, 9))
@FEW
def test_each_partition_moves_once_and_never_from_a_live_pod(
    deploy: Callable[[Deployment, int], None], topics: Mapping[str, int], pods: int
) -> None:
    pods = min(pods, sum(topics.values()))
    deployment = Deployment(topics, pods)
    deploy(deployment, pods)
    assert deployment.greatest_load <= ceil(deployment.partitions / pods)
    assert deployment.taken_from_live == 0
    assert deployment.handed_over == deployment.partitions
    assert deployment.is_level()


@given(topics_of, st.integers(2, 5), st.integers(1, 3))
@FEW
def test_where_old_pods_go_first_only_the_last_newcomers_take_from_live_pods(
    topics: Mapping[str, int], times: int, at_a_time: int
) -> None:
    """Old pods stop before new ones start: `maxSurge: 0, maxUnavailable: <at_a_time>`."""
    partitions = sum(topics.values())
    # A pod without a partition ties with an empty new pod.
    pods = min(times, partitions // at_a_time) * at_a_time
    assume(pods > at_a_time)
    deployment = Deployment(topics, pods)
    for numbers in batches(pods, at_a_time):
        deployment.stop("1", numbers)
        deployment.start("2", numbers)
    # The load is inevitable while `at_a_time` pods are missing.
    assert deployment.greatest_load <= ceil(partitions / (pods - at_a_time))
    assert deployment.taken_from_live <= at_a_time * ceil(partitions / pods)
    assert deployment.handed_over <= partitions + 2 * at_a_time * ceil(partitions / pods)
    assert deployment.is_level()


@given(topics_of, st.integers(2, 9))
@FEW
def test_an_aborted_deployment_moves_at_most_twice_what_was_deployed(
    topics: Mapping[str, int], pods: int
) -> None:
    """After half of a surge, pods of release 1 replace the new ones."""
    deployment = Deployment(topics, pods)
    surge(deployment, pods // 2)
    for number in range(pods // 2):
        deployment.start("3", [number], release="1")
        deployment.stop("2", [number])
    assert deployment.greatest_load <= ceil(deployment.partitions / pods)
    assert deployment.taken_from_live == 0
    assert deployment.handed_over <= 2 * (pods // 2) * ceil(deployment.partitions / pods)
    assert deployment.is_level()


@given(topics_of, st.lists(st.integers(1, 5), min_size=2, max_size=4))
@FEW
def test_no_member_has_more_than_the_largest_release_alone_would_give_it(
    topics: Mapping[str, int], releases: list[int]
) -> None:
    """The bound holds in whichever order the pods of several releases join."""
    deployment = Deployment(topics, 0)
    for release, count in enumerate(releases):
        for number in range(count):
            deployment.start(str(release), [number])
            largest = max([*releases[:release], number + 1])
            assert deployment.loads()[-1] <= ceil(deployment.partitions / largest)
