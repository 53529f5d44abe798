"""The values of an assignment: what a leader knows (`Group`), and what it answers (`Assignment`).

The same `Group` comes from a client that leads a group, from a JSON file, from a live cluster or from a row
of history, so a strategy cannot tell them apart. All values are frozen; mappings and lists in them could
still be changed, so a strategy that is not of this package gets a copy (`Group.detached`).
"""

from __future__ import annotations

import copy
import re
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from kafka_assignors.claims import Claims, judge_claims

TopicPartitions = Mapping[str, Sequence[int]]
"""Partition numbers by topic name. A sequence may be a `list`, a `tuple` or a `range`; never mutate one."""

TopicNames = Set[str] | list[str] | tuple[str, ...]
"""The types of an argument with topic names. A str is not among them, though it is a sequence of str."""


def detached_partitions(partitions: TopicPartitions) -> TopicPartitions:
    """An equal mapping that shares no mutable value with `partitions`."""
    return {
        topic: numbers
        if type(numbers) in (tuple, range) or not isinstance(numbers, Collection)
        else [*numbers]
        for topic, numbers in partitions.items()
    }


NO_GENERATION = -1
"""The generation of a member that has never been in the group (Kafka's own DEFAULT_GENERATION)."""


MOST_WEIGHT = 2**63 - 1
"""The greatest weight of a partition, which is the greatest offset of Kafka."""


_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(text: str) -> bool:
    """Whether a topic can have this name (`org.apache.kafka.common.internals.Topic`)."""
    return text not in (".", "..") and _TOPIC_NAME.fullmatch(text) is not None


_QUOTING = reprlib.Repr()
_QUOTING.maxstring = 260  # Every topic name in full, which has at most 249 characters.


def quoted(name: str) -> str:
    """A name in quotes, for a message; a name that is too long for a topic is cut in the middle.

    Group members choose topic names, client ids and instance ids of up to 32 kB.
    """
    return _QUOTING.repr(name)


def shortened(name: str) -> str:
    """A name without quotes, for a table; it is cut in the middle as `quoted` cuts it."""
    half = (_QUOTING.maxstring - 3) // 2
    return name if len(name) <= _QUOTING.maxstring else f"{name[:half]}...{name[-half:]}"


