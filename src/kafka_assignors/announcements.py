"""The facts that members announce: the values, and their bytes in a strategy's member data.

All strategies of this project that ask their members for facts share one format:

    version   int16            1
    facts     tagged fields    as in a struct of a flexible version (KIP-482): docs/internals/wire-format.md

A later version may only add fields. This code skips tags that it does not know, so members of several
versions may share a group; known fields must be within their bounds. The bytes come from other processes. A
member whose bytes do not decode counts as one that announced nothing, and a finding names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from kafka_assignors.group import Group, quoted
from kafka_assignors.wire.reader import ProtocolError, Reader
from kafka_assignors.wire.writer import Writer

LONGEST_RELEASE = 255
"""The most bytes of a release, in UTF-8."""

MOST_CAPACITY = 10_000
"""The largest capacity of a member. Two members cannot differ by more than this factor."""

LONGEST_RULES = 64
"""The most bytes of a digest of rules, in UTF-8."""

WHOLE_SHARE = 10_000
"""The share of a release that asks for all partitions."""

_SUBJECT = "facts"
_VERSION = 1
FACT_TYPES: Mapping[int, tuple[str, type]] = {
    0: ("release", str),
    1: ("share", int),
    3: ("capacity", int),
    4: ("standby", bool),
    5: ("rules", str),
}
"""The name and type of the fact of each tag: a compact string, an unsigned varint or a boolean."""


class InvalidFactError(ValueError):
    """A fact that no member can announce; the message says which values are valid."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a member announces of itself; a member that announces nothing is `Facts()`.

    `release` is the version of its application, and `share` the part of all partitions that this release asks
    for, in ten-thousandths. `capacity` is relative to the other members. `standby`: it takes over only from
    members that leave. `rules` is a digest of the rules by which it assigns; it is equal for members with the
    same rules.
    """

    release: str | None = None
    share: int | None = None
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
    """The bytes of `facts`; empty for a member that announces nothing."""
    fields: dict[int, bytes] = {}
    for tag, (name, kind) in FACT_TYPES.items():
        fact = getattr(facts, name)
        if fact is None or fact is False:
            continue
        value = Writer(_SUBJECT, flexible=True)
        if kind is str:
            value.string(name, fact)
        else:
            value.uvarint(fact)
        fields[tag] = value.getvalue()
    if not fields:
        return b""
    writer = Writer(_SUBJECT)
    writer.int16("version", _VERSION)
    writer.tagged_fields(fields)
    return writer.getvalue()


def decode_facts(data: bytes) -> Facts:
    """The facts in `data`; `ProtocolError` if these are not the bytes of facts."""
    if not data:
        return Facts()
    reader = Reader(data, _SUBJECT, flexible=True)
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
        if tag not in FACT_TYPES:
            continue
        name, kind = FACT_TYPES[tag]
        fact: Any
        if kind is str:
            fact = reader.string(name)
        else:
            fact = reader.uvarint(name) if kind is int else reader.int8(name) != 0
        try:
            facts = replace(facts, **{name: fact})
        except InvalidFactError as error:
            raise reader.error("data", start, str(error)) from None
    if version == _VERSION:
        reader.finish("facts")
    return facts


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return b""


@dataclass(frozen=True, slots=True)
class AnnouncedFacts:
    """The facts of every member by its id, and a sentence for each member whose data do not decode."""

    members: Mapping[str, Facts]
    findings: tuple[str, ...]

    @property
    def capacities(self) -> dict[str, int]:
        """The capacity of each member that announced one."""
        return {id: facts.capacity for id, facts in self.members.items() if facts.capacity is not None}


def facts_of(group: Group) -> AnnouncedFacts:
    """The facts of all members; data that do not decode are a finding, not an error."""
    members: dict[str, Facts] = {}
    findings: list[str] = []
    for member_id in sorted(group.members):
        try:
            members[member_id] = decode_facts(group.members[member_id].data)
        except ProtocolError as error:
            members[member_id] = Facts()
            findings.append(
                f"member {quoted(member_id)} counts as one that announced nothing, its data do not decode: "
                f"{error}"
            )
    return AnnouncedFacts(members, tuple(findings))


@dataclass(frozen=True, slots=True)
class Supposed:
    """The facts that are assumed of members that announce nothing; all members must suppose the same.

    Members of a recorded history announced no facts to a strategy that they did not run. `member` is a
    pattern with `*`, `?` and `[…]` for the instance id, else the member id, which begins with the client id.
    """

    member: str
    facts: Facts


def with_supposed(group: Group, facts: AnnouncedFacts, supposed: Sequence[Supposed]) -> AnnouncedFacts:
    """The facts; a member that announced none gets those of the first pattern that matches it."""
    if not supposed:
        return facts
    members: dict[str, Facts] = {}
    for member_id, announced in facts.members.items():
        # Members of every release announce the digest of their rules.
        silent = replace(announced, rules=None) == Facts()
        name = group.members[member_id].instance_id or member_id
        fitting = (each.facts for each in supposed if fnmatchcase(name, each.member))
        members[member_id] = replace(next(fitting, Facts()), rules=announced.rules) if silent else announced
    return AnnouncedFacts(members, facts.findings)
