"""What members join with, for tests of their leader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Assignment, Group
from kafka_assignors.messages import LastAssignment
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy


@dataclass(frozen=True)
class Talkative(Strategy):
    """A strategy with any name, whose members send `data` to the leader."""

    name: str
    data: bytes = b""
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def assign(self, group: Group) -> Assignment:
        return Assignment({member_id: {} for member_id in group.members})

    def member_data(self, member: MemberContext) -> bytes:
        return self.data


def subscription_bytes(
    strategy: Strategy,
    topics: Iterable[str],
    last: LastAssignment,
    *,
    rack: str | None = None,
    held: bool = False,
) -> bytes:
    """The bytes of the subscription of a member of this strategy."""
    assignor = Assignor(strategy, shared_name=True)
    return assignor.subscription_with(last, topics, None, rack, held=held)
