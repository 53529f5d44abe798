"""Strategies as a user of the library might write them, for the tests of the clients."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, ClassVar

from compat_tests.support.member_reports import STRATEGIES
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies import CooperativeSticky
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy


@dataclass(frozen=True)
class Reversed(Strategy):
    """Assigns the partitions of each topic in turn, to the members in reverse order."""

    name: str = "test-reversed"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def assign(self, group: Group) -> Assignment:
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
        for topic in group.topics.values():
            readers = sorted((m.id for m in group.members.values() if topic.name in m.topics), reverse=True)
            for partition in range(topic.partitions if readers else 0):
                shares[readers[partition % len(readers)]].setdefault(topic.name, []).append(partition)
        return Assignment(shares)


@dataclass(frozen=True)
class Forgetful(Reversed):
    """Leaves out the last partition of every topic; a leader must reject this."""

    name: str = "test-forgetful"

    def assign(self, group: Group) -> Assignment:
        whole = super().assign(group).members
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


@dataclass(frozen=True)
class Witness(Reversed):
    """Members send their instance ids, and the leader logs the group as JSON."""

    log: ClassVar = logging.getLogger(STRATEGIES)

    name: str = "test-witness"

    def member_data(self, member: MemberContext) -> bytes:
        return (member.instance_id or "").encode()

    def assign(self, group: Group) -> Assignment:
        self.log.warning("%s", json.dumps(self._seen(group)))
        return super().assign(group)

    def _seen(self, group: Group) -> dict[str, Any]:
        return {
            "generation": group.generation,
            "topics": {
                topic.name: [sorted(racks) for racks in topic.replica_racks or [()] * topic.partitions]
                for topic in group.topics.values()
            },
            "members": {
                member.id: {
                    "topics": sorted(member.topics),
                    "instance_id": member.instance_id,
                    "rack": member.rack,
                    "owned": {topic: list(partitions) for topic, partitions in member.owned.items()},
                    "generation": member.generation,
                    "data": member.data.hex(),
                }
                for member in group.members.values()
            },
        }


@dataclass(frozen=True)
class CooperativeOnly(CooperativeSticky):
    """`CooperativeSticky` without the eager protocol."""

    name: str = "test-cooperative-only"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE,)
