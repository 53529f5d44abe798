"""One record of `__consumer_offsets`, decoded: its kind, its group, its content and its time.

No function that decodes raises: a record that does not decode becomes an event with the reason, so that one
record does not end a run over a billion.

Spark passes naive times to Python in the time zone of the process, where an hour is missing or doubled twice
a year. So timestamps cross as microseconds since 1970, and Python's side has aware times in UTC. Kafka takes
any 64-bit number of milliseconds from a producer. A time outside the years 1 to 9999, which neither
`datetime` nor many readers of Parquet can show, becomes the first or last millisecond of these years.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from kafka_assignors.group import NO_GENERATION, Member, TopicPartitions
from kafka_assignors.wire import Names, ProtocolError, decode_assignment, decode_member
from kafka_assignors_replay.history.consumer_offsets import (
    ConsumerGroupKey,
    GroupMetadata,
    OffsetCommitKey,
    decode_group_metadata,
    decode_key,
)
from kafka_assignors_replay.history.kip848_records import ConsumerGroupValue, decode_consumer_group_value

OFFSET_COMMITS = (b"\0\0", b"\0\1")
"""The two versions of a key that say that its record is an offset commit, as nearly all records are."""

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of consumer groups. Connect and others share the topic and have bytes of their own."""


class RecordKind(str, enum.Enum):
    """What a record of the topic is."""

    GENERATION = "generation"  # of a classic group, written when the leader's assignment arrived
    EMPTY = "empty"  # a generation without members
    TOMBSTONE = "tombstone"  # the end of a classic group: later records are another incarnation
    KIP848 = "kip848"  # one of many facts of a group; `history.kip848_fold` makes generations of them
    OFFSET_COMMIT = "offset-commit"
    OTHER = "other"  # of share and streams groups
    UNDECODABLE = "undecodable"


@dataclass(slots=True)  # a frozen one takes five times as long to make
class MemberRecord:
    """A member of a generation. `owned` is its own claim, `assigned` the leader's assignment.

    `client` is the library that the client id names. `revoked` says that it revoked the claimed partitions
    before it joined. A member of KIP-848 claims nothing. `pattern` is the regular expression that it
    subscribes with; what it matches is among `topics`.
    """

    member_id: str
    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assigned: TopicPartitions
    owned: TopicPartitions = field(default_factory=dict)
    owned_generation: int = NO_GENERATION
    revoked: bool = False
    pattern: str | None = None

    @property
    def client(self) -> str:
        return client_of(self.client_id)

    @property
    def holds(self) -> bool:
        """Whether it has partitions that it did not revoke before it joined."""
        return bool(self.owned) and not self.revoked


@dataclass(slots=True)
class DecodedRecord:
    """A decoded record. `reason` is set where it, or a member in it, does not decode.

    `metadata` is the value of a classic generation, and `members` are those of a consumer group that decode,
    by member id. `part` is the key of a record of a KIP-848 group, also if its value does not decode, and
    `said` is that value.
    """

    kind: RecordKind
    group: str | None = None
    reason: str | None = None
    metadata: GroupMetadata | None = None
    members: dict[str, MemberRecord] = field(default_factory=dict)
    part: ConsumerGroupKey | None = None
    said: ConsumerGroupValue | None = None


# The bytes of a key, without decoding it: two bytes of version, two of length, the group's id


def is_commit(key: bytes | None) -> bool:
    return key is not None and key[:2] in OFFSET_COMMITS


def group_bytes(group: str) -> bytes:
    """The bytes of a group's id, also of one that Python read from bytes that are no UTF-8."""
    return group.encode("utf-8", "surrogatepass")


def group_of(key: bytes | None) -> bytes | None:
    """The bytes of the group's id, unchecked; None for a key that is too short to have one."""
    if key is None or len(key) < 4:
        return None
    return key[4 : 4 + int.from_bytes(key[2:4], "big")]


