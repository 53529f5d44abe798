"""One record of `__consumer_offsets`, decoded: its kind, its group, its content and its time.

The kinds of records:

* A key of version 2 is a classic group. Its value is one *generation*, written when the leader's assignment
  arrived. A value without members is an empty group, a missing value (a tombstone) the end of a group: later
  records under the same name are another incarnation.
* Keys of versions 3 to 8 and 16 belong to groups of the consumer group protocol (KIP-848). Each is about one
  of many facts, and `history.kip848_fold` makes generations of them. Their relatives (share and streams
  groups) are recognised and counted.
* Versions 0 and 1 are offset commits, which the replay ignores.

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
    GroupMetadataKey,
    OffsetCommitKey,
    decode_group_metadata,
    decode_key,
)
from kafka_assignors_replay.history.kip848_records import (
    ConsumerGroupValue,
    decode_consumer_group_value,
)

OFFSET_COMMITS = (b"\0\0", b"\0\1")
"""The two versions of a key that say that its record is an offset commit, as nearly all records are."""

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of consumer groups. Connect and others share the topic and have bytes of their own."""


class RecordKind(str, enum.Enum):
    """What a record of the topic is."""

    GENERATION = "generation"
    EMPTY = "empty"
    TOMBSTONE = "tombstone"
    KIP848 = "kip848"
    OFFSET_COMMIT = "offset-commit"
    OTHER = "other"
    UNDECODABLE = "undecodable"


@dataclass(slots=True)  # a frozen one takes five times as long to make
class MemberRecord:
    """A member of a generation. `owned` is its own claim, `assigned` the leader's assignment.

    `client` is the library that the client id names, `version` that of the subscription. `revoked` says that
    it revoked the claimed partitions before it joined. A member of KIP-848 has no versioned subscription and
    claims nothing. `pattern` is the regular expression that it subscribes with (what it matches is among
    `topics`), and `assignor` the server assignor that it asks for.
    """

    member_id: str
    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assigned: TopicPartitions
    version: int = -1
    owned: TopicPartitions = field(default_factory=dict)
    owned_generation: int = NO_GENERATION
    revoked: bool = False
    pattern: str | None = None
    assignor: str | None = None

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

    `version` is that of the GroupMetadata value. Members that do not decode are not among `members`.
    `part` is the key of a record of a KIP-848 group, also if its value does not decode, and `said` is that
    value.
    """

    kind: RecordKind
    group: str | None = None
    reason: str | None = None
    protocol_type: str | None = None
    version: int | None = None
    generation: int | None = None
    protocol: str | None = None
    leader: str | None = None
    members: tuple[MemberRecord, ...] = ()
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


@dataclass(slots=True)
class MemberDecoder:
    """Decodes the members of consecutive generations, most of which repeat bytes of the generation before.

    Equal bytes are decoded once: the decoder remembers the last generation. Equal values may be the same
    object, so readers must not change them.
    """

    _claims: dict[tuple[str, bytes], Member] = field(default_factory=dict)
    _assigned: dict[bytes, TopicPartitions] = field(default_factory=dict)

    def decode(self, metadata: GroupMetadata) -> tuple[list[MemberRecord], list[str]]:
        """The members of a consumer group that decode, and the reasons why others do not."""
        members: list[MemberRecord] = []
        reasons: list[str] = []
        claims, assigned = self._claims, self._assigned
        self._claims, self._assigned = {}, {}
        if metadata.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return members, reasons
        protocol, names = metadata.protocol or "", Names()
        for member in metadata.members:
            key, stored = (protocol, member.subscription), member.assignment
            try:
                said = self._claims.get(key) or claims.get(key)
                if said is None:
                    said = decode_member(protocol, member.member_id, member.subscription, names=names)
                self._claims[key] = said
                if stored not in self._assigned:
                    share = assigned.get(stored)
                    # The record of a member that the leader left out has no bytes.
                    if share is None:
                        share = decode_assignment(stored).partitions if stored else {}
                    self._assigned[stored] = share
            except ProtocolError as error:
                reasons.append(str(error))
                continue
            members.append(
                MemberRecord(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    rack=said.rack,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    version=int.from_bytes(member.subscription[:2], "big"),
                    topics=tuple(sorted(said.topics)),
                    owned=said.owned,
                    owned_generation=said.generation,
                    revoked=said.revoked,
                    assigned=self._assigned[stored],
                )
            )
        return members, reasons


def decode_record(
    key: bytes | None, value: bytes | None, members: MemberDecoder | None = None
) -> DecodedRecord:
    """Decode a record's key and value. Consecutive records of a group share `members`."""
    if key is None:
        return DecodedRecord(RecordKind.UNDECODABLE, reason="key: is null")
    try:
        decoded = decode_key(key)
    except ProtocolError as error:
        return DecodedRecord(RecordKind.UNDECODABLE, reason=str(error))
    if isinstance(decoded, OffsetCommitKey):
        return DecodedRecord(RecordKind.OFFSET_COMMIT, decoded.group)
    if isinstance(decoded, ConsumerGroupKey):
        try:
            said = None if value is None else decode_consumer_group_value(decoded.type, value)
        except ProtocolError as error:
            return DecodedRecord(RecordKind.UNDECODABLE, decoded.group, str(error), part=decoded)
        return DecodedRecord(RecordKind.KIP848, decoded.group, part=decoded, said=said)
    if not isinstance(decoded, GroupMetadataKey):
        return DecodedRecord(RecordKind.OTHER)
    if value is None:
        return DecodedRecord(RecordKind.TOMBSTONE, decoded.group)
    return _generation(decoded.group, value, members or MemberDecoder())


