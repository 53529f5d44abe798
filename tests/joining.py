"""What members join with, for tests of their leader."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_assignors.assignor import Assignor
from kafka_assignors.messages import LastAssignment
from kafka_assignors.strategy import Strategy

__all__ = ["subscription_bytes"]


def subscription_bytes(
    strategy: Strategy,
    topics: Iterable[str],
    last: LastAssignment,
    *,
    instance_id: str | None = None,
    rack: str | None = None,
    held: bool = False,
) -> bytes:
    """The bytes of the subscription of a member of this strategy."""
    assignor = Assignor(strategy, shared_name=True)
    return assignor.subscription_with(last, topics, instance_id, rack, held=held)
