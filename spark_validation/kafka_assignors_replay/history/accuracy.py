"""The accuracy check: does a replay of `range` and `roundrobin` give the recorded assignments?

For Java and kafka-assignors they have to be equal, member by member; for other clients the agreement is
counted. Where a library is known to differ from Java (read in its sources), the difference is a *habit*:
another order of members, no racks. A leader may also have known other partition counts than the catalogue. A
difference is explained only if the strategy gives exactly the recorded assignment under that assumption.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafka_assignors.group import Group, Member, Topic, TopicPartitions
from kafka_assignors.strategies.range_roundrobin import in_java_order
from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.catalogue import Catalogue, LeaderView, leader_view
from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import (
    AIOKAFKA,
    AIOKAFKA_OURS,
    JAVA,
    KAFKA_PYTHON,
    KAFKA_PYTHON_OURS,
    LIBRDKAFKA,
    UNKNOWN,
)
from kafka_assignors_replay.result import Difference

CHECKED_STRATEGIES = ("range", "roundrobin")

MUST_MATCH = frozenset({JAVA, AIOKAFKA_OURS, KAFKA_PYTHON_OURS})
"""Clients whose range and round robin must equal those of kafka-assignors, partition by partition."""

_MOST_MEMBERS_TO_SHOW = 3


class CheckOutcome(str, enum.Enum):
    """How a recorded generation compares with the replay."""

    MATCHED = "matched"
    EXPLAINED = "explained"
    UNEXPLAINED = "unexplained"
    UNCHECKED = "unchecked"


def check_generation(
    record: Generation, strategy: Strategy, catalogue: Catalogue
) -> tuple[CheckOutcome, Difference]:
    """Compare one recorded generation with the assignment of `strategy` for the same members and topics.

    It cannot be checked if a member does not decode, or if the catalogue lacks a topic at that time.
    """
    led_by = record.members.get(record.leader or "")
    client = UNKNOWN if led_by is None else led_by.client
    place = record.group, record.partition, record.offset, record.generation
    found = Difference(*place, client, strategy.name)
    if not record.decodes:
        return CheckOutcome.UNCHECKED, found
    recorded = {member.member_id: _tidy(member.assigned) for member in record.members.values()}
    subscribed = sorted({topic for member in record.members.values() for topic in member.topics})
    of_catalogue = [topic for name in subscribed if (topic := catalogue.at(name, record.timestamp))]
    given_topics = {topic for by_topic in recorded.values() for topic in by_topic}
    if not of_catalogue or given_topics.difference(topic.name for topic in of_catalogue):
        return CheckOutcome.UNCHECKED, found

    group = _group(record, of_catalogue)
    expected = {member_id: _tidy(given) for member_id, given in strategy.assign(group).members.items()}
    if expected == recorded:
        return CheckOutcome.MATCHED, found
    view = leader_view(catalogue, record.timestamp, subscribed, recorded)
    explanation = _explain(strategy, group, record, view, recorded, client)
    outcome = CheckOutcome.UNEXPLAINED if explanation is None else CheckOutcome.EXPLAINED
    return outcome, replace(found, explanation=explanation, detail=_difference(recorded, expected))


def _explain(
    strategy: Strategy,
    group: Group,
    record: Generation,
    view: LeaderView,
    recorded: Mapping[str, TopicPartitions],
    client: str,
) -> str | None:
    """The fewest assumptions, in words, under which the strategy gives the recorded assignment; None if there
    are none."""
    seen = _group(record, view.topics) if view.problem is None else group
    habits = HABITS.get(client, ())
    tries = [(group, "", habit) for habit in habits]
    if seen.topics != group.topics:
        words = _words_for_view(group, seen)
        tries = [(seen, words, _AS_JAVA), *tries, *((seen, f"{words}; ", habit) for habit in habits)]
    for candidate, words, habit in tries:
        if _under(habit, strategy, candidate) == recorded:
            return words + habit.words
    # kafka-python groups members by runs of static and dynamic ones, and keeps the last run of each kind.
    served = [member for member in seen.members.values() if recorded[member.id]]
    if client not in MUST_MATCH and 0 < len(served) < len(seen.members):
        for habit in (_AS_JAVA, *habits):
            if _under(habit, strategy, seen, served) == recorded:
                left_out = len(seen.members) - len(served)
                also = f"; {habit.words}" if habit.words else ""
                return f"its leader ignored {left_out} of {len(seen.members)} members{also}"
    return None


def _words_for_view(group: Group, seen: Group) -> str:
    """How the topics that the leader saw differ from the catalogue's, most telling first."""
    words = []
    for name in sorted(group.topics.keys() | seen.topics.keys()):
        known, saw = group.topics.get(name), seen.topics.get(name)
        if known == saw or known is None:
            continue
        if saw is None:
            words.append(f"{name!r} not yet")
        else:
            words.append(f"{saw.partitions} of the {known.partitions} partitions of {name!r}")
    return "its leader's metadata were of another moment: it saw " + ", ".join(words)


