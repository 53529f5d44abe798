"""The life of a consumer group, step by step; each point of it can become a scenario.

Topics are written as ``"orders:12 clicks:3"`` (numbers of partitions), and partitions as
``"orders:0-3,7 clicks:1"`` (partition numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from compat_tests.peers.asking import Peer
from kafka_assignors.group import Assignment, Group, Member, Topic

__all__ = ["Ask", "Life", "Situation", "counts", "partitions", "replicated"]

Ask = Callable[[Peer, Group], Assignment]
"""Asks an assignor of another client for its assignment of a group in one round."""

JAVA = Peer("Java", "sticky")


@dataclass(frozen=True, slots=True)
class Situation:
    """A scenario without its optimum."""

    name: str
    situation: str
    sources: tuple[str, ...]
    group: Group


def counts(text: str) -> dict[str, int]:
    """Parse `"orders:12 clicks:3"` into numbers by topic."""
    return {name: int(number) for name, number in (word.split(":") for word in text.split())}


def partitions(text: str) -> dict[str, list[int]]:
    """Parse `"orders:0-3,7"` into partitions by topic."""
    owned: dict[str, list[int]] = {}
    for word in text.split():
        name, ranges = word.split(":")
        for part in ranges.split(","):
            first, _, last = part.rpartition("-") if not part.startswith("-") else ("", "", part)
            owned.setdefault(name, []).extend(range(int(first or last), int(last) + 1))
    return owned


def replicated(count: int, racks: str, replicas: int, first: int = 0) -> tuple[frozenset[str], ...]:
    """The racks of each partition's replicas if brokers, one in each rack, are taken in turn.

    `racks` has a letter for each rack; `first` is the index of the rack of partition 0's first replica.
    """
    return tuple(
        frozenset(racks[(first + partition + replica) % len(racks)] for replica in range(replicas))
        for partition in range(count)
    )


@dataclass(slots=True)
class Life:
    """The present state of a group: topics, members with their partitions, and the generation."""

    ask: Ask
    topics: dict[str, Topic] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    generation: int = 4

    @classmethod
    def of(
        cls, ask: Ask, topics: str | Mapping[str, Topic], members: Mapping[str, str] | None = None
    ) -> Life:
        """A group of new members; `members` has the topics of each member, by id."""
        made = (
            {name: Topic(name, number) for name, number in counts(topics).items()}
            if isinstance(topics, str)
            else dict(topics)
        )
        life = cls(ask, made)
        for member_id, reads in (members or {}).items():
            life.join(member_id, reads)
        return life

    def join(
        self, member_id: str, reads: str, *, rack: str | None = None, instance_id: str | None = None
    ) -> Life:
        self.members[member_id] = Member(member_id, frozenset(reads.split()), instance_id, rack)
        return self

    def leave(self, *member_ids: str) -> Life:
        for member_id in member_ids:
            del self.members[member_id]
        return self

    def subscribe(self, member_id: str, reads: str) -> Life:
        self.members[member_id] = replace(self.members[member_id], topics=frozenset(reads.split()))
        return self

    def topic(self, name: str, count: int, racks: tuple[frozenset[str], ...] | None = None) -> Life:
        """Create a topic, or give it more partitions."""
        self.topics[name] = Topic(name, count, racks)
        return self

    def delete(self, *names: str) -> Life:
        for name in names:
            del self.topics[name]
        return self

    def own(self, member_id: str, owned: str, age: int = 0) -> Life:
        """Let a member claim partitions from `age` generations ago; -1 means "knows no generation"."""
        generation = -1 if age == -1 else self.generation - age
        self.members[member_id] = replace(
            self.members[member_id], owned=partitions(owned), generation=generation
        )
        return self

    def restart(self, member_id: str, new_id: str) -> Life:
        """Restart the process of a member: it gets another member id, and owns nothing."""
        member = self.members.pop(member_id)
        self.members[new_id] = replace(member, id=new_id, owned={}, generation=-1)
        return self

    def settle(self, by: Peer = JAVA) -> Life:
        """Run a generation: every member owns its assignment by another client's assignor."""
        assignment = self.ask(by, self.group())
        self.generation += 1
        self.members = {
            member.id: replace(member, owned=assignment.members[member.id], generation=self.generation)
            for member in self.members.values()
        }
        return self

    def group(self) -> Group:
        """The group as the leader of the next generation sees it."""
        return Group.of(self.topics.values(), self.members.values(), self.generation + 1)

    def now(self, name: str, situation: str, *sources: str) -> Situation:
        """The present state of the group as a situation."""
        return Situation(name, situation, sources, self.group())


def numbered(prefix: str, count: int) -> list[str]:
    """Names that sort by their numbers."""
    return [f"{prefix}{number:0{len(str(count - 1))}d}" for number in range(count)]
