"""`rollout` in deployments, step by step: which partitions move, and how uneven the loads are.

`P` is the number of partitions and `N` the number of pods. docs/rules.md states the same bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafka_assignors.announcements import Facts, encode_facts
from kafka_assignors.group import Group, Member, Topic, TopicPartitions
from kafka_assignors.leader import lead
from kafka_assignors.strategies import RebalanceProtocol
from kafka_assignors_strategies import Rollout

_MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Pod:
    """A member: its announcement, subscription and owned partitions."""

    name: str
    release: str
    topics: frozenset[str]
    draining: bool = False
    owned: TopicPartitions = field(default_factory=dict)
    generation: int = -1

    def member(self) -> Member:
        """The pod as a member of a group."""
        data = encode_facts(Facts(self.release, draining=self.draining))
        return Member(self.name, self.topics, owned=self.owned, generation=self.generation, data=data)

    @property
    def load(self) -> int:
        """The number of partitions that the pod owns."""
        return sum(map(len, self.owned.values()))


class Deployment:
    """A group under `rollout`, and the moves of its partitions since the last call of `settled`."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.topics = [Topic(name, partitions) for name, partitions in topics.items()]
        self.pods: dict[str, Pod] = {}
        self.generation = 0
        self.handed_over = 0
        self.taken_from_live = 0
        self.greatest_load = 0
        self._owner: dict[tuple[str, int], str] = {}

    # ---- changes

    def join(self, *pods: Pod) -> None:
        """Let these pods join at the same time."""
        self.pods |= {pod.name: pod for pod in pods}
        self.rebalance()

    def leave(self, *names: str) -> None:
        """Let these pods leave at the same time: they stop in an orderly way, or their sessions expire."""
        for name in names:
            del self.pods[name]
        self.rebalance()

    def change(self, *pods: Pod) -> None:
        """Let these pods announce new facts and join again."""
        for pod in pods:
            before = self.pods[pod.name]
            self.pods[pod.name] = replace(pod, owned=before.owned, generation=before.generation)
        self.rebalance()

    def rebalance(self) -> None:
        """Run rounds until no partition is withheld: the cooperative protocol needs two."""
        before = dict(self._owner)
        rounds = (self._round() for _ in range(_MOST_ROUNDS))
        assert not self.pods or not all(rounds), "something is still withheld"
        for partition, earlier in before.items():
            if self._owner[partition] != earlier:
                self.handed_over += 1
                self.taken_from_live += earlier in self.pods and not self.pods[earlier].draining
        self.greatest_load = max([self.greatest_load, *(pod.load for pod in self.pods.values())])

    def _round(self) -> bool:
        """Whether a partition is withheld after one more round."""
        members = [pod.member() for pod in self.pods.values()]
        group = Group.of(self.topics, members, self.generation)
        led = lead(Rollout(), group, RebalanceProtocol.COOPERATIVE)
        self.generation += 1
        for name, owned in led.assignment.members.items():
            self.pods[name] = replace(self.pods[name], owned=owned, generation=self.generation)
            for topic, partitions in owned.items():
                self._owner.update(dict.fromkeys(((topic, partition) for partition in partitions), name))
        return bool(led.withheld)

    # ---- state and counts

    def settled(self) -> None:
        """Reset the counts."""
        self.handed_over = self.taken_from_live = self.greatest_load = 0

    def loads(self, release: str | None = None) -> list[int]:
        """The loads of all pods, or of those of one release, ascending."""
        return sorted(pod.load for pod in self.pods.values() if release in (None, pod.release))

    @property
    def partitions(self) -> int:
        return sum(topic.partitions for topic in self.topics)


# ---- scenes: the changes of a group that starts with `pods` pods of release 1


def old_pods(deployment: Deployment, pods: int) -> list[str]:
    """Join pods of release 1, reset the counts, and return the names of the pods."""
    topics = frozenset(topic.name for topic in deployment.topics)
    deployment.join(*(Pod(f"1-{number:03}", "1", topics) for number in range(pods)))
    deployment.settled()
    return [f"1-{number:03}" for number in range(pods)]


def new_pod(deployment: Deployment, number: int) -> Pod:
    """A pod of release 2, which subscribes to all topics."""
    name = f"2-{number:03}"  # Among equal members the lower id wins, here the older pod.
    return Pod(name, "2", frozenset(topic.name for topic in deployment.topics))


def surge(deployment: Deployment, pods: int, at_a_time: int = 1, *, draining: bool = False) -> Iterator[None]:
    """New pods start before old ones stop: `maxSurge: <at_a_time>, maxUnavailable: 0`. Yields after steps."""
    old = old_pods(deployment, pods)
    for first in range(0, pods, at_a_time):
        numbers = range(pods)[first : first + at_a_time]
        deployment.join(*(new_pod(deployment, number) for number in numbers))
        yield
        if draining:
            deployment.change(*(replace(deployment.pods[old[number]], draining=True) for number in numbers))
            yield
        deployment.leave(*(old[number] for number in numbers))
        yield


def unavailable(deployment: Deployment, pods: int, at_a_time: int = 1) -> Iterator[None]:
    """Old pods stop before new ones start: `maxSurge: 0, maxUnavailable: <at_a_time>`."""
    old = old_pods(deployment, pods)
    for first in range(0, pods, at_a_time):
        numbers = range(pods)[first : first + at_a_time]
        deployment.leave(*(old[number] for number in numbers))
        yield
        deployment.join(*(new_pod(deployment, number) for number in numbers))
        yield


def blue_green(deployment: Deployment, pods: int) -> Iterator[None]:
    """All new pods start; then all old ones stop."""
    old = old_pods(deployment, pods)
    deployment.join(*(new_pod(deployment, number) for number in range(pods)))
    yield
    deployment.leave(*old)
    yield


def aborted(deployment: Deployment, pods: int) -> Iterator[None]:
    """Half of a surge, and then a rollback: pods of release 1 replace the new ones."""
    steps = surge(deployment, pods)
    for _ in range(2 * (pods // 2)):
        yield next(steps)
    topics = frozenset(topic.name for topic in deployment.topics)
    for number in range(pods // 2):
        deployment.join(Pod(f"3-{number:03}", "1", topics))
        yield
        deployment.leave(f"2-{number:03}")
        yield


# ---- tests

topics_of = st.lists(st.integers(1, 20), min_size=1, max_size=4).map(
    lambda counts: {f"t{number}": count for number, count in enumerate(counts)}
)
pods_of = st.integers(1, 9)
FEW = settings(max_examples=40, deadline=None)


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
    deployment = Deployment(topics)
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
    deployment = Deployment(topics)
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
    deployment = Deployment(topics)
    for _ in aborted(deployment, pods):
        assert deployment.greatest_load <= ceil(deployment.partitions / pods)
    assert deployment.taken_from_live == 0
    assert deployment.handed_over <= 2 * (pods // 2) * ceil(deployment.partitions / pods)
    assert is_level(deployment)


# ---- a group that stays mixed


@given(topics_of, st.lists(st.integers(1, 5), min_size=2, max_size=4))
@FEW
def test_no_member_has_more_than_the_largest_release_alone_would_give_it(
    topics: Mapping[str, int], releases: list[int]
) -> None:
    """The bound holds in whichever order the pods of several releases join."""
    deployment = Deployment(topics)
    names = frozenset(topics)
    for release, count in enumerate(releases):
        for number in range(count):
            deployment.join(Pod(f"{release}-{number}", str(release), names))
            largest = max(len(deployment.loads(str(one))) for one in range(len(releases)))
            assert deployment.loads()[-1] <= ceil(deployment.partitions / largest)
