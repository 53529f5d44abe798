"""The totals of a classic group's record, read in one pass: the path of almost every record.

A run over a billion records must read each byte once, to check that it decodes and to total it, but needs no
object for each field. This decoder walks through a value of version 0 to 3 without making any. It returns
None for all else (another version, member data of kafka-assignors, a length that does not fit, text that is
not UTF-8); `records.decode_record`, which is several times slower, then decodes the value completely.

No two records are equal, but most of their parts repeat: a member keeps its ids and its host as long as it
lives, and most of the time its assignment and its claim. The decoder recognises such parts by their bytes and
does not walk through them again. Its caches are bounded in number and in size, and cleared when the bound is
reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import TypeVar

from kafka_assignors_spark.folds.clients import client_of
from kafka_assignors_spark.folds.records import CONSUMER_PROTOCOL_TYPE, MemberRecord

__all__ = ["FastDecoder", "GenerationTotals", "totals_of"]

_MOST_KEPT = 20_000
_LONGEST_KEPT = 512
_NEWEST_VERSION = 3
_MEMBER_DATA = b"\xfeKAM"

_NO_RACK = b"\xff\xff"
_GENERATION_AND_NO_RACK = 4 + 2

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from
_int16_int32 = Struct(">hi").unpack_from


@dataclass(frozen=True, slots=True)
class MemberTotals:
    """The totals of a generation's members: their libraries and topics, sorted, without duplicates.

    `holds` says that one of them claims partitions that it has not revoked.
    """

    count: int = 0
    clients: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    holds: bool = False


class _Odd(Exception):
    """The value needs the complete decoder."""


GenerationTotals = tuple[str, int, int, str | None, str | None, MemberTotals]
"""Protocol type, version, generation, protocol, leader, members."""


def totals_of(members: tuple[MemberRecord, ...]) -> MemberTotals:
    """The totals of decoded members."""
    return MemberTotals(
        len(members),
        tuple(sorted({client_of(member.client_id) for member in members})),
        tuple(sorted({topic for member in members for topic in member.topics})),
        any(member.owned and not member.revoked for member in members),
    )


def _keep(known: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Cache a part, unless it is long."""
    if isinstance(key, bytes) and len(key) > _LONGEST_KEPT:
        return
    if len(known) >= _MOST_KEPT:
        known.clear()
    known[key] = value


