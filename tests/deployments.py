"""Deployments of an application, step by step, under a strategy, and the moves of partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from kafka_assignors.announcements import WHOLE_SHARE, Facts, encode_facts
from kafka_assignors.group import Group, Member, Topic, TopicPartitions
from kafka_assignors.leader import lead
from kafka_assignors.strategies import RebalanceProtocol, Strategy

__all__ = ["SCENES", "Deployment", "Pod"]

_MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Pod:
    """A member: its announcement, subscription and owned partitions."""

    name: str
    release: str | None
    topics: frozenset[str]
    share: float | None = None
    draining: bool = False
    owned: TopicPartitions = field(default_factory=dict)
    generation: int = -1

    def member(self, strategy: Strategy) -> Member:
        """The pod as a member of a group under this strategy."""
        share = None if self.share is None else round(self.share * WHOLE_SHARE)
        data = encode_facts(Facts(self.release, share, self.draining))
        eager = RebalanceProtocol.COOPERATIVE not in strategy.protocols
        return Member(self.name, self.topics, None, None, self.owned, self.generation, eager, data)

    @property
    def load(self) -> int:
        """The number of partitions that the pod owns."""
        return sum(map(len, self.owned.values()))


class Deployment:
    """A group under one strategy, and the moves of its partitions since the last call of `settled`."""

    def __init__(self, strategy: Strategy, topics: Mapping[str, int]) -> None:
        self.strategy = strategy
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

    def restart(self, name: str) -> None:
        """Let a pod leave and come back without partitions."""
        pod = self.pods[name]
        self.leave(name)
        self.join(replace(pod, name=f"{name}'", owned={}, generation=-1))

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
        cooperative = RebalanceProtocol.COOPERATIVE in self.strategy.protocols
        protocol = RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER
        led = lead(self.strategy, self.group(), protocol)
        self.generation += 1
        for name, owned in led.assignment.members.items():
            self.pods[name] = replace(self.pods[name], owned=owned, generation=self.generation)
            for topic, partitions in owned.items():
                self._owner.update(dict.fromkeys(((topic, partition) for partition in partitions), name))
        return bool(led.withheld)

    # ---- state and counts

    def group(self) -> Group:
        """The leader's view of the group if all members join now."""
        members = [pod.member(self.strategy) for pod in self.pods.values()]
        return Group.of(self.topics, members, self.generation)

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


def new_pod(deployment: Deployment, number: int, release: str = "2") -> Pod:
    """A pod of another release, which subscribes to all topics."""
    name = f"{release}-{number:03}"  # Among equal members the lower id wins, here the older pod.
    return Pod(name, release, frozenset(topic.name for topic in deployment.topics))


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


def crash(deployment: Deployment, pods: int) -> Iterator[None]:
    """A surge, in the middle of which an old and a new pod crash and come back."""
    for step, _ in enumerate(surge(deployment, pods)):
        if step == pods // 2 * 2 - 1:
            for name in (f"1-{pods - 1:03}", "2-000"):
                pod = deployment.pods[name]
                deployment.leave(name)
                yield
                deployment.join(replace(pod, owned={}, generation=-1))
                yield
        yield


SCENES: Mapping[str, Callable[[Deployment, int], Iterator[None]]] = {
    "surge 1": surge,
    "surge 25 %": lambda deployment, pods: surge(deployment, pods, max(1, pods // 4)),
    "surge 1, draining": lambda deployment, pods: surge(deployment, pods, draining=True),
    "unavailable 1": unavailable,
    "blue and green": blue_green,
    "aborted half-way": aborted,
    "two crashes": crash,
}
