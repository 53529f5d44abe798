"""The client libraries that lead groups: how to recognise them, and where their range and round robin differ.

The leader assigns for the whole group, so a group's history mixes the habits of several client libraries. The
record has the leader's client id. The library follows from its default id, or from an id that starts with its
name (`java-…`, `aiokafka-stock-…`, `kafka-python-ours-…`).

Where a library is known to differ from Java (read in its sources), the difference is written here as a
*habit*: another order of members, no racks. A habit explains a recorded assignment only if the strategy of
kafka-assignors gives exactly that assignment under the habit.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from kafka_assignors.group import Assignment, Group, Member
from kafka_assignors.strategy import Strategy

JAVA = "java"
AIOKAFKA, AIOKAFKA_OURS = "aiokafka", "aiokafka with kafka-assignors"
KAFKA_PYTHON, KAFKA_PYTHON_OURS = "kafka-python", "kafka-python with kafka-assignors"
LIBRDKAFKA = "librdkafka"
UNKNOWN = "unknown"

MUST_MATCH = frozenset({JAVA, AIOKAFKA_OURS, KAFKA_PYTHON_OURS})
"""Clients whose range and round robin must equal those of kafka-assignors, partition by partition."""

EAGER_CLIENTS = frozenset({AIOKAFKA, AIOKAFKA_OURS, KAFKA_PYTHON_OURS})
"""Clients whose members revoke all partitions in every rebalance, regardless of the strategy."""

_CLIENT_IDS = (
    (re.compile(r"aiokafka-ours\b"), AIOKAFKA_OURS),
    (re.compile(r"kafka-python-ours\b"), KAFKA_PYTHON_OURS),
    (re.compile(r"aiokafka\b"), AIOKAFKA),
    (re.compile(r"kafka-python\b"), KAFKA_PYTHON),
    (re.compile(r"(rdkafka|librdkafka|confluent)\b"), LIBRDKAFKA),
    (re.compile(r"(java|consumer)\b"), JAVA),
)


def client_of(client_id: str) -> str:
    """The client library with this client id; "unknown" for an id that the application chose."""
    return next((client for pattern, client in _CLIENT_IDS if pattern.match(client_id)), UNKNOWN)


@dataclass(frozen=True, slots=True)
class Habit:
    """A difference between a library's range and round robin and Java's: its description, and its order of
    members.

    `order` is None for Java's order. `racks` is False for a library that ignores racks.
    """

    words: str
    order: Callable[[Iterable[Member]], list[Member]] | None = None
    racks: bool = True


def _by_member_id(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda member: member.id)


def _as_librdkafka(members: Iterable[Member]) -> list[Member]:
    # This order is inconsistent for a mix of static and dynamic members: the result then depends on the input
    # order.
    def compare(one: Member, other: Member) -> int:
        both_static = one.instance_id is not None and other.instance_id is not None
        mine = one.instance_id if both_static and one.instance_id is not None else one.id
        theirs = other.instance_id if both_static and other.instance_id is not None else other.id
        first, second = mine.encode("utf-8", "surrogatepass"), theirs.encode("utf-8", "surrogatepass")
        return (first > second) - (first < second)

    return sorted(members, key=functools.cmp_to_key(compare))


_NO_RACKS = Habit("racks are not looked at", racks=False)
_ALL = (
    Habit("members are ordered by member id alone", _by_member_id),
    Habit("members are ordered by member id alone, and racks are not looked at", _by_member_id, racks=False),
)
_LIBRDKAFKA = (
    Habit("instance ids are compared only where both members have one", _as_librdkafka),
    Habit(
        "instance ids are compared only where both members have one, and racks are not looked at",
        _as_librdkafka,
        racks=False,
    ),
)

HABITS: dict[str, tuple[Habit, ...]] = {
    AIOKAFKA: (_NO_RACKS, *_ALL),
    KAFKA_PYTHON: (_NO_RACKS,),
    LIBRDKAFKA: (_NO_RACKS, *_LIBRDKAFKA),
    UNKNOWN: (_NO_RACKS, *_ALL, *_LIBRDKAFKA),
}
"""The known habits of each library."""


def assign_in_order(strategy: Strategy, group: Group, order: Sequence[Member], *, racks: bool) -> Assignment:
    """The assignment of `strategy` for the members in this order, with or without racks.

    Members that are not in `order` are assigned nothing. Numbers in place of member ids impose the order.
    """
    names = [f"{position:08d}" for position in range(len(order))]
    renamed = [
        replace(member, id=name, instance_id=None, rack=member.rack if racks else None)
        for name, member in zip(names, order, strict=True)
    ]
    given = strategy.assign(Group.of(group.topics.values(), renamed, group.generation))
    shares = {member.id: given.members[name] for name, member in zip(names, order, strict=True)}
    return Assignment({member_id: shares.get(member_id, {}) for member_id in group.members})
