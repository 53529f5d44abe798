"""Round robin: all partitions, in order, dealt to all members, in order.

Topics are taken by name, the partitions of a topic by number, and one dealer goes round the members for all
of them: a member that does not subscribe to the topic is skipped, and the next topic goes on where the last
one stopped.

The dealer's steps within a topic repeat with the number of its subscribers, so the member he starts with gets
every m-th partition from 0, the next one every m-th from 1, and so on: a `range` each, without a look at
single partitions.

Equal to `RoundRobinAssignor` of kafka-clients for every group and every leader. Racks and earlier ownership
play no part.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies.java_order import in_java_order, java_order, topics_by_subscribers
from kafka_assignors.strategy import RebalanceProtocol, Strategy

__all__ = ["RoundRobin"]


@dataclass(frozen=True, slots=True)
class RoundRobin(Strategy):
    """Kafka's `roundrobin`: partitions dealt one by one to the members that subscribe to their topic.

    Loads differ by one at most when all members subscribe to the same topics; otherwise there is no such
    bound. Time is linear in the topics times the members that get something of them.
    """

    name = "roundrobin"
    protocols = (RebalanceProtocol.EAGER,)

    def assign(self, group: Group) -> Assignment:
        members = in_java_order(group.members.values())
        subscribed = [
            (topic, subscribers)
            for subscribers, topics in topics_by_subscribers(group, members)
            for topic in topics
        ]
        subscribed.sort(key=lambda entry: java_order(entry[0].name))
        dealt: list[dict[str, range]] = [{} for _ in members]
        turn = 0
        for topic, subscribers in subscribed:
            # The next subscriber of this lap round the members, else the first one of the next lap.
            first = bisect_left(subscribers, turn) % len(subscribers)
            served = subscribers[first:] + subscribers[:first]
            # A topic with fewer partitions than subscribers ends before every subscriber has had one.
            for partition, position in enumerate(served[: topic.partitions]):
                dealt[position][topic.name] = range(partition, topic.partitions, len(subscribers))
            turn = served[(topic.partitions - 1) % len(served)] + 1
        return Assignment({member.id: topics for member, topics in zip(members, dealt, strict=True)})
