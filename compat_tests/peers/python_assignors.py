"""The assignments of a Python client's sticky assignors for a group.

    python python_assignors.py kafka-python|aiokafka ASSIGNOR...

Each line of standard input is a group in the JSON form of `kafka_assignors.group_json`; each is answered with
a line ``{"sticky": {"assignment": {member: {topic: [partition, ...]}}}, ...}``, or ``{"error": ...}``
instead of an assignment where the assignor raises. A cooperative assignor's answer is that of one round.

Every member describes itself as a consumer of that client does, in bytes, and the assignor gets what the
client decodes from them. Each group is assigned by new assignors, because assignors keep state.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

Group = dict[str, Any]
Shares = dict[str, dict[str, list[int]]]
Assign = Callable[[Any, Group], Shares]


class Cluster:
    """The part of a client's metadata that its assignors use: the topics that members subscribe to."""

    def __init__(self, group: Mapping[str, Any]) -> None:
        subscribed = {topic for member in group["members"] for topic in member["topics"]}
        self._partitions = {
            name: set(range(topic["partitions"]))
            for name, topic in group["topics"].items()
            if name in subscribed
        }

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self._partitions.get(topic)


def kafka_python() -> tuple[Assign, Sequence[Any]]:
    """How kafka-python 3.x assigns, and its sticky assignors."""
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
    from kafka.structs import TopicPartition

    def joined(assignor: Any, member: Mapping[str, Any]) -> Any:
        if owned := member.get("owned"):
            assignor.member_assignment = [TopicPartition(t, p) for t, ps in owned.items() for p in ps]
            assignor.generation = member.get("generation", -1)
        metadata = assignor.metadata(set(member["topics"]))
        return SimpleNamespace(
            member_id=member["id"],
            group_instance_id=member.get("instance_id"),
            metadata=ConsumerProtocolSubscription.decode(metadata.encode()),
        )

    def assign(assignor: Any, group: Group) -> Shares:
        members = [joined(assignor(), member) for member in group["members"]]
        given = assignor().assign(Cluster(group), members)
        return _plain((member_id, one.assigned_partitions) for member_id, one in given.items())

    return assign, (StickyPartitionAssignor, CooperativeStickyAssignor)


def aiokafka() -> tuple[Assign, Sequence[Any]]:
    """How aiokafka assigns, and its sticky assignor."""
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
    from aiokafka.structs import TopicPartition

    def joined(assignor: Any, member: Mapping[str, Any]) -> Any:
        topics = set(member["topics"])
        if owned := member.get("owned"):
            partitions = [TopicPartition(t, p) for t, ps in owned.items() for p in ps]
            metadata = assignor._metadata(topics, partitions, member.get("generation", -1))
        else:
            metadata = assignor._metadata(topics, None)
        return ConsumerProtocolMemberMetadata.decode(metadata.encode())

    def assign(assignor: Any, group: Group) -> Shares:
        members = {member["id"]: joined(assignor, member) for member in group["members"]}
        given = assignor.assign(Cluster(group), members)
        return _plain((member_id, one.assignment) for member_id, one in given.items())

    return assign, (StickyPartitionAssignor,)


def _plain(given: Iterable[tuple[str, Iterable[tuple[str, Iterable[int]]]]]) -> Shares:
    return {
        member_id: {topic: sorted(partitions) for topic, partitions in assigned if list(partitions)}
        for member_id, assigned in given
    }


def main(client: str, *names: str) -> None:
    logging.disable(logging.CRITICAL)  # kafka-python and aiokafka warn of every double claim.
    assign, classes = {"kafka-python": kafka_python, "aiokafka": aiokafka}[client]()
    assignors = {each.name: each for each in classes}
    for line in sys.stdin:
        group = json.loads(line)
        answers: dict[str, Any] = {}
        for name in names:
            try:
                answers[name] = {"assignment": assign(assignors[name], group)}
            except Exception as error:  # Any error would end the leader's rebalance.
                answers[name] = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
