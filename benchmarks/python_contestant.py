"""A contestant in Python: ours, kafka-python's or aiokafka's own sticky assignor.

    python -m benchmarks.python_contestant ours group.json

Each line of standard input, `{"do": "assign", "calls": 3}`, is answered with the CPU time of the process for
so many calls in a row, `{"cpu_ns": 1234}`. `assign` is the call of the assignor on members that are decoded
already; `lead`, which ours alone can do, goes from the bytes they joined with to the bytes that they are
sent, with all that a leader does in between: judging the claims, checking the answer, withholding.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.group_file import GroupFile, read_group_file
from kafka_assignors.group import Group, Member
from kafka_assignors.leader_bytes import encode_assignments, read_members
from kafka_assignors.strategies.sticky import CooperativeSticky

Call = Callable[[], object]


def ours(file: GroupFile) -> dict[str, Call]:
    strategy = CooperativeSticky()
    group = Group.of(file.topics, read_members(strategy, file.cooperative).members)
    return {
        # A copy has no judged claims yet: to judge them is part of the call.
        "assign": lambda: strategy.assign(replace(group)),
        "lead": lambda: encode_assignments(
            strategy, read_members(strategy, file.cooperative), file.topics, None
        ),
    }


def kafka_python(file: GroupFile) -> dict[str, Call]:
    import kafka.coordinator.assignors.sticky.sticky_assignor as kafka_sticky
    from kafka.structs import TopicPartition

    assignor: Any = kafka_sticky.StickyPartitionAssignor
    members: list[Any] = [
        SimpleNamespace(
            member_id=member.id,
            metadata=assignor._metadata(
                sorted(member.topics), _owned(member, TopicPartition), member.generation
            ),
        )
        for member in _members(file)
    ]
    cluster = _cluster(file)
    return {"assign": lambda: assignor().assign(cluster, members)}


def aiokafka(file: GroupFile) -> dict[str, Call]:
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.structs import TopicPartition

    members = {
        member.id: StickyPartitionAssignor._metadata(
            sorted(member.topics), _owned(member, TopicPartition), member.generation
        )
        for member in _members(file)
    }
    cluster = _cluster(file)
    return {"assign": lambda: StickyPartitionAssignor.assign(cluster, members)}


def _members(file: GroupFile) -> tuple[Member, ...]:
    return read_members(CooperativeSticky(), file.cooperative).members


def _owned(member: Member, kind: Callable[[str, int], Any]) -> list[Any] | None:
    return [kind(topic, partition) for topic, owned in member.owned.items() for partition in owned] or None


def _cluster(file: GroupFile) -> Any:
    """As much of a client's metadata as these assignors ask for."""
    partitions = {topic.name: set(range(topic.partitions)) for topic in file.topics}
    return SimpleNamespace(topics=partitions.keys, partitions_for_topic=partitions.get)


def main() -> None:
    name, path = sys.argv[1:]
    contestants = {"ours": ours, "kafka-python": kafka_python, "aiokafka": aiokafka}
    calls = contestants[name](read_group_file(Path(path)))
    for line in sys.stdin:
        question = json.loads(line)
        call = calls[question["do"]]
        gc.collect()
        start = time.process_time_ns()
        for _ in range(question["calls"]):
            call()
        print(json.dumps({"cpu_ns": time.process_time_ns() - start}), flush=True)


if __name__ == "__main__":
    main()