class FastDecoder:
    """Totals one value after the other. Each task has one decoder."""

    def __init__(self) -> None:
        self._clients: dict[bytes, str] = {}  # by client id
        self._subscribed: dict[bytes, tuple[str, ...]] = {}  # by the bytes of the list of topics
        self._names: set[bytes] = set()  # of topics, known to be text
        self._members: dict[tuple[object, ...], MemberTotals] = {}
        # By version of the value and member id: what comes before the subscription. Layouts differ.
        self._heads: dict[tuple[int, bytes], tuple[bytes, str]] = {}
        self._subscriptions: dict[bytes, tuple[tuple[str, ...], bool]] = {}  # up to the generation
        self._claims: dict[bytes, bool] = {}
        self._assignments: set[bytes] = set()

    def decode(self, value: bytes) -> GenerationTotals | None:
        """The totals of the generation in a record's value; None if it needs the complete decoder."""
        try:
            return self._generation(value)
        except (StructError, UnicodeDecodeError, _Odd):
            return None

    def _generation(self, data: bytes) -> GenerationTotals:
        version, length = _int16(data, 0)[0], _int16(data, 2)[0]
        end = 4 + length
        if not 0 <= version <= _NEWEST_VERSION or data[4:end] != b"consumer":
            raise _Odd
        generation = _int32(data, end)[0]
        end += 4
        texts: list[str | None] = []
        for _ in ("protocol", "leader"):
            length = _int16(data, end)[0]
            start = end + 2
            if length >= 0:
                end = start + length
                texts.append(data[start:end].decode())
            elif length == -1:
                end = start
                texts.append(None)
            else:
                raise _Odd
        if version >= 2:
            end += 8
        count = _int32(data, end)[0]
        end += 4
        if count < 0 or count > len(data):
            raise _Odd
        if count:
            end, members = self._total_members(data, end, count, version)
        else:
            members = MemberTotals()
        if end != len(data):
            raise _Odd
        return CONSUMER_PROTOCOL_TYPE, version, generation, texts[0], texts[1], members

    def _total_members(self, data: bytes, end: int, count: int, version: int) -> tuple[int, MemberTotals]:
        """The end of the members, and their totals. A value that is too short shows by that end."""
        clients: set[str] = set()
        subscribed: set[tuple[str, ...]] = set()
        holds = False
        heads, subscriptions, assignments = self._heads, self._subscriptions, self._assignments
        for _ in range(count):
            begin = end
            start = end + 2
            end = start + _int16(data, end)[0]
            if end < start:
                raise _Odd
            member_id = data[start:end]
            head = heads.get((version, member_id))
            if head is not None and data.startswith(head[0], begin):
                end = begin + len(head[0])
                clients.add(head[1])
            else:
                member_id.decode()
                end, client = self._head(data, end, version)
                clients.add(client)
                if end - begin <= _LONGEST_KEPT:
                    _keep(heads, (version, member_id), (data[begin:end], client))
            start = end + 4
            end = start + _int32(data, end)[0]
            if end < start or end > len(data):
                raise _Odd
            known = None
            if end - start <= _LONGEST_KEPT and data[end - 2 : end] == _NO_RACK:
                known = subscriptions.get(data[start : end - _GENERATION_AND_NO_RACK])
            topics, held = self._subscription(data, start, end) if known is None else known
            subscribed.add(topics)
            holds = holds or held
            start = end + 4
            end = start + _int32(data, end)[0]
            if end != start and (end - start > _LONGEST_KEPT or data[start:end] not in assignments):
                self._assignment(data, start, end)
        return end, self._summed(count, clients, subscribed, holds)

    def _head(self, data: bytes, end: int, version: int) -> tuple[int, str]:
        """Where what lies between a member's id and its subscription ends, and the library of its client."""
        if version >= 3:
            length = _int16(data, end)[0]
            end += 2
            if length >= 0:
                start, end = end, end + length
                data[start:end].decode()
            elif length != -1:
                raise _Odd
        start = end + 2
        end = start + _int16(data, end)[0]
        if end < start:
            raise _Odd
        client_id = data[start:end]
        client = self._clients.get(client_id)
        if client is None:
            client = client_of(client_id.decode())
            _keep(self._clients, client_id, client)
        start = end + 2
        end = start + _int16(data, end)[0]
        if end < start:
            raise _Odd
        data[start:end].decode()
        end += 8 if version >= 1 else 4
        if end > len(data):
            raise _Odd
        return end, client

    def _summed(
        self, count: int, clients: set[str], subscribed: set[tuple[str, ...]], holds: bool
    ) -> MemberTotals:
        topics = next(iter(subscribed)) if len(subscribed) == 1 else tuple(sorted(set().union(*subscribed)))
        names = tuple(clients) if len(clients) == 1 else tuple(sorted(clients))
        key = (count, names, topics, holds)
        found = self._members.get(key)
        if found is None:
            found = MemberTotals(*key)
            _keep(self._members, key, found)
        return found

    def _subscription(self, data: bytes, position: int, limit: int) -> tuple[tuple[str, ...], bool]:
        """The topics between these places, and whether any partitions are claimed in a field of their own."""
        if position + 6 > limit:
            raise _Odd
        version, count = _int16_int32(data, position)
        start = position + 2
        end = start + 4
        if version < 0 or count < 0 or count > limit:
            raise _Odd
        for _ in range(count):
            length = _int16(data, end)[0]
            end += 2 + length
            if length < 0 or end > limit:
                raise _Odd
        names = data[start:end]
        topics = self._subscribed.get(names)
        if topics is None:
            topics = self._new_topics(names)
        length = _int32(data, end)[0]
        end += 4
        if length > 0:
            start, end = end, end + length
            # What other clients write there is passed over if it is wrong, but what we write is not.
            if _MEMBER_DATA in data[start:end]:
                raise _Odd
        elif length < -1:
            raise _Odd
        if end > limit:
            raise _Odd
        if version < 1 or end == limit:
            return topics, False
        short = limit - end <= _LONGEST_KEPT
        claim = data[end : limit - _GENERATION_AND_NO_RACK] if short else b""
        rackless = short and version >= 3 and data[limit - 2 : limit] == _NO_RACK
        if rackless and (known := self._claims.get(claim)) is not None:
            return topics, known
        claimed_until, holds = self._partitions(data, end, limit)
        end = claimed_until
        if version >= 2:
            end += 4
        if version >= 3:
            length = _int16(data, end)[0]
            end += 2
            if length >= 0:
                start, end = end, end + length
                data[start:end].decode()
            elif length != -1:
                raise _Odd
        if end > limit:
            raise _Odd
        if rackless and claimed_until == limit - _GENERATION_AND_NO_RACK:
            # The bytes before the generation mean the same for every generation.
            _keep(self._claims, claim, holds)
            _keep(self._subscriptions, data[position:claimed_until], (topics, holds))
        return topics, holds

    def _new_topics(self, names: bytes) -> tuple[str, ...]:
        topics = set()
        end = 4
        while end < len(names):
            start = end + 2
            end = start + _int16(names, end)[0]
            topics.add(names[start:end].decode())
        in_order = tuple(sorted(topics))
        _keep(self._subscribed, names, in_order)
        return in_order

    def _assignment(self, data: bytes, position: int, limit: int) -> None:
        if limit < position + 6 or _int16(data, position)[0] < 0:
            raise _Odd
        end, _ = self._partitions(data, position + 2, limit)
        length = _int32(data, end)[0]
        if length < -1 or end + 4 + max(length, 0) > limit:
            raise _Odd
        if limit - position <= _LONGEST_KEPT and limit <= len(data):
            if len(self._assignments) >= _MOST_KEPT:
                self._assignments.clear()
            self._assignments.add(data[position:limit])

    def _partitions(self, data: bytes, position: int, limit: int) -> tuple[int, bool]:
        """Where partitions by topic end, and whether there are any."""
        count = _int32(data, position)[0]
        end = position + 4
        if count < 0 or count > limit:
            raise _Odd
        some = False
        known = self._names
        for _ in range(count):
            start = end + 2
            end = start + _int16(data, end)[0]
            if end < start:
                raise _Odd
            name = data[start:end]
            if name not in known:
                name.decode()
                if len(known) >= _MOST_KEPT:
                    known.clear()
                known.add(name)
            numbers = _int32(data, end)[0]
            if numbers < 0:
                raise _Odd
            if numbers:
                some = True
            end += 4 + 4 * numbers
        if end > limit:
            raise _Odd
        return end, some