def _generation(group: str, value: bytes, decoder: MemberDecoder) -> DecodedRecord:
    try:
        metadata = decode_group_metadata(value)
    except ProtocolError as error:
        return DecodedRecord(RecordKind.UNDECODABLE, group, str(error))
    members, reasons = decoder.decode(metadata)
    return DecodedRecord(
        kind=RecordKind.GENERATION if metadata.members else RecordKind.EMPTY,
        group=group,
        reason="; ".join(reasons) or None,
        protocol_type=metadata.protocol_type,
        version=metadata.version,
        generation=metadata.generation,
        protocol=metadata.protocol,
        leader=metadata.leader,
        members=tuple(members),
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

FIRST_MICROS = (datetime.min.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
LAST_MICROS = (datetime.max.replace(microsecond=999_000, tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The UTC time `micros` microseconds after 1970 began; OverflowError outside the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=micros)


def millis_to_micros(millis: int) -> int:
    """Convert a timestamp of Kafka, milliseconds since 1970, to microseconds within the years 1 to 9999."""
    return min(max(millis * 1000, FIRST_MICROS), LAST_MICROS)


def to_micros(instant: datetime) -> int:
    """The inverse of `from_micros`, for any aware time."""
    return (instant - _EPOCH) // _MICROSECOND


# Client libraries are recognised by the client id: a default id, or one that starts with the name of the
# library (`java-…`, `aiokafka-stock-…`, `kafka-python-ours-…`).

JAVA = "java"
AIOKAFKA, AIOKAFKA_OURS = "aiokafka", "aiokafka with kafka-assignors"
KAFKA_PYTHON, KAFKA_PYTHON_OURS = "kafka-python", "kafka-python with kafka-assignors"
LIBRDKAFKA = "librdkafka"
UNKNOWN = "unknown"

EAGER_CLIENTS = frozenset({AIOKAFKA, AIOKAFKA_OURS, KAFKA_PYTHON_OURS})
"""Clients whose stock consumers revoke all partitions in every rebalance, regardless of the strategy."""

_CLIENT_IDS = (
    (re.compile(r"aiokafka-ours\b"), AIOKAFKA_OURS),
    (re.compile(r"kafka-python-ours\b"), KAFKA_PYTHON_OURS),
    (re.compile(r"aiokafka\b"), AIOKAFKA),
    (re.compile(r"kafka-python\b"), KAFKA_PYTHON),
    (re.compile(r"(rdkafka|librdkafka|confluent)\b"), LIBRDKAFKA),
    (re.compile(r"(java|consumer)\b"), JAVA),
)


@lru_cache(maxsize=1_000)
def client_of(client_id: str) -> str:
    """The client library with this client id; "unknown" for an id that the application chose."""
    return next((client for pattern, client in _CLIENT_IDS if pattern.match(client_id)), UNKNOWN)