def some_of(names: Sequence[str], shown: int) -> str:
    """The first `shown` names, and the number of the others, for a message."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def pairs(partitions: TopicPartitions) -> Iterator[tuple[str, int]]:
    """Topic and number of each partition, in their order."""
    return ((topic, number) for topic, numbers in partitions.items() for number in numbers)


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The numbers of these partitions by topic, both ascending."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


class InvalidGroupError(ValueError):
    """The input does not describe a group: the message says which field is wrong."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the cluster, as the leader's metadata shows it.

    `replica_racks` has one entry per partition: the racks of its replicas (KIP-881), empty where no replica's
    rack is known. It is None when racks are unknown for the whole topic.

    `weights` has one entry per partition, in the unit of the leader's source of weights (lag, bytes or
    records a second), None where it is unknown. It is None if the leader asks no source.

    `id` is the topic's id (KIP-516) as Kafka prints it, 22 characters of URL-safe base64; no client sets it.
    """

    name: str
    partitions: int
    replica_racks: tuple[frozenset[str], ...] | None = None
    id: str | None = None
    weights: tuple[int | None, ...] | None = None

    def __post_init__(self) -> None:
        if self.partitions < 0:
            raise InvalidGroupError(f"topic {self.name!r} has a negative partition count: {self.partitions}")
        if self.replica_racks is not None and len(self.replica_racks) != self.partitions:
            raise InvalidGroupError(
                f"topic {self.name!r} has {self.partitions} partitions but replica racks "
                f"for {len(self.replica_racks)}: give one list of racks per partition"
            )
        if self.weights is not None:
            if len(self.weights) != self.partitions:
                raise InvalidGroupError(
                    f"topic {self.name!r} has {self.partitions} partitions but {len(self.weights)} weights: "
                    "give one per partition, None where it is unknown"
                )
            for partition, weight in enumerate(self.weights):
                if weight is not None and not 0 <= weight <= MOST_WEIGHT:
                    raise InvalidGroupError(
                        f"partition {partition} of {self.name!r} has the weight {weight}: "
                        f"weights are whole numbers from 0 to 2^63 - 1"
                    )

    def rack_misses(self, rack: str | None, partitions: Iterable[int]) -> list[int]:
        """The partitions, of those given, that have replicas in other racks only than `rack`.

        A partition that does not exist, or whose racks are unknown, is no miss; an unknown `rack` has none.
        """
        racks = self.replica_racks
        if not rack or racks is None:
            return []
        return [p for p in partitions if 0 <= p < len(racks) and racks[p] and rack not in racks[p]]


@dataclass(frozen=True, slots=True)
class Warmth:
    """What a member announces of its warm-ups. It is not trusted either.

    `max_warming` is how many warm-ups it runs at a time; 0 for a member without a callback, which is always
    ready. A member that is `draining` is about to leave. `generation` and `plan` are those of the last
    assignment that listed warm-ups; of those listed, `ready` have ended, and `warming` have not.
    """

    max_warming: int = 0
    draining: bool = False
    generation: int = NO_GENERATION
    plan: int = 0
    warming: TopicPartitions = field(default_factory=dict)
    ready: TopicPartitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, init=False)
class Member:
    """A member of the group, as it described itself in its JoinGroup request.

    `owned` is what the member *claims*: it is not trusted, and may name partitions that do not exist, topics
    the member no longer subscribes to, or partitions that another member claims too. `kafka_assignors.claims`
    judges it. `generation` is the generation in which it owned them, -1 for a newcomer.

    `revoked` says that the member gave all of `owned` up before it joined, as an eager member does: the claim
    still counts for stickiness, but no member has to wait for the partitions.

    `data` is what the strategy's own `member_data` returned on that member; empty where it runs another
    strategy's code or none.

    `warmth` is what it announced of its warm-ups; None for a member that knows of none.

    `topics` may be given as any set, list or tuple of topic names. A str is a TypeError: its letters would be
    the topics.
    """

    id: str
    topics: frozenset[str]
    instance_id: str | None
    rack: str | None
    owned: TopicPartitions
    generation: int
    revoked: bool
    data: bytes
    warmth: Warmth | None

    def __init__(
        self,
        id: str,
        topics: TopicNames,
        instance_id: str | None = None,
        rack: str | None = None,
        owned: TopicPartitions | None = None,
        generation: int = NO_GENERATION,
        revoked: bool = False,
        data: bytes = b"",
        warmth: Warmth | None = None,
    ) -> None:
        if isinstance(topics, str):
            raise TypeError(
                f"the topics of member {id!r} are the str {quoted(topics)}: "
                "give a set, list or tuple of topic names"
            )
        assign = object.__setattr__  # The class is frozen.
        assign(self, "id", id)
        assign(self, "topics", frozenset(topics))
        assign(self, "instance_id", instance_id)
        assign(self, "rack", rack)
        assign(self, "owned", {} if owned is None else owned)
        assign(self, "generation", generation)
        assign(self, "revoked", revoked)
        assign(self, "data", data)
        assign(self, "warmth", warmth)


@dataclass(frozen=True, slots=True)
class Group:
    """The input of a strategy.

    `topics` and `members` are keyed by name and by member id; their order means nothing. A topic that a
    member subscribes to and that is missing from `topics` has no metadata, and gets no partitions assigned.

    `generation` is the generation being formed, where the leader knows it: no honest claim is of a later one.
    """

    topics: Mapping[str, Topic]
    members: Mapping[str, Member]
    generation: int | None = None
    _claims: Claims | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def claims(self) -> Claims:
        """The judged claims of the members: see `kafka_assignors.claims`.

        They are judged when they are first asked for, in time linear in the claims, and kept.
        """
        if self._claims is None:
            object.__setattr__(self, "_claims", judge_claims(self))  # Another thread sets an equal value.
            assert self._claims is not None
        return self._claims

    def detached(self) -> Group:
        """An equal group with the same judged claims that shares no mutable value with this one.

        Time is linear in members, topics and owned partitions.
        """
        members = {
            id: replace(member, owned=detached_partitions(member.owned))
            for id, member in self.members.items()
        }
        group = Group(
            {name: copy.copy(topic) for name, topic in self.topics.items()}, members, self.generation
        )
        claims = self.claims
        prior = {id: detached_partitions(had) for id, had in claims.owners.items()}
        dropped = tuple(map(copy.copy, claims.dropped))
        object.__setattr__(group, "_claims", Claims(prior, dropped, detached_partitions(claims.unowned)))
        return group

    @classmethod
    def of(cls, topics: Iterable[Topic], members: Iterable[Member], generation: int | None = None) -> Group:
        """A group of these topics and members; `InvalidGroupError` if a name or an id appears twice."""
        by_name: dict[str, Topic] = {}
        for topic in topics:
            if topic.name in by_name:
                raise InvalidGroupError(f"topic {topic.name!r} appears twice")
            by_name[topic.name] = topic
        by_id: dict[str, Member] = {}
        for member in members:
            if member.id in by_id:
                raise InvalidGroupError(f"member id {member.id!r} appears twice")
            by_id[member.id] = member
        return cls(by_name, by_id, generation)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The output of a strategy: for every member of the group, its partitions by topic, in ascending order.

    Every member has an entry, be it empty; no topic has an empty sequence.
    """

    members: Mapping[str, TopicPartitions]

    def load(self, member_id: str) -> int:
        """How many partitions the member has."""
        return sum(map(len, self.members[member_id].values()))