def _under(
    habit: Habit, strategy: Strategy, group: Group, members: Sequence[Member] | None = None
) -> dict[str, dict[str, tuple[int, ...]]]:
    """The assignment by this habit to these members, by default all, and nothing to others.

    Numbers in place of member ids impose the order.
    """
    order = habit.order(group.members.values() if members is None else members)
    numbered = [
        replace(member, id=f"{number:08d}", instance_id=None, rack=member.rack if habit.racks else None)
        for number, member in enumerate(order)
    ]
    given = strategy.assign(Group.of(group.topics.values(), numbered, group.generation)).members
    shares = {member.id: _tidy(given[each.id]) for member, each in zip(order, numbered, strict=True)}
    return {member_id: shares.get(member_id, {}) for member_id in group.members}


def _group(record: Generation, topics: Sequence[Topic]) -> Group:
    members = (
        Member(member.member_id, frozenset(member.topics), member.instance_id, member.rack)
        for member in record.members.values()
    )
    return Group.of(topics, members, record.generation)


def _tidy(partitions: TopicPartitions) -> dict[str, tuple[int, ...]]:
    return {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items() if numbers}


def _difference(recorded: Mapping[str, TopicPartitions], expected: Mapping[str, TopicPartitions]) -> str:
    """The first members that differ, with both sides."""
    differing = [
        member_id
        for member_id in sorted(recorded.keys() | expected.keys())
        if recorded.get(member_id) != expected.get(member_id)
    ]
    shown = []
    for member_id in differing[:_MOST_MEMBERS_TO_SHOW]:
        was, now = _text(recorded.get(member_id, {})), _text(expected.get(member_id, {}))
        shown.append(f"{member_id}: recorded {was}, replayed {now}")
    if len(differing) > len(shown):
        shown.append(f"and {len(differing) - len(shown)} more members")
    return "; ".join(shown)


def _text(partitions: TopicPartitions) -> str:
    if not partitions:
        return "nothing"
    return " ".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in sorted(partitions.items()))


# The habits of client libraries


@dataclass(frozen=True, slots=True)
class Habit:
    """A difference between a library's range and round robin and Java's: its description, its order of
    members, and whether it looks at racks."""

    words: str
    order: Callable[[Iterable[Member]], list[Member]] = in_java_order
    racks: bool = True


def _by_member_id(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda member: member.id)


def _as_librdkafka(members: Iterable[Member]) -> list[Member]:
    # This order is inconsistent for a mix of static and dynamic members: the result then depends on the input
    # order.
    def compare(one: Member, other: Member) -> int:
        both_static = one.instance_id is not None and other.instance_id is not None
        names = (one.instance_id, other.instance_id) if both_static else (one.id, other.id)
        first, second = ((name or "").encode("utf-8", "surrogatepass") for name in names)
        return (first > second) - (first < second)

    return sorted(members, key=functools.cmp_to_key(compare))


_AS_JAVA = Habit("")
_NO_RACKS = Habit("racks are not looked at", racks=False)


def _with_racks_and_without(
    words: str, order: Callable[[Iterable[Member]], list[Member]]
) -> tuple[Habit, ...]:
    return Habit(words, order), Habit(f"{words}, and racks are not looked at", order, racks=False)


_ALL = _with_racks_and_without("members are ordered by member id alone", _by_member_id)
_LIBRDKAFKA = _with_racks_and_without(
    "instance ids are compared only where both members have one", _as_librdkafka
)

HABITS: dict[str, tuple[Habit, ...]] = {
    AIOKAFKA: (_NO_RACKS, *_ALL),
    KAFKA_PYTHON: (_NO_RACKS,),
    LIBRDKAFKA: (_NO_RACKS, *_LIBRDKAFKA),
    UNKNOWN: (_NO_RACKS, *_ALL, *_LIBRDKAFKA),
}
"""The known habits of each library."""
