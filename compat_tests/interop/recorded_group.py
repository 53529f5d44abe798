"""The broker's records of a group: the leader of each generation, and each member's assignment in it.

No client reports the leader, and not all report the generation. The coordinator writes both into
`__consumer_offsets` whenever a leader has answered, with the members and their assignments, and this module
reads them there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from compat_tests.support.group_records import group_partition
from compat_tests.support.hang_limit import HANG_S, wait_for
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.quality import measure
from kafka_assignors.solver import least_moved
from kafka_assignors.wire import decode_assignment, decode_member, decode_subscription
from kafka_assignors_replay.history import consumer_offsets

_OFFSETS = "__consumer_offsets"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation whose leader has answered. Members are named by their client ids.

    It is recorded again, with another member id, when the process of a static member is replaced.
    """

    number: int
    protocol: str
    leader: str
    names: Mapping[str, str]
    """Member ids by name."""
    subscribed: Mapping[str, frozenset[str]]
    """Subscribed topics by member id."""
    assignment: Assignment
    joined_from: Mapping[str, int] = field(default_factory=dict)
    """The generation that each member's newest JoinGroup names, by member id; -1 if it names none.

    A static member that did not join in time stays in the group with its JoinGroup of an earlier generation.
    """
    at_ms: int = 0
    """The time of the record, in milliseconds since the epoch."""

    @classmethod
    def of(cls, record: consumer_offsets.GroupMetadata, at_ms: int = 0) -> Generation | None:
        """None for a record of a group without members."""
        if record.leader is None or record.protocol is None:
            return None
        names = {member.client_id: member.member_id for member in record.members}
        return cls(
            record.generation,
            record.protocol,
            next(member.client_id for member in record.members if member.member_id == record.leader),
            names,
            {m.member_id: frozenset(decode_subscription(m.subscription).topics) for m in record.members},
            Assignment({m.member_id: _assigned(m.assignment) for m in record.members}),
            {
                m.member_id: decode_member(record.protocol, m.member_id, m.subscription).generation
                for m in record.members
            },
            at_ms,
        )

    def gives_out(self, topics: Mapping[str, int]) -> bool:
        """Whether every partition of these topics has an owner: partitions that move are withheld."""
        given = sum(self.assignment.load(member_id) for member_id in self.assignment.members)
        return given == sum(topics.values())


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A commit that the coordinator accepted. `position` is its offset in the log, which orders commits."""

    position: int
    at_ms: int
    topic: str
    partition: int
    offset: int
    metadata: str
    """What the committer passed beside the offset."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change from one complete generation, in which every partition has an owner, to the next."""

    after: Generation
    leaders: tuple[str, ...]
    """The leader's name for each generation of the change."""
    moved: int
    """Partitions taken from members that stayed."""
    least: int
    """The fewest moves that balance the members as well as possible."""


