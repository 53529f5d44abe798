"""A strategy of your own: members say how much they can carry, and get their share of the partitions.

The same object runs in both clients (`aiokafka/custom_strategy.py`, `kafka_python/custom_strategy.py`), which
may even share a group, and on the command line, before it runs anywhere else:

    $ kafka-assignors assign examples/group.json --strategy examples/by_capacity.py:ByCapacity
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors import Assignment, Group, Member
from kafka_assignors.strategies import MemberContext, RebalanceProtocol, Strategy

__all__ = ["ByCapacity"]


@dataclass(frozen=True, slots=True)
class ByCapacity(Strategy):
    """Each partition goes to the subscriber with the most capacity left for another one.

    `capacity` is a whole number above 0, in a unit that all members agree on (cores, say): a member with
    twice the capacity gets twice the partitions.
    """

    capacity: int = 1
    name: str = "example-by-capacity"  # what the members vote on, so no other strategy may have it
    version: int = 1
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"capacity must be above 0, not {self.capacity}")

    def member_data(self, member: MemberContext) -> bytes:
        """What this member tells the leader, whichever member that is."""
        return str(self.capacity).encode()

    def assign(self, group: Group) -> Assignment:
        # Only what the group says counts, in an order of our own: any leader must come to the same answer.
        members = sorted(group.members.values(), key=lambda member: (member.instance_id or "", member.id))
        capacities = {member.id: _capacity_of(member) for member in members}
        loads = dict.fromkeys(capacities, 0)
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in capacities}
        for topic in sorted(group.topics.values(), key=lambda topic: topic.name):
            readers = [member.id for member in members if topic.name in member.topics]
            if not readers:
                continue
            for partition in range(topic.partitions):
                chosen = min(readers, key=lambda reader: (loads[reader] + 1) / capacities[reader])
                shares[chosen].setdefault(topic.name, []).append(partition)
                loads[chosen] += 1
        return Assignment(shares)


def _capacity_of(member: Member) -> int:
    # Other processes wrote this, perhaps another release: bytes that are no number must not end the group.
    text = member.data.decode("ascii", "replace")
    return max(1, int(text)) if text.isdecimal() and len(text) < 10 else 1
