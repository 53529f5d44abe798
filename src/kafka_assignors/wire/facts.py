"""Facts: what a member announces of itself, in the bytes of a strategy's member data.

One format for all strategies of ours that ask their members for something, so that a member says the same to
each of them and one that is put together from several (see `kafka_assignors.strategies.composition`) needs no
format of its own:

    version   int16            1
    facts     tagged fields    as at the end of a struct of a flexible version (KIP-482)

| tag | fact       | type of Kafka's protocol                                                     |
|-----|------------|------------------------------------------------------------------------------|
| 0   | release    | compact string, 1 to 255 bytes                                               |
| 1   | share      | unsigned varint, 0 to 10,000: ten-thousandths that the release asks for      |
| 2   | draining   | boolean                                                                      |
| 3   | capacity   | unsigned varint, 1 to 10,000                                                 |
| 4   | standby    | boolean                                                                      |
| 5   | rules      | compact string, 1 to 64 bytes: a digest of the rules that the member runs    |

A later version may only add fields. What this code does not know it skips, so members of several versions may
share a group; what it knows must be as the table says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.writer import Writer

__all__ = [
    "LONGEST_RELEASE",
    "MOST_CAPACITY",
    "WHOLE_SHARE",
    "Facts",
    "InvalidFactError",
    "decode_facts",
    "encode_facts",
]

LONGEST_RELEASE = 255
"""Bytes of UTF-8."""

MOST_CAPACITY = 10_000
"""The largest capacity of a member. Two members cannot differ by more than this factor."""

LONGEST_RULES = 64
"""Bytes of UTF-8 of a digest of rules."""

WHOLE_SHARE = 10_000
"""The share of a release that asks for everything."""

_SUBJECT = "facts"
_VERSION = 1
_TRUE = b"\x01"
_RELEASE, _SHARE, _DRAINING, _CAPACITY, _STANDBY, _RULES = range(6)


class InvalidFactError(ValueError):
    """A fact that no member can announce; the message says what would do."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a member announces of itself; a member that says nothing is `Facts()`.

    `release` is the version of the application that runs on it, and `share` what part of the partitions that
    release asks for, in ten-thousandths. `draining`: it is about to leave. `capacity` is how much it can
    carry beside the others. `standby`: it takes over only from members that leave. `rules` is equal for two
    members that divide a group by the same rules, whichever of them leads.
    """

    release: str | None = None
    share: int | None = None
    draining: bool = False
    capacity: int | None = None
    standby: bool = False
    rules: str | None = None

    def __post_init__(self) -> None:
        if self.release is not None and not 1 <= len(_utf8(self.release)) <= LONGEST_RELEASE:
            raise InvalidFactError(
                f"a release is text of 1 to {LONGEST_RELEASE} bytes, not {self.release!r:.300}"
            )
        if self.share is not None and not 0 <= self.share <= WHOLE_SHARE:
            raise InvalidFactError(
                f"a share is between 0 and {WHOLE_SHARE} ten-thousandths, not {self.share}"
            )
        if self.capacity is not None and not 1 <= self.capacity <= MOST_CAPACITY:
            raise InvalidFactError(f"a capacity is between 1 and {MOST_CAPACITY}, not {self.capacity}")
        if self.rules is not None and not 1 <= len(_utf8(self.rules)) <= LONGEST_RULES:
            raise InvalidFactError(f"a digest of rules is text of 1 to {LONGEST_RULES} bytes")


def encode_facts(facts: Facts) -> bytes:
    """The bytes of `facts`; none at all for a member that says nothing."""
    fields: dict[int, bytes] = {}
    if facts.release is not None:
        fields[_RELEASE] = _bytes_of(lambda writer: writer.compact_string("release", facts.release or ""))
    if facts.share is not None:
        fields[_SHARE] = _bytes_of(lambda writer: writer.uvarint(facts.share or 0))
    if facts.draining:
        fields[_DRAINING] = _TRUE
    if facts.capacity is not None:
        fields[_CAPACITY] = _bytes_of(lambda writer: writer.uvarint(facts.capacity or 0))
    if facts.standby:
        fields[_STANDBY] = _TRUE
    if facts.rules is not None:
        fields[_RULES] = _bytes_of(lambda writer: writer.compact_string("rules", facts.rules or ""))
    if not fields:
        return b""
    writer = Writer(_SUBJECT)
    writer.int16("version", _VERSION)
    writer.tagged_fields(fields)
    return writer.getvalue()


def decode_facts(data: bytes) -> Facts:
    """What a member announced; `ProtocolError` if these are not the bytes of facts."""
    if not data:
        return Facts()
    reader = Reader(data, _SUBJECT)
    start = reader.offset
    version = reader.int16("version")
    if version < 1:
        raise reader.error("version", start, f"{version} is not a version of facts")
    facts = Facts()
    seen: set[int] = set()
    for tag in reader.tagged_fields("facts"):
        start = reader.offset
        if tag in seen:
            raise reader.error("tag", start, f"{tag} comes twice")
        seen.add(tag)
        try:
            facts = _with_field(facts, tag, reader)
        except InvalidFactError as error:
            raise reader.error("data", start, str(error)) from None
    if version == _VERSION:
        reader.finish("facts")
    return facts


def _with_field(facts: Facts, tag: int, reader: Reader) -> Facts:
    if tag == _RELEASE:
        return replace(facts, release=reader.compact_string("release"))
    if tag == _SHARE:
        return replace(facts, share=reader.uvarint("share"))
    if tag == _DRAINING:
        return replace(facts, draining=reader.int8("draining") != 0)
    if tag == _CAPACITY:
        return replace(facts, capacity=reader.uvarint("capacity"))
    if tag == _STANDBY:
        return replace(facts, standby=reader.int8("standby") != 0)
    if tag == _RULES:
        return replace(facts, rules=reader.compact_string("rules"))
    return facts


def _bytes_of(write: Callable[[Writer], None]) -> bytes:
    writer = Writer(_SUBJECT)
    write(writer)
    return writer.getvalue()


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return b""
