"""Two sections of bytes about warm-ups: what a member announces, and what its leader lists for it.

`docs/internals/wire-format.md` has the fields. The first ends a member's data since their version 2, in a
byte array of its own. The second is the user data of an assignment, version 2; version 0 is a byte without a
meaning (`messages`), and version 1 is not used. Later versions may only append.

Warm-ups are an extra: a section that does not decode counts as absent, and never costs a member its
partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.group import Warmth, by_topic, pairs
from kafka_assignors.wire.reader import ProtocolError, Reader, read_topic_partitions
from kafka_assignors.wire.writer import Writer

Unit = tuple[tuple[str, int], ...]
"""Partitions that move together, as topic and number, ascending; most units are one partition."""

_PLAN_BYTES = 8
_LIST_VERSION = 2


def warmth_bytes(warmth: Warmth) -> bytes:
    """The section of a member."""
    writer = Writer("warmth")
    writer.int32("max_warming", warmth.max_warming)
    writer.int8("draining", warmth.draining)
    writer.int32("generation", warmth.generation)
    writer.raw(warmth.plan.to_bytes(_PLAN_BYTES, "big"))
    writer.topic_partitions("warming", warmth.warming)
    writer.topic_partitions("ready", warmth.ready)
    return writer.getvalue()


def read_warmth(reader: Reader) -> Warmth | None:
    """The section that `reader` stands before; None if it does not decode."""
    try:
        section = reader.section("warmth")
        return Warmth(
            max(0, section.int32("max_warming")),
            section.int8("draining") != 0,
            section.int32("generation"),
            int.from_bytes(section.raw("plan", _PLAN_BYTES), "big"),
            read_topic_partitions(section, "warming"),
            read_topic_partitions(section, "ready"),
        )
    except ProtocolError:
        return None


@dataclass(frozen=True, slots=True)
class WarmList:
    """What a member is going to get and shall warm first: `units` without a partition twice.

    `plan` is a digest of the target, by which later leaders know it again.
    """

    plan: int = 0
    units: tuple[Unit, ...] = ()


def warm_list_bytes(warm: WarmList) -> bytes:
    """The user data of an assignment with this list."""
    writer = Writer("warm list")
    writer.int8("version", _LIST_VERSION)
    writer.raw(warm.plan.to_bytes(_PLAN_BYTES, "big"))
    together = [unit for unit in warm.units if len(unit) > 1]
    writer.topic_partitions("alone", by_topic(unit[0] for unit in warm.units if len(unit) == 1))
    writer.int32("units", len(together))
    for unit in together:
        writer.topic_partitions("unit", by_topic(unit))
    return writer.getvalue()


def read_warm_list(user_data: bytes) -> WarmList | None:
    """The list in the user data of an assignment; None if they are something else or do not decode."""
    reader = Reader(user_data, "warm list")
    try:
        if reader.int8("version") < _LIST_VERSION:
            return None
        plan = int.from_bytes(reader.raw("plan", _PLAN_BYTES), "big")
        units: list[Unit] = [(one,) for one in pairs(read_topic_partitions(reader, "alone"))]
        units += (
            tuple(pairs(read_topic_partitions(reader, "unit")))
            for _ in reader.items("units", minimum_bytes=4)
        )
    except ProtocolError:
        return None
    seen: set[tuple[str, int]] = set()
    distinct: list[Unit] = []
    for unit in units:
        if left := tuple(sorted({*unit} - seen)):
            seen.update(left)
            distinct.append(left)
    return WarmList(plan, tuple(distinct))
