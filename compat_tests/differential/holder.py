"""Members that hold a group in one place: in the middle of a join, or without one of its members."""

from __future__ import annotations

import contextlib

from compat_tests.hostile.raw_member import RawConnection, RawMember, int16, int32, string
from compat_tests.kafka_cluster import Kafka

__all__ = ["Holder", "expel", "subscription_to"]

_REBALANCE_IN_PROGRESS = 27


def subscription_to(*topics: str) -> bytes:
    """A ConsumerProtocolSubscription of version 0."""
    return int16(0) + int32(len(topics)) + b"".join(string(topic.encode()) for topic in topics) + int32(-1)


class Holder(RawMember):
    """A member that stays in its generation while the group rebalances, which therefore waits for it.

    The group goes on as soon as the holder leaves, at the end of the context.
    """

    def _stay(self, connection: RawConnection) -> None:
        generation = self._assignments[-1].generation
        while not self._stop.wait(0.1):
            response = connection.ask((12, 3), self._of_generation(generation))
            response.int32()
            if response.int16() not in (0, _REBALANCE_IN_PROGRESS):
                return

    def _coordinator(self) -> RawConnection:
        self._connection = super()._coordinator()
        return self._connection

    def abandon(self) -> None:
        """End it without leaving: the group waits for a consumer that does not join again."""
        self._connection.shut_down()

    def ask_to_end(self) -> None:
        """Have it leave, without waiting for that."""
        self._stop.set()


class _Expeller(RawMember):
    def expel(self, member_id: str) -> None:
        self._member_id = member_id
        with contextlib.closing(self._coordinator()) as connection:
            self._leave(connection)


def expel(kafka: Kafka, group: str, member_id: str) -> None:
    """Take a member out of its group, as an administrator can. It learns of that with its next request."""
    _Expeller(kafka.bootstrap, group, metadata=b"", client_id="administrator").expel(member_id)