class MemberDecoder:
    """Decodes the members of consecutive generations, most of which repeat bytes of the generation before.

    Equal bytes are decoded once: the decoder remembers the last generation. Equal values may be the same
    object, so readers must not change them.
    """

    def __init__(self) -> None:
        self._claims: dict[tuple[str, bytes], tuple[Member, tuple[str, ...]]] = {}  # with the sorted topics
        self._assigned: dict[bytes, TopicPartitions] = {}

    def decode(self, metadata: GroupMetadata) -> tuple[dict[str, MemberRecord], list[str]]:
        """The members of a consumer group that decode, and the reasons why others do not."""
        members: dict[str, MemberRecord] = {}
        reasons: list[str] = []
        old_claims, old_assigned = self._claims, self._assigned
        self._claims, self._assigned = {}, {}
        claims, assigned = self._claims, self._assigned
        if metadata.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return members, reasons
        protocol, names = metadata.protocol or "", Names()
        sorted_topics: dict[frozenset[str], tuple[str, ...]] = {}
        for id, client_id, host, _, subscription, stored, _, instance_id in metadata.members:
            key = protocol, subscription
            try:
                claim = claims.get(key) or old_claims.get(key)
                if claim is None:
                    said = decode_member(protocol, id, subscription, names=names)
                    topics = sorted_topics.get(said.topics)
                    if topics is None:
                        topics = sorted_topics[said.topics] = tuple(sorted(said.topics))
                    claim = said, topics
                claims[key] = claim
                share = assigned.get(stored, old_assigned.get(stored))
                if share is None:
                    # The record of a member that the leader left out has no bytes.
                    share = decode_assignment(stored).partitions if stored else {}
                assigned[stored] = share
            except ProtocolError as error:
                reasons.append(str(error))
                continue
            said, topics = claim
            claimed = (said.owned, said.generation, said.revoked)
            members[id] = MemberRecord(id, instance_id, said.rack, client_id, host, topics, share, *claimed)
        return members, reasons


_decode_key = lru_cache(maxsize=64)(decode_key)
"""The records of a group come one after the other, and most have the key of the one before."""


def decode_record(
    key: bytes | None, value: bytes | None, members: MemberDecoder | None = None
) -> DecodedRecord:
    """Decode a record's key and value. Consecutive records of a group share `members`."""
    if key is None:
        return DecodedRecord(RecordKind.UNDECODABLE, reason="key: is null")
    part, group = None, None
    try:
        decoded = _decode_key(key)
        if decoded is None:
            return DecodedRecord(RecordKind.OTHER)
        group = decoded.group
        if isinstance(decoded, OffsetCommitKey):
            return DecodedRecord(RecordKind.OFFSET_COMMIT, group)
        if isinstance(decoded, ConsumerGroupKey):
            part = decoded
            said = None if value is None else decode_consumer_group_value(part.type, value)
            return DecodedRecord(RecordKind.KIP848, group, part=part, said=said)
        if value is None:
            return DecodedRecord(RecordKind.TOMBSTONE, group)
        metadata = decode_group_metadata(value)
    except ProtocolError as error:
        return DecodedRecord(RecordKind.UNDECODABLE, group, str(error), part=part)
    kind = RecordKind.GENERATION if metadata.members else RecordKind.EMPTY
    found, reasons = (members or MemberDecoder()).decode(metadata)
    return DecodedRecord(kind, group, "; ".join(reasons) or None, metadata, found)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def from_micros(micros: int) -> datetime:
    """The UTC time `micros` microseconds after 1970 began; OverflowError outside the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=micros)


def to_micros(instant: datetime) -> int:
    """The inverse of `from_micros`, for any aware time."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


FIRST_MICROS = to_micros(datetime.min.replace(tzinfo=timezone.utc))
LAST_MICROS = to_micros(datetime.max.replace(microsecond=999_000, tzinfo=timezone.utc))


def millis_to_micros(millis: int) -> int:
    """Convert a timestamp of Kafka, milliseconds since 1970, to microseconds within the years 1 to 9999."""
    return min(max(millis * 1000, FIRST_MICROS), LAST_MICROS)


JAVA, UNKNOWN = "java", "unknown"
AIOKAFKA, AIOKAFKA_OURS = "aiokafka", "aiokafka with kafka-assignors"
KAFKA_PYTHON_OURS = "kafka-python with kafka-assignors"

EAGER_CLIENTS = frozenset({AIOKAFKA, AIOKAFKA_OURS, KAFKA_PYTHON_OURS})
"""Clients whose stock consumers revoke all partitions in every rebalance, regardless of the strategy."""

_CLIENT_IDS = {
    r"aiokafka-ours\b": AIOKAFKA_OURS,
    r"kafka-python-ours\b": KAFKA_PYTHON_OURS,
    r"aiokafka\b": AIOKAFKA,
    r"kafka-python\b": "kafka-python",
    r"(rdkafka|librdkafka|confluent)\b": "librdkafka",
    r"(java|consumer)\b": JAVA,
}
"""How a client id begins that is a default, or names its library (`java-…`, `kafka-python-ours-…`)."""


@lru_cache(maxsize=1_000)
def client_of(client_id: str) -> str:
    """The client library with this client id; "unknown" for an id that the application chose."""
    return next((client for begins, client in _CLIENT_IDS.items() if re.match(begins, client_id)), UNKNOWN)
