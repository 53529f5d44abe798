"""Members that hold a group in the middle of a join, expel a member, or read the group's offsets."""

from __future__ import annotations

import contextlib
import time

from compat_tests.hostile.raw_member import (
    RawConnection,
    RawMember,
    RawMemberError,
    int16,
    int32,
    string,
)
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka

_REBALANCE_IN_PROGRESS = 27
_OFFSET_FETCH = (9, 2)
_COMES_LATER = (14, 15, 16)
"""The coordinator loads the group, is not available yet, or has moved."""


def subscription_to(*topics: str) -> bytes:
    """A ConsumerProtocolSubscription of version 0."""
    return int16(0) + int32(len(topics)) + b"".join(string(topic.encode()) for topic in topics) + int32(-1)


class Holder(RawMember):
    """A member that stays in its generation while the group rebalances, so that the rebalance waits for it.

    The group goes on when the holder leaves, at the end of the context.
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
        """End the holder without leaving, if the group waits for a consumer that does not rejoin."""
        self._connection.shut_down()

    def ask_to_end(self) -> None:
        """Make the holder leave, without waiting."""
        self._stop.set()


class _Expeller(RawMember):
    def expel(self, member_id: str) -> None:
        self._member_id = member_id
        with contextlib.closing(self._coordinator()) as connection:
            self._leave(connection)


def expel(bootstrap: str, group: str, member_id: str) -> None:
    """Remove a member from its group, as an administrator can. The next response tells the member."""
    _Expeller(bootstrap, group, metadata=b"", client_id="administrator").expel(member_id)


class _Reader(RawMember):
    def offsets(self) -> dict[tuple[str, int], int]:
        found = {}
        with contextlib.closing(self._coordinator()) as connection:
            response = connection.ask(_OFFSET_FETCH, string(self._group.encode()) + int32(-1))
        for _ in range(response.int32()):
            topic = response.text() or ""
            for _ in range(response.int32()):
                partition, offset = response.int32(), response.int64()
                response.text()
                response.int16()
                found[topic, partition] = offset
        if code := response.int16():
            raise RawMemberError("OffsetFetch", code)
        return {partition: offset for partition, offset in found.items() if offset >= 0}


def committed(kafka: Kafka, group: str) -> dict[tuple[str, int], int]:
    """The committed offsets of a group, by topic and partition.

    librdkafka's admin client, called by many threads, crashes if the coordinator is loading the group.
    """
    deadline = time.monotonic() + HANG_S
    while True:
        try:
            return _Reader(kafka.bootstrap, group, metadata=b"", client_id="reader").offsets()
        except RawMemberError as error:
            if error.code not in _COMES_LATER or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