class RecordedGroup:
    """The generations of one group, from the moment at which the context is entered."""

    def __init__(self, kafka: Kafka, group_id: str) -> None:
        self._kafka = kafka
        self._group_id = group_id
        self._records: list[Generation] = []
        self._commits: list[CommittedOffset] = []

    def __enter__(self) -> RecordedGroup:
        # A consumer with `assign` joins no group and commits nothing, so it adds no record to the topic.
        self._consumer = Consumer(
            {
                "bootstrap.servers": self._kafka.bootstrap,
                "group.id": self._group_id,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
                "fetch.wait.max.ms": 50,
            }
        )
        # Look up the group: a new cluster creates the topic then, and has no coordinator before.
        _answer(lambda: self._consumer.committed([TopicPartition("any", 0)], timeout=HANG_S))
        known = wait_for(
            _OFFSETS, lambda: self._consumer.list_topics(_OFFSETS, timeout=HANG_S).topics[_OFFSETS].partitions
        )
        partition = group_partition(self._group_id, len(known))
        self._partition = TopicPartition(_OFFSETS, partition)
        self._next = self._end()
        self._consumer.assign([TopicPartition(_OFFSETS, partition, self._next)])
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _end(self) -> int:
        _, end = _answer(lambda: self._consumer.get_watermark_offsets(self._partition, timeout=HANG_S))
        return int(end)

    def generations(self) -> Sequence[Generation]:
        """All generations so far, in order; of each, the last record."""
        newest = {generation.number: generation for generation in self.records()}
        return [newest[number] for number in sorted(newest)]

    def records(self) -> Sequence[Generation]:
        """All records of generations so far, in the order of the log."""
        message: Any  # Its annotations say that a message may have no key, even one with an error.
        # Members commit all the time, so the loop reads up to the present end.
        end, deadline = self._end(), time.monotonic() + HANG_S
        while self._next < end:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{_OFFSETS} was read to offset {self._next} of {end} in {HANG_S:g} s")
            for message in self._consumer.consume(min(500, end - self._next), timeout=0.1):
                if message.error() is not None and message.error().code() == KafkaError._PARTITION_EOF:
                    # Transaction markers have offsets, but are not delivered.
                    self._next = max(self._next, message.offset())
                    continue
                if message.error() is not None:
                    raise RuntimeError(f"{_OFFSETS}: {message.error().str()}")
                self._next = message.offset() + 1
                if message.value() is not None:
                    self._add(message.key(), message.value(), message.timestamp()[1], message.offset())
        return self._records

    def commits(self) -> Sequence[CommittedOffset]:
        """All commits that `generations` or `records` have read, in the order in which they were accepted."""
        return self._commits

    def _add(self, key: bytes, value: bytes, at_ms: int, position: int) -> None:
        match consumer_offsets.decode_key(key):
            case consumer_offsets.GroupMetadataKey(self._group_id):
                generation = Generation.of(consumer_offsets.decode_group_metadata(value), at_ms)
                if generation is not None:
                    self._records.append(generation)
            case consumer_offsets.OffsetCommitKey(self._group_id, topic, partition):
                self._commits.append(CommittedOffset(position, at_ms, topic, partition, *_committed(value)))


def _committed(value: bytes) -> tuple[int, str]:
    """The offset and the metadata of a commit: `OffsetCommitValue`, of which brokers write version 3 or 4."""
    reader = consumer_offsets.RecordReader(value, "offset commit")
    reader.flexible = reader.int16("version") >= 4
    offset = reader.int64("offset")
    reader.int32("leader_epoch")
    return offset, reader.string("metadata")


def _answer(ask: Callable[[], _T]) -> _T:
    """Ask until the cluster answers: its leaders and coordinators may move, or may not exist yet."""
    deadline = time.monotonic() + HANG_S
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def changes(generations: Iterable[Generation], topics: Mapping[str, int]) -> list[Change]:
    """The changes of ownership of these topics (partition counts by name) in these generations."""
    found = []
    leaders: list[str] = []
    before: Generation | None = None
    for generation in generations:
        leaders.append(generation.leader)
        if not generation.gives_out(topics):
            continue
        if before is not None:
            group = _owning(before, generation, topics)
            moved = measure(group, generation.assignment).moved
            found.append(Change(generation, tuple(leaders), moved, least_moved(group)))
        before, leaders = generation, []
    return found


def _owning(before: Generation, after: Generation, topics: Mapping[str, int]) -> Group:
    """The members of `after`, owning what they had in `before`."""
    members = [
        Member(
            member_id,
            after.subscribed[member_id],
            owned=before.assignment.members.get(member_id, {}),
            generation=before.number,
        )
        for member_id in after.names.values()
    ]
    return Group.of([Topic(name, partitions) for name, partitions in topics.items()], members, after.number)


def _assigned(data: bytes) -> Mapping[str, Sequence[int]]:
    """Partitions by topic. A member that the leader left out gets no bytes at all."""
    if not data:
        return {}
    partitions = decode_assignment(data).partitions
    return {topic: sorted(numbers) for topic, numbers in partitions.items() if numbers}
