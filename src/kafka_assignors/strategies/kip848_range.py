"""`kip848-range`: what a broker's assignor `range` gives to the members of a KIP-848 group.

Topic by topic, consecutive partitions to consecutive members: with P partitions and n subscribers everybody
gets P // n of them, and the first P % n one more. Static members come first, ordered by instance id, then the
others by member id. Neither racks nor earlier ownership play a part, which is what sets it apart from the
clients' `range` (KIP-881). Nothing in it depends on a hash table.

Equal to `org.apache.kafka.coordinator.group.assignor.RangeAssignor` of Kafka 4.4 for every group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies._order import in_java_order, topics_by_subscribers
from kafka_assignors.strategies.range import ranges
from kafka_assignors.strategy import RebalanceProtocol, Strategy

__all__ = ["Kip848Range"]


@dataclass(frozen=True, slots=True)
class Kip848Range(Strategy):
    """The broker's `range` (KIP-848): contiguous ranges of each topic, without a look at racks.

    Time is linear in the topics times their subscribers.
    """

    name = "kip848-range"
    protocols = (RebalanceProtocol.CONSUMER,)

    def assign(self, group: Group) -> Assignment:
        """The target of the group's next epoch."""
        members = in_java_order(group.members.values())
        assigned: list[dict[str, Sequence[int]]] = [{} for _ in members]
        for subscribers, topics in topics_by_subscribers(group, members):
            for topic in topics:
                shares = ranges(topic.partitions, len(subscribers))
                # Where there are fewer partitions than subscribers, the last of them have no range.
                for position, share in zip(subscribers, shares, strict=False):
                    assigned[position][topic.name] = share
        return Assignment({member.id: topics for member, topics in zip(members, assigned, strict=True)})
