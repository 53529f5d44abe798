"""What the assignors of all clients have in common: a strategy, and the memory of its consumers.

A client's adapter adds the client's own interface on top and knows where the bytes come from; everything that
is the same for every client is here or in `kafka_assignors.joining`. There is no I/O; findings go to the
logger of the adapter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from logging import Logger
from types import FrameType
from typing import ClassVar, TypeVar
from weakref import WeakKeyDictionary

from kafka_assignors import joining
from kafka_assignors.group import Topic, TopicPartitions
from kafka_assignors.joining import Joined, JoinedMember, LastAssignment
from kafka_assignors.strategies.contract import RebalanceProtocol, Strategy

__all__ = ["EagerAssignor", "caller_of"]

Caller = TypeVar("Caller")


def caller_of(kind: type[Caller]) -> Caller | None:
    """The nearest object of this kind, one of whose methods is in the call stack; None if there is none.

    Clients never tell an assignor for which consumer it is called.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, kind):
            return caller
        frame = frame.f_back
    return None


class EagerAssignor:
    """One strategy in the eager consumers of a process.

    All state is what each consumer was last assigned, kept apart by consumer and forgotten with it, so one
    instance may serve several consumers. A consumer is known by its coordinator, whatever that is in the
    client.
    """

    log: ClassVar[Logger]
    """Where an adapter says what was odd about the members."""

    def __init__(
        self, strategy: Strategy, *, rack: str | None = None, instance_id: str | None = None
    ) -> None:
        """Raises TypeError or ValueError for anything that could only fail at the first rebalance."""
        self._strategy = joining.require_strategy(strategy)
        if RebalanceProtocol.EAGER not in strategy.protocols:
            raise ValueError(
                f"strategy {strategy.name!r} cannot run under the eager protocol, the only one here"
            )
        self._rack = joining.optional_name("rack", rack)
        self._instance_id = joining.optional_name("instance_id", instance_id)
        self._last: WeakKeyDictionary[object, LastAssignment] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._strategy!r})"

    @property
    def name(self) -> str:
        """What the members of the group vote on."""
        return self._strategy.name

    def subscription_of(self, coordinator: object, topics: Iterable[str], instance_id: str | None) -> bytes:
        """The bytes that a consumer joins with; `instance_id` is what the client knows of it."""
        return joining.subscription_bytes(
            self._strategy,
            topics,
            self._last.get(coordinator, joining.NEVER_ASSIGNED),
            instance_id=self._instance_id or instance_id,
            rack=self._rack,
        )

    def remember(self, coordinator: object, partitions: TopicPartitions, generation: int) -> None:
        """Keep what a consumer was assigned: it says so when it joins again."""
        self._last[coordinator] = LastAssignment(partitions, generation)

    def read_members(self, joined: Iterable[JoinedMember]) -> Joined:
        """Decode what the members sent; never fails because of one of them."""
        return joining.read_members(self._strategy, joined)

    def answer(self, joined: Joined, topics: Iterable[Topic], generation: int | None) -> Mapping[str, bytes]:
        """The bytes of every member's assignment, as the leader of `generation` (None if unknown)."""
        answer = joining.answer(self._strategy, joined, topics, generation)
        for finding in answer.findings:
            self.log.warning("%s: %s", self.name, finding)
        return answer.assignments
