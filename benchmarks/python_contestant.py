"""A contestant in Python: our sticky assignor, kafka-python's or aiokafka's.

    python -m benchmarks.python_contestant ours group.json

Each line of standard input, `{"do": "assign", "calls": 3}`, is answered with the CPU time of the process for
that many calls in a row, `{"cpu_ns": 1234}`. `assign` is the assignor's call on decoded members; `lead` goes
from the bytes of the members' JoinGroup requests to the bytes of their assignments. For our strategy that is
the leader's whole work: judge the claims, assign, check the assignment, withhold. For the others it is the
codecs and assignors that their coordinators call.

The inputs of a call are prepared before its first use and not counted. The first `lead` of a process
therefore finds no code that has run before.
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
from kafka_assignors.messages import encode_assignments, read_members
from kafka_assignors.strategies.sticky import CooperativeSticky

Call = Callable[[], object]
Calls = dict[str, Callable[[], Call]]
"""By the name of a call: the function that prepares it."""


def ours(file: GroupFile) -> Calls:
    strategy = CooperativeSticky()

    def assign() -> Call:
        group = Group.of(file.topics, read_members(strategy, file.cooperative).members)
        # A copy has no judged claims yet, because judging them is part of the call.
        return lambda: strategy.assign(replace(group))

    def lead() -> Call:
        return lambda: encode_assignments(
            strategy, read_members(strategy, file.cooperative), file.topics, None
        )

    return {"assign": assign, "lead": lead}


def kafka_python(file: GroupFile) -> Calls:
    import kafka.coordinator.assignors.sticky.sticky_assignor as kafka_sticky
    import kafka.protocol.consumer.metadata as kafka_protocol
    from kafka.structs import TopicPartition

    assignor: Any = kafka_sticky.StickyPartitionAssignor
    protocol: Any = kafka_protocol
    cluster = _cluster(file)

    def assign() -> Call:
        members: list[Any] = [
            SimpleNamespace(
                member_id=member.id,
                metadata=assignor._metadata(
                    sorted(member.topics), _owned(member, TopicPartition), member.generation
                ),
            )
            for member in _members(file)
        ]
        return lambda: assignor().assign(cluster, members)

    def once() -> object:
        decode = protocol.ConsumerProtocolSubscription.decode
        members = [SimpleNamespace(member_id=m.member_id, metadata=decode(m.metadata)) for m in file.eager]
        return {id: given.encode() for id, given in assignor().assign(cluster, members).items()}

    return {"assign": assign, "lead": lambda: once}


def aiokafka(file: GroupFile) -> Calls:
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.coordinator.protocol import ConsumerProtocol
    from aiokafka.structs import TopicPartition

    cluster = _cluster(file)

    def assign() -> Call:
        members = {
            member.id: StickyPartitionAssignor._metadata(
                sorted(member.topics), _owned(member, TopicPartition), member.generation
            )
            for member in _members(file)
        }
        return lambda: StickyPartitionAssignor.assign(cluster, members)

    def once() -> object:
        members = {m.member_id: ConsumerProtocol.METADATA.decode(m.metadata) for m in file.eager}
        return {id: given.encode() for id, given in StickyPartitionAssignor.assign(cluster, members).items()}

    return {"assign": assign, "lead": lambda: once}


def _members(file: GroupFile) -> tuple[Member, ...]:
    return read_members(CooperativeSticky(), file.cooperative).members


def _owned(member: Member, kind: Callable[[str, int], Any]) -> list[Any] | None:
    return [kind(topic, partition) for topic, owned in member.owned.items() for partition in owned] or None


def _cluster(file: GroupFile) -> Any:
    """The part of a client's metadata that these assignors use."""
    partitions = {topic.name: set(range(topic.partitions)) for topic in file.topics}
    return SimpleNamespace(topics=partitions.keys, partitions_for_topic=partitions.get)


def main() -> None:
    name, path = sys.argv[1:]
    contestants = {"ours": ours, "kafka-python": kafka_python, "aiokafka": aiokafka}
    prepare = contestants[name](read_group_file(Path(path)))
    prepared: dict[str, Call] = {}
    for line in sys.stdin:
        question = json.loads(line)
        what = question["do"]
        if what not in prepared:
            prepared[what] = prepare[what]()
        call = prepared[what]
        gc.collect()
        start = time.process_time_ns()
        for _ in range(question["calls"]):
            call()
        print(json.dumps({"cpu_ns": time.process_time_ns() - start}), flush=True)


if __name__ == "__main__":
    main()
