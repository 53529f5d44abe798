"""Strategies as a user of the library might write them, for the tests of the clients."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.group import Assignment, Group, Member
from kafka_assignors.strategies.contract import MemberContext, RebalanceProtocol


@dataclass(frozen=True)
class Reversed:
    """The partitions of each topic in turn, to the members in reverse order."""

    name: str = "test-reversed"
    version: int = 1
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def assign(self, group: Group) -> Assignment:
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
        for topic in group.topics.values():
            readers = sorted((m.id for m in group.members.values() if topic.name in m.topics), reverse=True)
            for partition in range(topic.partitions if readers else 0):
                shares[readers[partition % len(readers)]].setdefault(topic.name, []).append(partition)
        return Assignment(shares)


@dataclass(frozen=True)
class NearestRack:
    """Everything to the first member that is in the rack of a replica; to the last of all where none is."""

    name: str = "test-nearest-rack"
    version: int = 1
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def assign(self, group: Group) -> Assignment:
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
        by_id = sorted(group.members.values(), key=lambda member: member.id)
        for topic in group.topics.values():
            readers = [member for member in by_id if topic.name in member.topics]
            for partition in range(topic.partitions if readers else 0):
                racks = topic.replica_racks[partition] if topic.replica_racks else frozenset()
                near = [member for member in readers if member.rack in racks]
                chosen = (near or readers[::-1])[0]
                shares[chosen.id].setdefault(topic.name, []).append(partition)
        return Assignment(shares)


@dataclass(frozen=True)
class ToldByInstance:
    """Each member sends its instance id as member data; everything goes to the one that said "pod-1"."""

    name: str = "test-told-by-instance"
    version: int = 1
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def member_data(self, member: MemberContext) -> bytes:
        return (member.instance_id or "").encode()

    def assign(self, group: Group) -> Assignment:
        def first(member: Member) -> tuple[bool, str]:
            return member.data != b"pod-1", member.id

        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
        for topic in group.topics.values():
            readers = [member for member in group.members.values() if topic.name in member.topics]
            if readers:
                shares[min(readers, key=first).id][topic.name] = list(range(topic.partitions))
        return Assignment(shares)


@dataclass(frozen=True)
class Forgetful:
    """Leaves the last partition of every topic out, which no leader may accept."""

    name: str = "test-forgetful"
    version: int = 1
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def assign(self, group: Group) -> Assignment:
        whole = Reversed().assign(group).members
        return Assignment(
            {
                member_id: {
                    topic: kept
                    for topic, partitions in share.items()
                    if (kept := [p for p in partitions if p != group.topics[topic].partitions - 1])
                }
                for member_id, share in whole.items()
            }
        )
