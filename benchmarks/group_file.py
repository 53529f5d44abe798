"""A group as a file for contestants in any language: the metadata of the members' JoinGroup requests.

    {"topics": {"topic-00000": {"partitions": 100, "replica_racks": [["a", "b"], …]}},
     "members": [{"id": "member-00000", "cooperative": "base64…", "eager": "base64…"}]}

`cooperative` is the metadata of a member under `cooperative-sticky`, with its partitions in the
subscription's own field; `eager` is that under `sticky`, with the same partitions in the user data. Both have
Java's formats. `replica_racks` is absent if no rack is known.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from kafka_assignors.group import Group, Topic
from kafka_assignors.messages import JoinedMember
from kafka_assignors.strategies.sticky import CooperativeSticky, Sticky
from kafka_assignors.strategy import MemberContext
from kafka_assignors.wire import encode_member

__all__ = ["GroupFile", "read_group_file", "write_group_file"]


@dataclass(frozen=True, slots=True)
class GroupFile:
    """The content of the file, for a leader of the `cooperative-sticky` or of the `sticky` members."""

    topics: list[Topic]
    cooperative: list[JoinedMember]
    eager: list[JoinedMember]


def write_group_file(group: Group, path: Path) -> None:
    """Write members and topics in ascending order."""
    topics: dict[str, dict[str, object]] = {}
    for name in sorted(group.topics):
        topic = group.topics[name]
        topics[name] = {"partitions": topic.partitions}
        if topic.replica_racks is not None:
            topics[name]["replica_racks"] = [sorted(racks) for racks in topic.replica_racks]
    members: list[dict[str, str]] = []
    for member_id in sorted(group.members):
        member = group.members[member_id]
        context = MemberContext(member.topics, member.owned, member.generation, rack=member.rack)
        cooperative = encode_member(CooperativeSticky(), context, held=True)
        eager = encode_member(Sticky(), context, held=False)
        members.append({"id": member_id, "cooperative": _text(cooperative), "eager": _text(eager)})
    path.write_text(json.dumps({"topics": topics, "members": members}), encoding="utf-8")


def read_group_file(path: Path) -> GroupFile:
    """The topics, and both kinds of members."""
    content = json.loads(path.read_text(encoding="utf-8"))
    topics: list[Topic] = []
    for name, topic in content["topics"].items():
        racks = topic.get("replica_racks")
        replica_racks = None if racks is None else tuple(map(frozenset, racks))
        topics.append(Topic(name, topic["partitions"], replica_racks))
    cooperative, eager = (
        [JoinedMember(m["id"], None, base64.b64decode(m[kind])) for m in content["members"]]
        for kind in ("cooperative", "eager")
    )
    return GroupFile(topics, cooperative, eager)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
