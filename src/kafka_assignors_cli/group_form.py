"""Groups and assignments in the JSON forms of `kafka_assignors.group_json`, which reads groups."""

from __future__ import annotations

import base64
from typing import Any

from kafka_assignors.announcements import FACT_TYPES, Facts, decode_facts, encode_facts
from kafka_assignors.group import NO_GENERATION, Assignment, Group, Member, Topic
from kafka_assignors.group_json import FORMAT
from kafka_assignors.wire.reader import ProtocolError


def group_to_json(group: Group) -> dict[str, Any]:
    """The JSON form of `group`, from which `parse_group` gives an equal one back.

    Members and topics are sorted; optional keys that say nothing are left out.
    """
    return _without_none(
        format=FORMAT,
        generation=group.generation,
        topics={name: _topic(group.topics[name]) for name in sorted(group.topics)},
        members=[_member(group.members[member_id]) for member_id in sorted(group.members)],
    )


def assignment_to_json(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    """Partitions by member id and topic, both sorted; every member has an entry, be it empty."""
    return {
        member_id: {topic: list(topics[topic]) for topic in sorted(topics)}
        for member_id, topics in sorted(assignment.members.items())
    }


def _topic(topic: Topic) -> dict[str, Any]:
    racks, weights = topic.replica_racks, topic.weights
    return _without_none(
        partitions=topic.partitions,
        replica_racks=None if racks is None else [sorted(each) for each in racks],
        weights=None if weights is None else list(weights),
        id=topic.id,
    )


def _member(member: Member) -> dict[str, Any]:
    return _without_none(
        id=member.id,
        topics=sorted(member.topics),
        instance_id=member.instance_id,
        rack=member.rack,
        owned={topic: list(member.owned[topic]) for topic in sorted(member.owned)} or None,
        generation=None if member.generation == NO_GENERATION else member.generation,
        revoked=member.revoked or None,
        **_data(member.data),
    )


def _data(data: bytes) -> dict[str, Any]:
    """The facts in `data`; base64 under `data` if the bytes are not exactly those of facts."""
    try:
        facts = decode_facts(data)
    except ProtocolError:
        facts = Facts()
    if encode_facts(facts) != data:
        return {"data": base64.b64encode(data).decode("ascii")}
    # A share of 0 is a fact, although it equals False.
    return {name: fact for name, _ in FACT_TYPES.values() if (fact := getattr(facts, name)) is not False}


def _without_none(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
