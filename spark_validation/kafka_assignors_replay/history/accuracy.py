"""The accuracy check: does a replay of `range` and `roundrobin` give the recorded assignments?

For Java and kafka-assignors they have to be equal, member by member. Other clients have rules of their own:
their agreement is counted. A leader may have known other topics and partition counts than the catalogue; a
difference is explained only if the strategy gives exactly the recorded assignment for what the leader saw.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_assignors.group import Group, Member, Topic, TopicPartitions
from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.catalogue import Catalogue, leader_view
from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import AIOKAFKA_OURS, JAVA, KAFKA_PYTHON_OURS, UNKNOWN
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

    It cannot be checked if a member does not decode, or if the catalogue lacks a topic at that time, or racks
    that the leader may have followed.
    """
    led_by = record.members.get(record.leader or "")
    client = UNKNOWN if led_by is None else led_by.client
    place = record.group, record.partition, record.offset, record.generation
    found = Difference(*place, client, strategy.name)
    if not record.decodes:
        return CheckOutcome.UNCHECKED, found
    recorded = {member.member_id: _tidy(member.assigned) for member in record.members.values()}
    subscribed = sorted({topic for member in record.members.values() for topic in member.topics})
    known = {name: topic for name in subscribed if (topic := catalogue.at(name, record.timestamp))}
    if not known or any(given.keys() - known.keys() for given in recorded.values()):
        return CheckOutcome.UNCHECKED, found

    expected = _assign(strategy, record, known.values())
    if expected == recorded:
        return CheckOutcome.MATCHED, found
    named = strategy.follows_racks() and any(member.rack for member in record.members.values())
    if named and any(topic.replica_racks is None for topic in known.values()):
        return CheckOutcome.UNCHECKED, found
    found = replace(found, detail=_difference(recorded, expected))
    seen = leader_view(catalogue, record.timestamp, subscribed, recorded).topics
    if _assign(strategy, record, seen) == recorded:
        return CheckOutcome.EXPLAINED, replace(found, explanation=_words_for_view(known, seen))
    return CheckOutcome.UNEXPLAINED, found


def _assign(
    strategy: Strategy, record: Generation, topics: Iterable[Topic]
) -> dict[str, dict[str, tuple[int, ...]]]:
    members = (
        Member(member.member_id, frozenset(member.topics), member.instance_id, member.rack)
        for member in record.members.values()
    )
    assignment = strategy.assign(Group.of(topics, members, record.generation))
    return {member_id: _tidy(given) for member_id, given in assignment.members.items()}


def _tidy(partitions: TopicPartitions) -> dict[str, tuple[int, ...]]:
    return {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items() if numbers}


def _words_for_view(known: Mapping[str, Topic], seen: Iterable[Topic]) -> str:
    """How the topics that the leader saw differ from those of the catalogue, which has them all."""
    by_name = {topic.name: topic for topic in seen}
    words = []
    for name, topic in sorted(known.items()):
        saw = by_name.get(name)
        if saw is None:
            words.append(f"{name!r} not yet")
        elif saw != topic:
            words.append(f"{name!r} with {saw.partitions} partitions instead of {topic.partitions}")
    return "its leader's metadata were of another moment: it saw " + ", ".join(words)


def _difference(recorded: Mapping[str, TopicPartitions], expected: Mapping[str, TopicPartitions]) -> str:
    """The first members that differ, with both sides."""
    differing = [member_id for member_id in sorted(recorded) if recorded[member_id] != expected[member_id]]
    shown = [
        f"{member_id}: recorded {_text(recorded[member_id])}, replayed {_text(expected[member_id])}"
        for member_id in differing[:_MOST_MEMBERS_TO_SHOW]
    ]
    if len(differing) > len(shown):
        shown.append(f"and {len(differing) - len(shown)} more members")
    return "; ".join(shown)


def _text(partitions: TopicPartitions) -> str:
    if not partitions:
        return "nothing"
    return " ".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in sorted(partitions.items()))
