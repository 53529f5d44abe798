"""A strategy of your own: members announce their capacity, and get their share of the partitions.

The same object runs in both clients (`aiokafka/custom_strategy.py`, `kafka_python/custom_strategy.py`), which
may even share a group, and on the command line, where you can try it first:

    $ kafka-assignors assign examples/group.json --strategy examples/by_capacity.py:ByCapacity
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors import Assignment, Group, Member
from kafka_assignors.strategies import MemberContext, RebalanceProtocol, Strategy

__all__ = ["ByCapacity"]


@dataclass(frozen=True, slots=True)
class ByCapacity(Strategy):
    """Assign each partition to the subscriber with the most capacity left.

    `capacity` is a positive whole number, in a unit that all members agree on (such as cores): a member with
    twice the capacity gets twice the partitions.
    """

    capacity: int = 1
    name: str = "example-by-capacity"  # the members vote on it, so no other strategy may have it
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"capacity must be above 0, not {self.capacity}")

    def member_data(self, member: MemberContext) -> bytes:
        """The bytes that this member sends to the leader."""
        return str(self.capacity).encode()

    def assign(self, group: Group) -> Assignment:
        # Use only the group's contents, in an order of our own: every leader must get the same result.
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
    # Other processes, perhaps of another release, wrote these bytes: invalid ones must not stop the group.
    text = member.data.decode("ascii", "replace")
    return max(1, int(text)) if text.isdecimal() and len(text) < 10 else 1
