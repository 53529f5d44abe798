"""A consumer group whose life is told step by step; each point of it can become a scenario.

Topics and partitions are written as in ``"orders:12 clicks:3"`` (so many partitions) and
``"orders:0-3,7 clicks:1"`` (these partitions).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from compat_tests.peers.asking import Peer
from kafka_assignors.group import Assignment, Group, Member, Topic

__all__ = ["Ask", "Life", "Situation", "counts", "partitions", "replicated"]

Ask = Callable[[Peer, Group], Assignment]
"""What an assignor of another client makes of a group in one round."""

JAVA = Peer("Java", "sticky")


@dataclass(frozen=True, slots=True)
class Situation:
    """A scenario whose optimum is not known yet."""

    name: str
    situation: str
    sources: tuple[str, ...]
    group: Group


def counts(text: str) -> dict[str, int]:
    """`"orders:12 clicks:3"` as numbers by topic."""
    return {name: int(number) for name, number in (word.split(":") for word in text.split())}


def partitions(text: str) -> dict[str, list[int]]:
    """`"orders:0-3,7"` as partitions by topic."""
    owned: dict[str, list[int]] = {}
    for word in text.split():
        name, ranges = word.split(":")
        for part in ranges.split(","):
            first, _, last = part.rpartition("-") if not part.startswith("-") else ("", "", part)
            owned.setdefault(name, []).extend(range(int(first or last), int(last) + 1))
    return owned


def replicated(count: int, racks: str, replicas: int, first: int = 0) -> tuple[frozenset[str], ...]:
    """The racks of each partition's replicas when brokers, one in each rack, are taken in turn.

    `racks` has a letter for each; `first` is where partition 0 has its first replica.
    """
    return tuple(
        frozenset(racks[(first + partition + replica) % len(racks)] for replica in range(replicas))
        for partition in range(count)
    )


@dataclass(slots=True)
class Life:
    """A group now: its topics, its members with what they own, and the generation they are in."""

    ask: Ask
    topics: dict[str, Topic] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    generation: int = 4

    @classmethod
    def of(
        cls, ask: Ask, topics: str | Mapping[str, Topic], members: Mapping[str, str] | None = None
    ) -> Life:
        """A group of newcomers; `members` by id, with the topics that each reads."""
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
        """Let a member claim partitions, of so many generations ago; -1 for "knows no generation"."""
        generation = -1 if age == -1 else self.generation - age
        self.members[member_id] = replace(
            self.members[member_id], owned=partitions(owned), generation=generation
        )
        return self

    def restart(self, member_id: str, new_id: str) -> Life:
        """The process of a member starts again: another member id, and nothing owned."""
        member = self.members.pop(member_id)
        self.members[new_id] = replace(member, id=new_id, owned={}, generation=-1)
        return self

    def settle(self, by: Peer = JAVA) -> Life:
        """Run a generation: every member owns what another client's assignor gives it."""
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
        """The point at which the group is as a situation."""
        return Situation(name, situation, sources, self.group())


def numbered(prefix: str, count: int) -> list[str]:
    """Names that sort by their numbers."""
    return [f"{prefix}{number:0{len(str(count - 1))}d}" for number in range(count)]
